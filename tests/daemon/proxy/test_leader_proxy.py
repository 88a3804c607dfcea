"""The leader proxy on real brokers, with unmodified consumers of several clients."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import chain, cycle

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.protocol.records import TopicRecord
from levelwind.daemon.proxy.leader_proxy import LeaderProxy
from levelwind.daemon.proxy.settings import ProxySettings
from levelwind_testing.kafka.classic_members import (
    ConfluentMember,
    JavaMember,
    KafkaPythonMember,
    again_where_a_member_stalled,
)
from levelwind_testing.kafka.console_consumer import CLIENT_ID, ConsoleConsumer
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PARTITIONS = 6
LEAD_SECONDS = 360.0
"""Time in which all members may leave and come again."""
SETTINGS = ProxySettings(session_timeout=30.0, heartbeat_interval=0.5, retry=0.5)
"""On a busy machine, too, the next proxy comes within the session."""


class Scene:
    """A proxy, its groups, and what it logged."""

    def __init__(self, bootstrap, kafka, fresh, log):
        self.settings = SETTINGS
        self.bootstrap, self.kafka, self.fresh, self.log = bootstrap, kafka, fresh, log
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.layouts, self.standings, self.members, self.led = {}, {}, {}, {}
        self.last_plan = None
        self.group, self.topic = fresh("group"), fresh("orders")
        self.make_topic(self.topic)
        self.proxy, self.epoch = None, 0

    def make_topic(self, name, partitions=PARTITIONS):
        self.kafka.create(name, partitions)
        self.see_topic(name)

    def see_topic(self, name):
        found = self.admin.list_topics(name, timeout=10).topics[name].partitions
        self.layouts[name] = TopicRecord(
            topic=name,
            at=1,
            id=f"{name:A<22}"[:22],
            leader=tuple(1 for _ in found),
            replicas=tuple((1,) for _ in found),
            isr=tuple((1,) for _ in found),
            racks=tuple(("a",) for _ in found),
        )
        return self.layouts[name]

    def have_committed(self):
        """Let the group read a record and commit."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(self.topic, b"x")
        producer.flush(30)
        asked = ConsumerGroupTopicPartitions(self.group)

        def committed():
            (answer,) = self.admin.list_consumer_group_offsets([asked]).values()
            return any(found.offset > 0 for found in answer.result(30).topic_partitions)

        self.wait(committed, "commit")

    def start(self, *groups):
        self.proxy = LeaderProxy(
            groups or (self.group,),
            {"bootstrap.servers": self.bootstrap},
            "proxy",
            self.settings,
            lambda: self.layouts,
            lambda group, standing, reason: self.standings.update({group: (standing, reason)}),
            lambda group, members: self.led.update({group: members}),
            self.log,
        )
        self.proxy.start()

    def start_again(self):
        """Start another proxy, as the next daemon does: with the plan in force."""
        self.standings.clear()
        self.start()
        self.proxy.apply(self.group, self.last_plan)

    def join(self, name, kind=ConfluentMember, **config):
        member = kind(self.bootstrap, self.group, [self.topic], **config)
        member.start()
        self.members[name] = member

    def plan(self, **shares):
        """Publish a plan; shares name members by their names here."""
        self.epoch += 1
        assignments = {
            self.name_of(name): {self.topic: tuple(numbers)} for name, numbers in shares.items()
        }
        self.last_plan = PublishedPlan(epoch=PlanEpoch(1, self.epoch), assignments=assignments)
        self.proxy.apply(self.group, self.last_plan)

    def name_of(self, name):
        member = self.members.get(name)
        return name if member is None or name.startswith("s") else member.member_id

    def held(self):
        return {
            name: sorted(number for _, number in member.held)
            for name, member in self.members.items()
        }

    def numbers(self):
        return sorted(chain.from_iterable(self.held().values()))

    def settled(self):
        return self.numbers() == list(range(PARTITIONS))

    def follows(self, **shares):
        return self.held() == {name: sorted(numbers) for name, numbers in shares.items()}

    def at_rest(self, *names):
        """Whether the last round is over, and members of these names are in its generation."""
        last = self.log.of("proxy.assigned")[-1]
        generations = {self.members[name].generation for name in names}
        return not last["withheld"] and generations == {last["generation"]}

    def standing(self):
        return self.standings.get(self.group, ("", ""))[0]

    def wait(self, condition, what):
        return wait_until(what, condition, shown=self.shown)

    def shown(self):
        failed = {name: member.failure for name, member in self.members.items()}
        return f"{self.held()} {failed} {self.standings} {self.log.events[-12:]}"

    def lead(self):
        """Make the proxy the leader: everybody else leaves and comes again, one after the other."""
        self.wait(lambda: self.standing() in {"waiting for the lead", "leading"}, "proxy")
        names = cycle(list(self.members))

        def leads():
            self.wait(lambda: self.settled() and all(self.held().values()), "settled group")
            if self.standing() == "leading":
                return True
            member = self.members.pop(name := next(names))
            member.stop()
            self.join(name, type(member), **member.made_with)
            return False

        wait_until("lead", leads, LEAD_SECONDS, pause=0, shown=self.shown)


@pytest.fixture
def make_scene(cluster, kafka, fresh, log):
    with ExitStack() as stack:

        def make():
            stack.close()  # what an attempt before has left
            log.events.clear()
            made = Scene(cluster.bootstrap, kafka, fresh, log)
            stack.callback(lambda: made.proxy and made.proxy.stop())
            stack.callback(lambda: [member.stop() for member in made.members.values()])
            return made

        yield make


@pytest.fixture
def scene(make_scene):
    return make_scene()


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "cooperative-sticky"])
def test_unmodified_confluent_consumers_follow(scene, protocol):
    scene.settings = replace(SETTINGS, session_timeout=6.0)
    strategy = {"partition.assignment.strategy": protocol}
    scene.join("a", **strategy)
    scene.join("b", **strategy)
    scene.wait(lambda: scene.settled() and all(scene.held().values()), "group of its own")
    scene.start()
    scene.plan(a=[0, 1, 2], b=[3, 4, 5])
    scene.lead()
    scene.plan(a=[0, 1, 5], b=[2, 3, 4])
    scene.wait(lambda: scene.follows(a=[0, 1, 5], b=[2, 3, 4]), "plan")
    scene.plan(a=[2, 3, 4, 5], b=[0, 1])
    scene.wait(lambda: scene.follows(a=[2, 3, 4, 5], b=[0, 1]), "newer plan")
    # A member that no plan names gets something at once.
    scene.join("c", **strategy)
    scene.wait(lambda: scene.settled() and scene.held()["c"], "third member")
    led = scene.led[scene.group]
    assert {name: sorted(member.share.get(scene.topic, ())) for name, member in led.items()} == {
        scene.name_of(name): held for name, held in scene.held().items()
    }
    # The proxy ends for good: the group goes on by itself after its session.
    scene.proxy.stop()
    scene.members.pop("c").stop()
    scene.wait(scene.settled, "group without the proxy")
    assert scene.log.of("proxy.left") == scene.log.of("proxy.failed") == []


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@again_where_a_member_stalled
def test_clients_of_three_kinds_and_a_static_member_follow_in_one_group(make_scene, java, protocol):
    scene = make_scene()
    kafka_python = pytest.importorskip("kafka.coordinator.assignors")
    names = {
        "range": ("RangeAssignor", "range.RangePartitionAssignor"),
        "cooperative-sticky": (
            "CooperativeStickyAssignor",
            "cooperative_sticky.CooperativeStickyAssignor",
        ),
    }
    in_java, in_python = names[protocol]
    module, _, kind = in_python.partition(".")
    import_module(f"kafka.coordinator.assignors.{module}")
    scene.join("a", **{"partition.assignment.strategy": protocol})
    scene.wait(lambda: scene.held()["a"], "first member")
    scene.start()
    scene.plan(a=[0, 1, 2, 3, 4, 5])
    scene.wait(lambda: scene.standing() == "waiting for the lead", "membership")
    # The others come, and the first leader goes: the proxy leads soon after.
    # Without commits at each rebalance, in which kafka-python waits for their time-out.
    scene.join(
        "k",
        KafkaPythonMember,
        assignors=[getattr(getattr(kafka_python, module), kind)],
        enable_auto_commit=False,
    )
    strategy = {"partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{in_java}"}
    scene.join("j", JavaMember, kafka=java, **strategy)
    scene.lead()
    # A static member that led would keep the lead whenever it restarts.
    static = {"group.instance.id": "s", "partition.assignment.strategy": protocol}
    scene.join("s", **static)
    scene.wait(lambda: scene.settled() and scene.held()["s"], "static member")
    shares = {"a": [0], "k": [1, 2], "j": [3], "s": [4, 5]}
    scene.plan(**shares)
    scene.wait(lambda: scene.follows(**shares) and scene.at_rest("k", "j"), "plan")
    # The daemon ends, and the next one leads on: the group has no round, and the same members.
    names = {name: member.member_id for name, member in scene.members.items()}
    changes = {name: list(member.changes) for name, member in scene.members.items()}
    generation = scene.log.of("proxy.assigned")[-1]["generation"]
    scene.proxy.stop()
    scene.start_again()
    scene.wait(lambda: scene.standing() == "leading", "lead of the next daemon")
    assert scene.log.of("proxy.leading")[-1]["generation"] == generation
    assert {name: member.changes for name, member in scene.members.items()} == changes
    shares = {"a": [5, 4], "k": [3], "j": [2, 1], "s": [0]}
    scene.plan(**shares)
    scene.wait(partial(scene.follows, **shares), "plan of the next daemon")
    assert {name: member.member_id for name, member in scene.members.items()} == names
    # While a client still led, it may have given partitions to the proxy, which subscribes to none:
    # rare, and the proxy leaves for a moment.
    reasons = [event["reason"] for event in scene.log.of("proxy.left")]
    assert [reason for reason in reasons if "gave the proxy partitions" not in reason] == []
    assert scene.log.of("proxy.failed") == []


def test_a_proxy_becomes_the_next_to_lead_in_the_one_round_in_which_it_joins(scene, java):
    scene.join("j", JavaMember, kafka=java)
    for name in "abcde":
        scene.join(name)
    scene.wait(lambda: scene.settled() and all(scene.held().values()), "group of its own")
    before = scene.members["j"].generation
    scene.start()
    scene.plan(j=[0], a=[1], b=[2], c=[3], d=[4], e=[5])
    scene.wait(lambda: scene.standing() == "waiting for the lead", "membership")
    # Most ids that the brokers draw come behind another member's: others were asked for since.
    (line,) = scene.log.of("proxy.waiting_for_lead")
    assert line["generation"] == before + 1
    scene.wait(lambda: scene.members["j"].generation == before + 1, "round")


def test_a_proxy_that_takes_over_fences_the_former_one_which_goes_silently(scene):
    scene.join("a")
    scene.join("b")
    scene.wait(lambda: scene.settled() and all(scene.held().values()), "group of its own")
    scene.start()
    scene.plan(a=[0, 1, 2], b=[3, 4, 5])
    scene.lead()
    former, scene.proxy = scene.proxy, None
    try:
        scene.start_again()
        scene.wait(lambda: scene.log.of("proxy.fenced"), "fenced proxy")
    finally:
        former.stop()
    scene.wait(lambda: len(scene.log.of("proxy.leading")) == 2, "lead of the next one")
    scene.plan(a=[0, 1, 5], b=[2, 3, 4])
    scene.wait(lambda: scene.follows(a=[0, 1, 5], b=[2, 3, 4]), "plan")
    assert scene.log.of("proxy.left") == scene.log.of("proxy.left_silently") == []


def test_a_proxy_that_comes_back_leads_the_round_that_waited_for_it(scene):
    scene.join("a")
    scene.join("b")
    scene.wait(lambda: scene.settled() and all(scene.held().values()), "group of its own")
    scene.start()
    scene.plan(a=[0, 1, 2], b=[3, 4, 5])
    scene.lead()
    names = {name: member.member_id for name, member in scene.members.items()}
    scene.proxy.stop()
    scene.join("c")
    scene.wait(lambda: not scene.numbers(), "round of the newcomer")
    scene.start_again()
    scene.wait(lambda: scene.standing() == "leading", "lead of the next proxy")
    scene.wait(lambda: scene.settled() and scene.held()["c"], "round with the newcomer")
    assert {name: scene.name_of(name) for name in names} == names
    scene.plan(a=[0, 1], b=[2, 3], c=[4, 5])
    scene.wait(lambda: scene.follows(a=[0, 1], b=[2, 3], c=[4, 5]), "plan")
    assert scene.log.of("proxy.left") == scene.log.of("proxy.failed") == []
    assert len(scene.log.of("proxy.leading")) == 2


def test_kafkas_console_consumer_follows(scene):
    """It shows nobody what it has but the brokers, and reads what it was assigned."""
    with ExitStack() as stack:

        def start_console():
            heartbeat = {"heartbeat.interval.ms": "500"}
            console = ConsoleConsumer(scene.bootstrap, scene.group, scene.topic, heartbeat)
            stack.callback(console.stop)
            return console

        def described():
            """Member id and partitions of the console consumer, as the brokers have them."""
            group = described_group(scene.admin, scene.group)
            return next(
                (
                    (member.member_id, sorted(n.partition for n in assigned.topic_partitions))
                    for member in group.members
                    if member.client_id == CLIENT_ID and (assigned := member.assignment)
                ),
                ("", []),
            )

        def shared():
            held = [*scene.numbers(), *described()[1]]
            return sorted(held) == list(range(PARTITIONS)) and scene.held()["a"] and described()[1]

        scene.join("a")
        console = start_console()
        scene.wait(shared, "group of its own")
        scene.start()
        scene.plan(a=[0, 1, 2, 3, 4, 5])
        scene.wait(lambda: scene.standing() == "waiting for the lead", "membership")
        for name in cycle(["a", "console"]):
            if scene.standing() == "leading":
                break
            if name == "a":
                scene.members.pop("a").stop()
                scene.join("a")
            else:
                console.stop()
                console = start_console()
            scene.wait(shared, "group")
        member_id = described()[0]
        for own, others in (([0, 5], [1, 2, 3, 4]), ([1, 2, 3, 4], [0, 5])):
            scene.plan(**{"a": own, member_id: others})
            scene.wait(lambda own=own: scene.follows(a=own), "plan of the one")
            wanted = (member_id, others)
            scene.wait(lambda wanted=wanted: described() == wanted, "plan of the console consumer")
        producer = Producer({"bootstrap.servers": scene.bootstrap})
        for number in range(PARTITIONS):
            producer.produce(scene.topic, f"then {number}", partition=number)
        assert producer.flush(30) == 0
        scene.wait(lambda: {number for number, _ in console.read} == {0, 5}, "what it was assigned")
    assert scene.log.of("proxy.left") == scene.log.of("proxy.failed") == []


def test_a_static_leader_keeps_the_lead_and_the_proxy_says_so(scene):
    static = {"group.instance.id": "s", "session.timeout.ms": 6000}
    scene.join("s", **static)
    scene.wait(lambda: scene.held()["s"], "leader")
    scene.join("a")
    scene.join("b")
    scene.wait(lambda: scene.settled() and all(scene.held().values()), "group of its own")
    scene.start()
    scene.plan(s=[0, 1], a=[2, 3], b=[4, 5])
    scene.wait(lambda: scene.standings.get(scene.group, ("", ""))[1], "reason")
    standing, reason = scene.standings[scene.group]
    assert standing == "waiting for the lead"
    assert reason.startswith("the leader 's' is a static member, which keeps the lead")
    scene.members.pop("s").stop()
    scene.join("s", **static)
    scene.wait(scene.settled, "restarted leader")
    assert scene.standing() == "waiting for the lead"
    scene.members.pop("s").stop()
    scene.wait(scene.settled, "group without the leader")
    scene.lead()
    assert scene.standings[scene.group] == ("leading", "")


def test_a_topic_that_grows_is_covered_and_an_emptied_group_is_left(scene):
    scene.join("a")
    scene.join("b")
    scene.wait(lambda: scene.settled() and all(scene.held().values()), "group of its own")
    scene.start()
    scene.plan(a=[0, 1, 2], b=[3, 4, 5])
    scene.lead()
    scene.admin.create_partitions([NewPartitions(scene.topic, 8)])[scene.topic].result(30)
    scene.wait(lambda: scene.see_topic(scene.topic).partitions == 8, "partitions")
    scene.wait(lambda: scene.numbers() == list(range(8)), "assignment")
    scene.have_committed()  # the brokers forget an empty group that has no offsets
    for name in ("a", "b"):
        scene.members.pop(name).stop()
    scene.wait(lambda: scene.standing() == "waiting for members", "departure")
    scene.wait(
        lambda: described_group(scene.admin, scene.group).state is ConsumerGroupState.EMPTY,
        "empty group",
    )
    assert scene.log.of("proxy.left") == []


def test_a_group_of_kip_848_on_brokers_without_the_jar_is_refused_with_a_clear_word(scene):
    scene.join("a", **{"group.protocol": "consumer"})
    scene.wait(lambda: len(scene.held()["a"]) == PARTITIONS, "group")
    scene.start()
    scene.plan(a=[0, 1, 2, 3, 4, 5])
    scene.wait(lambda: scene.standing() == "refused", "refusal")
    (line,) = scene.log.of("proxy.refused")
    assert "not every broker has the assignor 'levelwind'" in line["reason"]
    assert "docs/coordinator.md" in line["action"]
    assert "group.protocol=classic" in line["action"]


def test_a_topic_that_the_daemon_does_not_see_makes_it_leave_and_the_group_goes_on(scene):
    scene.join("a")
    scene.join("b")
    scene.wait(lambda: scene.settled() and all(scene.held().values()), "group of its own")
    layouts, scene.layouts = scene.layouts, {}
    scene.start()
    scene.plan(a=[0, 1, 2], b=[3, 4, 5])
    scene.wait(lambda: scene.standing() == "waiting for the lead", "membership")
    for name in cycle(["a", "b"]):
        member = scene.members.pop(name)
        member.stop()
        scene.join(name)
        scene.wait(lambda: scene.settled() and all(scene.held().values()), "group")
        if scene.log.of("proxy.left"):
            break
    assert scene.topic in scene.log.of("proxy.left")[0]["reason"]
    scene.layouts = layouts

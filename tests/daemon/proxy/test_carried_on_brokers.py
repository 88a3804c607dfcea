"""Plans in the rack ids of carriers: unmodified KIP-848 consumers on brokers with the jar.

The brokers are of this file, since the jar is on their class path, and some of them are killed.
"""

import os
from collections import Counter
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain, count, cycle
from random import Random

import pytest
from confluent_kafka import ConsumerGroupType, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic, ResourceType

from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.protocol.records import TopicRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.proxy import carrying
from levelwind.daemon.proxy.leader_proxy import LeaderProxy
from levelwind.daemon.proxy.settings import ProxySettings
from levelwind.deploy.cluster import Cluster
from levelwind.deploy.coordinator import assignor_jar
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.kafka.broker_releases import PRESENT_AND_NEWER, READY_SECONDS
from levelwind_testing.kafka.classic_members import ConfluentMember, JavaMember
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.processes.proxied_stage import ProxiedStage
from levelwind_testing.security.printed_rights import grant, printed
from levelwind_testing.security.secure_brokers import secure_brokers
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PARTITIONS = 6
TOPICS = Topics()
SETTINGS = ProxySettings(retry=0.5)
NAMED = {"group.remote.assignor": "levelwind"}
FOLLOWS = {"group.protocol": "consumer", **NAMED}
KILLS = int(os.environ.get("FAULTS_KILLS", "15"))


WITH_THE_JAR = {
    "group.consumer.assignors": "uniform,levelwind.coordinator.PlannedAssignor",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "20000",
    "offsets.topic.num.partitions": "2",
}
"""Brokers whose default is Kafka's `uniform`.

They drop a member after 20 s. On a busy machine the next daemon took longer than six; and after the
death of a coordinator librdkafka's consumers may take more than six to find the next one, which by
then has given what they have to others.
"""


@pytest.fixture(scope="module")
def jar(tmp_path_factory):
    return assignor_jar.build(tmp_path_factory.mktemp("coordinator"), "0")


@pytest.fixture(scope="module", params=PRESENT_AND_NEWER)
def brokers(request, jar):
    with Cluster.start(
        3,
        settings=WITH_THE_JAR,
        libraries=[jar],
        version=request.param,
        ready_within=READY_SECONDS,
    ) as cluster:
        yield cluster


class Scene:
    """A proxy, a group of KIP-848, and what the proxy said of it."""

    def __init__(self, client, fresh, log, daemons_client=None):
        """Make the topic; `client` may do everything, and the daemon what its own may."""
        self.client, self.daemons_client, self.log = client, daemons_client or client, log
        self.group, self.topic = fresh("group"), fresh("orders")
        self.admin = AdminClient(client)
        create_topics(client, NewTopic(self.topic, PARTITIONS))
        self.layouts = {self.topic: self._layout()}
        self.members, self.proxies, self.standings, self.led = {}, [], {}, None
        self.plan_in_force, self.epoch, self.started = None, 0, 0

    def _layout(self):
        def described():
            asked = self.admin.describe_topics(TopicCollection([self.topic]))
            with suppress(KafkaException):  # brokers hear of a topic one after another
                return asked[self.topic].result(30)

        found = wait_until("topic", described)
        each = [None] * PARTITIONS
        return TopicRecord(
            topic=self.topic,
            at=1,
            id=str(found.topic_id).translate(str.maketrans("+/", "-_")),
            leader=tuple(1 for _ in each),
            replicas=tuple((1,) for _ in each),
            isr=tuple((1,) for _ in each),
            racks=tuple(("a",) for _ in each),
        )

    def start(self):
        """Start a proxy as the next daemon does: with the plan in force."""
        self.started += 1
        proxy = LeaderProxy(
            [self.group],
            self.daemons_client,
            f"{TOPICS.prefix}proxy",
            SETTINGS,
            lambda: self.layouts,
            partial(self._stand, self.started),
            lambda _, led: setattr(self, "led", led),
            self.log,
        )
        self.proxies.append(proxy)
        proxy.start()
        if self.plan_in_force is not None:
            proxy.apply(self.group, self.plan_in_force)

    def _stand(self, proxy, _, standing, reason):
        self.standings[proxy] = standing, reason

    def join(self, *names, topic=None, kind=ConfluentMember, **config):
        for name in names:
            config = {**self.client, "group.protocol": "consumer", **config}
            bootstrap = config.pop("bootstrap.servers")
            member = kind(bootstrap, self.group, [topic or self.topic], **config)
            member.start()
            self.members[name] = member

    def leave(self, name):
        self.members.pop(name).stop()

    def name_of(self, name):
        return name if name.startswith("static") else self.members[name].member_id

    def plan(self, **shares):
        self.epoch += 1
        assignments = {
            self.name_of(name): {self.topic: tuple(numbers)} for name, numbers in shares.items()
        }
        self.plan_in_force = PublishedPlan(epoch=PlanEpoch(1, self.epoch), assignments=assignments)
        for proxy in self.proxies:
            proxy.apply(self.group, self.plan_in_force)

    def held(self):
        return {
            name: sorted(number for _, number in member.held)
            for name, member in self.members.items()
        }

    def have(self, **shares):
        """Wait until the members have these partitions."""
        wait_until(f"shares {shares}", lambda: self.held() == shares, 120, shown=self.shown)

    def all_owned(self):
        """Wait until each member has some, and all are somebody's."""

        def shared():
            held = self.held()
            return all(held.values()) and sorted(chain(*held.values())) == [*range(PARTITIONS)]

        wait_until("all partitions", shared, 120, shown=self.shown)

    def stands(self, standing):
        """Wait until the newest proxy says so."""
        wait_until(
            f"standing {standing}",
            lambda: self.standings.get(self.started, ("",))[0] == standing,
            120,
            shown=self.shown,
        )

    def lead_classic(self):
        """Restart one member after the other until the leader of the classic group has left."""
        self.stands("waiting for the lead")
        names = cycle([*self.members])

        def leads():
            self.all_owned()
            if self.standings[self.started][0] == "leading":
                return True
            member = self.members[name := next(names)]
            self.leave(name)
            self.join(name, **member.made_with)
            return False

        wait_until("lead", leads, 120, pause=0, shown=self.shown)

    def shown(self):
        failed = {name: member.failure for name, member in self.members.items()}
        return f"{self.held()} {failed} {self.standings} {self.log.events[-12:]}"

    def described(self):
        return described_group(self.admin, self.group)

    def close(self):
        for member in self.members.values():
            member.stop()
        for proxy in self.proxies:
            proxy.stop()

    def changes(self):
        return {name: len(member.changes) for name, member in self.members.items()}


@pytest.fixture
def scene(brokers, fresh, log):
    with closing(Scene({"bootstrap.servers": brokers.bootstrap}, fresh, log)) as made:
        yield made
    assert not [member.failure for member in made.members.values() if member.failure]


def test_consumers_that_name_no_assignor_follow_each_plan(scene):
    scene.join("a", "b")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    scene.stands("leading")
    assert scene.described().partition_assignor == "levelwind"
    scene.plan(a=[1, 2, 3, 4], b=[0, 5])
    scene.have(a=[1, 2, 3, 4], b=[0, 5])
    scene.plan(a=[], b=[0, 1, 2, 3, 4, 5])
    scene.have(a=[], b=[0, 1, 2, 3, 4, 5])
    shares = {scene.name_of(name): share for name, share in scene.held().items()}
    wait_until(
        "members as the coordinator gave them",
        lambda: (
            {name: sorted(chain(*member.share.values())) for name, member in scene.led.items()}
            == shares
        ),
        shown=lambda: scene.led,
    )


def test_members_that_come_and_go_have_their_share_before_the_next_plan(scene):
    scene.join("a", "b")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    scene.join("c")
    scene.all_owned()
    assert sorted(map(len, scene.held().values())) == [2, 2, 2]
    scene.plan(a=[0], b=[1], c=[2, 3, 4, 5])
    scene.have(a=[0], b=[1], c=[2, 3, 4, 5])
    scene.leave("c")
    scene.all_owned()
    assert sorted(map(len, scene.held().values())) == [3, 3]
    assert {0} <= set(scene.held()["a"])
    assert {1} <= set(scene.held()["b"])


def test_members_that_subscribe_by_a_pattern_follow(scene):
    scene.join("a", "b", topic=f"^{scene.topic}.*")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    scene.plan(a=[], b=[0, 1, 2, 3, 4, 5])
    scene.have(a=[], b=[0, 1, 2, 3, 4, 5])
    wait_until(
        "what they read",
        lambda: (
            {name: led.topics for name, led in scene.led.items()}
            == {scene.name_of(name): (scene.topic,) for name in "ab"}
        ),
        shown=lambda: scene.led,
    )
    scene.plan(a=[0, 1], b=[2, 3, 4, 5])
    scene.have(a=[0, 1], b=[2, 3, 4, 5])


def test_consumers_in_java_follow_each_plan(scene, java):
    scene.join("a", "b", kind=JavaMember, kafka=java)
    scene.join("c")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2], c=[3, 4, 5])
    scene.have(a=[0], b=[1, 2], c=[3, 4, 5])
    scene.stands("leading")
    scene.plan(a=[1, 2, 3], b=[0, 5], c=[4])
    scene.have(a=[1, 2, 3], b=[0, 5], c=[4])
    scene.plan(a=[], b=[0, 1, 2, 3, 4], c=[5])
    scene.have(a=[], b=[0, 1, 2, 3, 4], c=[5])


def test_a_plan_larger_than_a_rack_id_has_several_carriers(scene, monkeypatch):
    """Rack ids of so few characters stand for a plan of thousands of members."""
    shares = {"a": [0], "b": [1, 2], "c": [3, 4, 5]}
    monkeypatch.setattr(carrying, "rack_ids", partial(carrying.rack_ids, characters=120))
    scene.join(*shares)
    scene.all_owned()
    scene.start()
    scene.plan(**shares)
    scene.have(**shares)
    scene.stands("leading")
    many = scene.log.of("proxy.carried")[-1]["carriers"]
    assert many > 2
    assert len(scene.described().members) == len(shares) + many

    # The next daemon goes on as all of them.
    scene.proxies[0].stop()
    before = scene.changes()
    scene.start()
    scene.stands("leading")
    assert scene.changes() == before

    scene.plan(a=[1, 2], b=[0, 3], c=[4, 5])
    scene.have(a=[1, 2], b=[0, 3], c=[4, 5])

    # Those that a smaller plan does not need leave.
    monkeypatch.undo()
    scene.plan(**shares)
    scene.have(**shares)
    wait_until(
        "one carrier",
        lambda: len(scene.described().members) == len(shares) + 1,
        shown=scene.shown,
    )
    scene.leave("c")
    scene.all_owned()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_that_goes_over_to_the_new_protocol_and_back_is_led_all_the_way(scene, strategy):
    """As in rolling restarts of its members.

    The daemon leads the classic group first: of one that a member of librdkafka leads by
    cooperative-sticky, brokers take the assignments for those of a custom assignor, and refuse to
    convert it.
    """
    classic = {"group.protocol": "classic", "partition.assignment.strategy": strategy}
    scene.join("a", "b", **classic)
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.lead_classic()

    scene.leave("a")
    scene.join("a")
    scene.all_owned()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    scene.stands("leading")
    scene.plan(a=[0, 1, 2, 3], b=[4, 5])
    scene.have(a=[0, 1, 2, 3], b=[4, 5])
    scene.leave("b")
    scene.join("b")
    scene.all_owned()
    scene.plan(a=[1], b=[0, 2, 3, 4, 5])
    scene.have(a=[1], b=[0, 2, 3, 4, 5])
    assert scene.described().type is ConsumerGroupType.CONSUMER

    scene.leave("a")
    scene.join("a", **classic)
    scene.all_owned()
    scene.plan(a=[1, 2], b=[0, 3, 4, 5])
    scene.have(a=[1, 2], b=[0, 3, 4, 5])
    scene.leave("b")
    scene.join("b", **classic)
    scene.all_owned()
    scene.lead_classic()
    assert scene.described().type is ConsumerGroupType.CLASSIC
    scene.plan(a=[1, 2], b=[0, 3, 4, 5])
    scene.have(a=[1, 2], b=[0, 3, 4, 5])


def test_the_next_daemon_goes_on_as_the_same_members_and_nothing_moves(scene):
    scene.join("a", "b")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    scene.stands("leading")
    scene.proxies[0].stop()
    before, members = scene.changes(), {one.member_id for one in scene.described().members}
    scene.start()
    scene.stands("leading")
    assert {one.member_id for one in scene.described().members} == members
    scene.plan(a=[0, 1], b=[2, 3, 4, 5])
    scene.have(a=[0, 1], b=[2, 3, 4, 5])
    after = scene.changes()
    assert after == {name: number + 1 for name, number in before.items()}


def test_a_daemon_that_was_deposed_gives_way_to_the_next_one(scene):
    scene.join("a", "b")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    deposed = scene.proxies.pop()
    scene.start()
    scene.stands("leading")
    scene.plan(a=[0, 1], b=[2, 3, 4, 5])  # of which the former one hears nothing
    scene.have(a=[0, 1], b=[2, 3, 4, 5])
    wait_until("a deposed daemon", lambda: scene.log.of("proxy.fenced"), shown=scene.shown)
    deposed.stop()
    scene.plan(a=[0, 2], b=[1, 3, 4, 5])
    scene.have(a=[0, 2], b=[1, 3, 4, 5])


def test_after_the_last_daemon_partitions_stay_where_consumers_name_the_assignor(scene):
    scene.join("a", "b", **NAMED)
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    scene.proxies[0].stop()
    before = scene.changes()
    wait_until("expiry", lambda: len(scene.described().members) == len(scene.members))
    assert (scene.held(), scene.changes()) == ({"a": [0], "b": [1, 2, 3, 4, 5]}, before)
    scene.join("c", **NAMED)
    scene.all_owned()
    assert 0 in scene.held()["a"]


def test_without_a_plan_any_more_the_carriers_leave(scene):
    scene.join("a", "b")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    scene.proxies[0].apply(scene.group, None)
    wait_until("departure", lambda: len(scene.described().members) == len(scene.members))
    wait_until(
        "even shares",
        lambda: sorted(map(len, scene.held().values())) == [3, 3],
        shown=scene.shown,
    )


def test_a_static_member_is_planned_by_its_instance_and_an_emptied_group_is_left(scene):
    scene.join("a")
    scene.join("static", **{"group.instance.id": "static"})
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], static=[1, 2, 3, 4, 5])
    scene.have(a=[0], static=[1, 2, 3, 4, 5])
    scene.leave("a")
    scene.leave("static")
    wait_until("an empty group", lambda: not scene.described().members, shown=scene.shown)


def test_members_that_name_another_assignor_are_not_led_and_the_proxy_says_so(scene):
    scene.join("a", "b", **{"group.remote.assignor": "uniform"})
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.stands("waiting for the lead")
    assert scene.led is None
    scene.all_owned()
    assert sorted(map(len, scene.held().values())) == [3, 3]


def test_a_coordinator_that_moves_keeps_the_plan_and_takes_the_next(scene, brokers):
    scene.join("a", "b")
    scene.all_owned()
    scene.start()
    scene.plan(a=[0], b=[1, 2, 3, 4, 5])
    scene.have(a=[0], b=[1, 2, 3, 4, 5])
    coordinator = scene.described().coordinator.id
    brokers.kill(coordinator)
    scene.plan(a=[0, 1], b=[2, 3, 4, 5])
    scene.have(a=[0, 1], b=[2, 3, 4, 5])
    brokers.start_broker(coordinator)
    scene.plan(a=[0, 2], b=[1, 3, 4, 5])
    scene.have(a=[0, 2], b=[1, 3, 4, 5])


class TopicMaker:
    """Makes topics on the brokers of this file, as the stage asks."""

    def __init__(self, bootstrap):
        self._client = {"bootstrap.servers": bootstrap}

    def create(self, name, partitions, replication=1):
        create_topics(self._client, NewTopic(name, partitions, replication))


@contextmanager
def staged(brokers, fresh, directory):
    client = {"bootstrap.servers": brokers.bootstrap}
    made = ProxiedStage(client, TopicMaker(brokers.bootstrap), fresh, directory, replication=3)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def stage(brokers, fresh, tmp_path):
    with staged(brokers, fresh, tmp_path) as made:
        yield made


def test_a_group_follows_daemons_that_are_killed_replaced_and_stopped(stage):
    """The lead is there without a restart of anybody, and nothing is lost or read by two."""
    for name in "ab":
        stage.join(name, **FOLLOWS)
    stage.wait(stage.settled, "group of its own")
    stage.start_daemon()
    stage.see_layout()
    stage.wait(stage.leads, "lead")
    stage.level()
    assert stage.describe()["proxy"]["standing"] == "leading"
    members = stage.members.copy()

    held = stage.held()
    stage.daemon.kill()
    stage.read_on()
    assert stage.held() == held
    stage.start_daemon()
    stage.wait(stage.leads, "lead of the restarted daemon")
    stage.start_stand_by()
    stage.daemons[-2].kill()
    stage.wait(stage.leads, "lead after a take-over")
    assert stage.is_leveled()
    stage.start_stand_by()
    assert stage.daemons[-2].stop() == 0
    stage.wait(stage.leads, "lead of the upgraded daemon")
    assert stage.is_leveled()
    assert stage.members == members
    for daemon in stage.daemons:
        assert daemon.logged("proxy.left") == daemon.logged("proxy.failed") == []

    held = stage.held()
    assert stage.daemon.stop() == 0
    stage.read_on()
    assert stage.held() == held
    stage.join("c", **FOLLOWS)
    stage.wait(stage.settled, "group with a third member")
    stage.nothing_was_lost_or_shared()


class Kills:
    """What may die on a stage; each method returns when the group reads on."""

    def __init__(self, stage, brokers, random):
        self._stage, self._brokers, self._random = stage, brokers, random
        self._number = count()
        self.done = Counter()

    def any(self):
        kind = self._random.choice(
            [self.consumer, self.restart, self.daemon, self.lead, self.broker]
        )
        kind()
        self.done[kind.__name__] += 1
        self._stage.wait(self._stage.leads, "lead")
        self._stage.wait(self._stage.settled, "settled group")
        self._stage.read_on()

    def join(self):
        self._stage.join(f"m{next(self._number)}", **FOLLOWS)

    def _any_member(self):
        return self._random.choice([*self._stage.members])

    def consumer(self):
        self._stage.kill(self._any_member())
        self.join()

    def restart(self):
        self._stage.leave(self._any_member())
        self.join()

    def daemon(self):
        self._stage.daemon.kill()
        self._stage.start_daemon()

    def lead(self):
        leading = self._stage.daemon
        self._stage.start_stand_by()
        leading.kill()

    def broker(self):
        number = self._random.randrange(1, 4)
        self._brokers.kill(number)
        self._stage.read_on()
        self._brokers.start_broker(number)


@pytest.mark.rare
@pytest.mark.timeout(120 * KILLS + 600)
def test_nothing_is_lost_or_shared_while_consumers_daemons_and_brokers_die(jar, fresh, tmp_path):
    random = Random(drawn_seed())
    with (
        Cluster.start(3, settings=WITH_THE_JAR, libraries=[jar]) as brokers,
        staged(brokers, fresh, tmp_path) as stage,
    ):
        kills = Kills(stage, brokers, random)
        for _ in range(4):
            kills.join()
        stage.wait(stage.settled, "group of its own")
        stage.start_daemon()
        stage.see_layout()
        stage.wait(stage.leads, "lead")
        leveled = 0
        for _ in range(KILLS):
            kills.any()
            leveled += stage.is_leveled()
        print(f"{kills.done}, {leveled} plans followed")
        assert leveled
        for daemon in stage.daemons:
            assert daemon.logged("proxy.failed") == []
        stage.nothing_was_lost_or_shared()


def test_the_printed_rights_suffice_and_without_them_the_proxy_says_what_to_do(
    jar, fresh, log, tmp_path
):
    with secure_brokers(tmp_path, 1, settings=WITH_THE_JAR, libraries=[jar]) as brokers:
        user = brokers.scram_user("planner")
        client = brokers.cluster.admin_settings | {"log_level": "0"}
        with closing(Scene(client, fresh, log, user.librdkafka)) as scene:
            scene.join("a", "b")
            scene.all_owned()
            asked = ("--principal", user.principal, "--set", f"groups.{scene.group}.mode=proxy")
            rights = printed(*asked)
            of_groups = [right for right in rights if right.restype is ResourceType.GROUP]
            grant(brokers.admin, of_groups)
            scene.start()
            scene.plan(a=[0], b=[1, 2, 3, 4, 5])
            wait_until("refusal", lambda: log.of("proxy.left"), shown=scene.shown)
            assert "levelwind acls" in log.of("proxy.left")[0]["action"]
            grant(brokers.admin, [right for right in rights if right not in of_groups])
            scene.have(a=[0], b=[1, 2, 3, 4, 5])
            scene.stands("leading")

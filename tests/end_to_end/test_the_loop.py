"""The whole loop of real parts: brokers, the daemon with its Spark pipeline, and consumers.

By `make rare` also on brokers of older releases.
"""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import cycle

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from levelwind.assignors.clients.published_plans import PublishedPlans
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.clients.confluent import ManagedConsumer, NotOwnedError
from levelwind.deploy.jars import OtherBrokers
from levelwind_testing.kafka.broker_releases import RELEASES, WITHOUT_KIP_848, brokers_of
from levelwind_testing.kafka.managed_consumers import committed, initialise, poll_until
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.kafka.reassignment import reassign
from levelwind_testing.processes.command_line import printed_by
from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.subscriber_process import SubscriberProcess, shared
from levelwind_testing.processes.whole_loop import Loop
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PREFIX = "loop."
TIMERS = replace(Timers().scaled(0.5), commit=24.0, grant=36.0, takeover=Timers().takeover)
"""Half of production's, but for those that pass where brokers or a daemon stand still for three
seconds: a quarter of `commit` is the wait for an answer."""
RECORDS_WITHOUT_A_DAEMON = 120
"""Records after which a member of a published group has shown that it goes on by itself."""
SETTINGS = (
    f"prefix={PREFIX}",
    "metrics.listen=127.0.0.1:0",
    "control.cooldown.duration=4",
    "groups.loop-by-rack.strategy=range",
    "groups.loop-advised.mode=advisory",
    "groups.loop-proxied-rack.mode=proxy",
    "proxy.session_timeout=6",
    "proxy.heartbeat_interval=0.5",
    "proxy.retry=0.5",
    "groups.loop-published-lag.mode=published",
    "groups.loop-published-rack.mode=published",
    *timer_settings(TIMERS),
)


@pytest.fixture(scope="module", params=RELEASES)
def release(request) -> OtherBrokers | None:
    return request.param


@pytest.fixture(scope="module")
def loop(release, request, tmp_path_factory) -> Iterator[Loop]:
    state = tmp_path_factory.mktemp("loop") / "state"
    with brokers_of(release, request) as brokers:
        loop = Loop(brokers.bootstrap, state, PREFIX, TIMERS, SETTINGS, observed="loop-.*")
        try:
            loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
            # On a busy machine Spark's start alone may take longer than what a test waits for.
            loop.daemon.wait_for("lag", lambda: loop.daemon.logged("pipeline.caught_up"), 300)
            yield loop
        finally:
            loop.daemon.stop()


def test_a_skewed_lag_moves_the_hot_partitions_apart(loop):
    loop.create("loop-skewed", [[1, 2], [2, 3], [3, 1]] * 2)
    followers = loop.follow("loop-by-lag", "loop-skewed", "abc", rate=60)
    loop.daemon.wait_for(
        "the first plan's partitions", lambda: all(len(f.owned) == 2 for f in followers)
    )
    loaded = followers[0]
    hot = set(loaded.owned)
    for number in range(6):
        loop.produce("loop-skewed", number, 3000 if number in hot else 30)
    plan = loop.daemon.wait_for(
        "a plan", lambda: loop.daemon.logged("plan.published", group="loop-by-lag", cause="skew")
    )[0]
    assert plan["after"]["skew"] < plan["before"]["skew"]
    assert loop.daemon.logged("trigger.raised", group="loop-by-lag", kind="skew")
    loop.daemon.wait_for(
        "the hot partitions with two followers",
        lambda: (
            sum(len(f.owned) for f in followers) == 6 and not any(hot <= f.owned for f in followers)
        ),
    )
    loop.all_is_done("loop-by-lag", "loop-skewed", followers)
    for follower in followers:
        follower.stop()


def test_replicas_that_change_racks_take_their_partitions_to_consumers_there(loop):
    loop.create("loop-racked", [[1], [2], [3]] * 2)
    followers = dict(zip("abc", loop.follow("loop-by-rack", "loop-racked", "abc"), strict=True))
    for number in range(6):
        loop.produce("loop-racked", number, 100)

    def owners():
        return {rack: set(follower.owned) for rack, follower in followers.items()}

    loop.daemon.wait_for(
        "local partitions", lambda: owners() == {"a": {0, 3}, "b": {1, 4}, "c": {2, 5}}
    )
    # The pipeline knows a group from its first commit on, and only changes of racks after that.
    loop.read("lag", lambda records: b'["lag","loop-by-rack","loop-racked"]' in records)
    reassign(loop.bootstrap, "loop-racked", {number: [(number + 1) % 3 + 1] for number in range(6)})

    def plans():
        return loop.daemon.logged("plan.published", group="loop-by-rack", cause="racks")

    # Brokers may take their time, so that a plan knows new racks of some partitions only.
    loop.daemon.wait_for(
        "a local plan", lambda: plans() and plans()[-1]["after"]["cross_rack"] == 0.0
    )
    assert all(plan["after"]["cross_rack"] < plan["before"]["cross_rack"] for plan in plans())
    loop.daemon.wait_for("the move", lambda: owners() == {"b": {0, 3}, "c": {1, 4}, "a": {2, 5}})
    for number in range(6):
        loop.produce("loop-racked", number, 100)
    loop.all_is_done("loop-by-rack", "loop-racked", list(followers.values()))
    loop.daemon.wait_for(
        "the end of the trigger",
        lambda: loop.daemon.logged("trigger.cleared", group="loop-by-rack", kind="racks"),
    )
    for follower in followers.values():
        follower.stop()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_lag_and_racks_of_a_group_that_subscribes_are_what_the_brokers_say(loop, protocol, release):
    if protocol == "consumer" and release in WITHOUT_KIP_848:
        pytest.skip(f"brokers {release} have no groups of KIP-848")
    group = topic = f"loop-of-protocol-{protocol}"
    loop.create(topic, [[1], [2], [3]] * 2)
    config = {
        "bootstrap.servers": loop.bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    with Consumer(config | {"client.rack": "a"}) as first, Consumer(config) as second:
        members = (first, second)
        for member in members:
            member.subscribe([topic])

        def owned():
            for member in members:
                member.poll(0.1)
            return [len(member.assignment()) for member in members]

        loop.daemon.wait_for("partitions", lambda: owned() == [3, 3])
        for number in range(6):
            loop.produce(topic, number, 50)
        for member in members:
            offsets = [TopicPartition(topic, one.partition, 30) for one in member.assignment()]
            member.commit(offsets=offsets, asynchronous=False)
        loop.produce(topic, 5, 7)
        ends, commits = loop.ends(topic, 6), loop.committed(group, topic, 6)
        lag = [ends[number] - commits[number] for number in range(6)]
        assert lag == [20] * 5 + [27]
        key = f'["lag","{group}","{topic}"]'.encode()

        def is_the_truth(records):
            record = records.get(key)
            return record and record["lag"] == lag and len(record.get("members", ())) == 2

        record = loop.read("lag", is_the_truth)[key]
        assert set(record["member_racks"]) == {"a", None}


def test_the_brokers_refuse_commits_of_a_life_that_was_fenced(loop):
    group = topic = "loop-fenced"
    loop.create(topic, [[1], [2]])
    loop.produce(topic, 0, 10)
    with ManagedConsumer(
        {"bootstrap.servers": loop.bootstrap, "auto.offset.reset": "earliest", "log_level": 0},
        group=group,
        topics=[topic],
        instance="only",
        prefix=PREFIX,
        timers=TIMERS,
        fencing="broker",
    ) as consumer:
        poll_until(consumer, lambda values: len(values) == 5)
        consumer.commit(asynchronous=False)
        assert committed(loop, group, topic, 2) == {0: 5}
        # As the planner does before it gives an evicted member's partitions away.
        initialise(loop.bootstrap, f"{PREFIX}{group}/only")
        poll_until(consumer, lambda values: len(values) == 3)
        with pytest.raises(NotOwnedError, match="refuse the commits of this life"):
            consumer.commit(asynchronous=False)
        assert committed(loop, group, topic, 2) == {0: 5}
        poll_until(consumer, lambda values: len(values) == 5)
        consumer.commit(asynchronous=False)
        assert committed(loop, group, topic, 2) == {0: 10}


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_one_scrape_tells_of_observer_pipeline_and_control_and_forgets_a_group_that_is_gone(loop):
    group, topic = "loop-watched", "loop-measured"
    loop.create(topic, [[1], [2]])
    address = loop.daemon.logged("metrics.listening")[0]["address"]
    reader = Consumer({"bootstrap.servers": loop.bootstrap, "group.id": group, "log_level": 0})
    commit_offsets(reader, [TopicPartition(topic, 0, 0)])
    reader.close()
    lag = ("levelwind_group_lag_records", group)
    loop.daemon.wait_for("the group's lag", lambda: lag in scrape(address))
    # A batch is counted when it is over; its records may be read before.
    counted = ("levelwind_pipeline_records_total",)
    loop.daemon.wait_for("the batch", lambda: scrape(address)[counted] >= 1)
    found = scrape(address)
    assert found["levelwind_leading",] == found["levelwind_pipeline_up",] == 1
    assert found[lag] == 0
    assert found["levelwind_pipeline_batch_seconds_count",] >= 1
    assert found["levelwind_observer_tick_seconds_count", "offsets"] >= 1
    assert found["levelwind_observer_tick_seconds_count", "metadata"] >= 1
    loop.admin.delete_consumer_groups([group])[group].result(30)
    loop.daemon.wait_for("the group to go", lambda: lag not in scrape(address))


def test_an_advisory_group_keeps_what_it_has_and_describe_shows_the_plan_beside_it(loop):
    loop.create("loop-advised", [[1, 2], [2, 3], [3, 1]] * 2)
    for number in range(6):
        loop.produce("loop-advised", number, 100)
    config = {
        "bootstrap.servers": loop.bootstrap,
        "group.id": "loop-advised",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "partition.assignment.strategy": "range",
        "log_level": 0,
    }
    with Consumer(config) as first, Consumer(config) as second:
        members = (first, second)
        for member in members:
            member.subscribe(["loop-advised"])

        def owned():
            for member in members:
                member.poll(0.1)
            return [{p.partition for p in member.assignment()} for member in members]

        loop.daemon.wait_for(
            "range", lambda: sorted(map(sorted, owned())) == [[0, 1, 2], [3, 4, 5]]
        )

        def planned():
            return owned() and loop.daemon.logged("plan.published", group="loop-advised")

        (plan, *_) = loop.daemon.wait_for("a plan", planned)
        assert plan["mode"] == "advisory"
        names = [member.memberid() for member in members]

        def described_plan():
            """What describe says; the first plan may be of the member that came first."""
            found = owned() and described(loop, "loop-advised")
            return {row["planned"] for row in found["partition"]} == set(names) and found

        shown = loop.daemon.wait_for("a plan of both", described_plan)
        before = owned()
        assert (shown["mode"], shown["planned"]["partitions"]) == ("advisory", 6)
        assert {
            row["instance"]: ranges.parse(row["owned"]["loop-advised"]) for row in shown["member"]
        } == {name: tuple(sorted(numbers)) for name, numbers in zip(names, before, strict=True)}
        assert owned() == before


def described(loop, group):
    """What `levelwind describe` says of a group."""
    shown = printed_by(
        *("describe", group, "--format", "json"),
        bootstrap=loop.bootstrap,
        settings=[f"prefix={PREFIX}"],
    )
    return json.loads(shown)


def settled(members, partitions=6):
    """Whether the members are in one generation, and each partition has one owner."""
    owned = [number for member in members for number in member.owned]
    return (
        len({member.generation for member in members}) == 1
        and len(owned) == len(set(owned)) == partitions
    )


def each_generation_has_one_owner_of_each_partition(members):
    owners = {}
    for member in members:
        for generation, owned in member.history:
            for number in owned:
                assert owners.setdefault((generation, number), member.instance) == member.instance


def planned_members(records, group):
    """Names of the members that a group's newest plan is for.

    A plan for members that the last one did not name heeds new racks by itself: no plan because of
    the racks follows it.
    """
    plan = records.get(f'["g","{group}"]'.encode())
    return plan and {member["instance"] for member in plan["members"]}


@pytest.fixture
def subscribe(loop):
    """Start members of a published group, and end them with the test."""
    for client in ("kafka", "aiokafka"):
        pytest.importorskip(client, reason="an extra that is not installed")
    started = []

    def begin(*arguments, **more):
        started.extend(loop.subscribe(*arguments, **more))
        return list(started)

    def wait(what, holds):
        """Wait for an event; a failure shows what the members that run have seen and written."""
        return wait_until(what, holds, shown=shown)

    def shown():
        members = (
            f"{m.instance}: {m.history[-4:]}, ended {m.child.poll()}\n{''.join(m.noise[-15:])}"
            for m in started
        )
        return "\n".join([*members, loop.daemon.tail()])

    begin.wait = wait
    yield begin
    for member in started:
        member.stop()


def test_replicas_that_change_racks_take_partitions_of_members_that_subscribe_along(
    loop, subscribe
):
    group = "loop-published-rack"
    loop.create("loop-racked-too", [[1], [2], [3]] * 2)
    members = subscribe(group, "loop-racked-too", ["kafka-python", "aiokafka", "aiokafka"])
    for number in range(6):
        loop.produce("loop-racked-too", number, 100)

    def owned():
        return [member.owned for member in members] if settled(members) else None

    subscribe.wait("local partitions", lambda: owned() == [{0, 3}, {1, 4}, {2, 5}])
    names = {member.instance for member in members}
    loop.read("assignments", lambda records: planned_members(records, group) == names)
    reassign(
        loop.bootstrap, "loop-racked-too", {number: [(number + 1) % 3 + 1] for number in range(6)}
    )
    # On a busy machine the members may rebalance meanwhile, and the plan for that knows the racks.
    subscribe.wait("the move", lambda: owned() == [{2, 5}, {0, 3}, {1, 4}])
    subscribe.wait(
        "the trigger", lambda: loop.daemon.logged("trigger.raised", group=group, kind="racks")
    )
    loop.all_is_processed(group, "loop-racked-too", members)
    each_generation_has_one_owner_of_each_partition(members)


def test_a_group_by_a_pattern_reads_a_topic_that_comes_later_and_no_other(loop):
    for name in ("loop-patterned.1", "loop-unpatterned"):
        loop.create(name, [[1, 2], [2, 3]])
    followers = loop.follow("loop-patterned", "^loop-patterned[.]", "ab")
    loop.daemon.wait_for("partitions", lambda: all(len(f.owned) == 1 for f in followers))

    def causes():
        return [
            plan["cause"] for plan in loop.daemon.logged("plan.published", group="loop-patterned")
        ]

    before = len(causes())
    loop.create("loop-patterned.2", [[1, 2], [2, 3]])
    for name in ("loop-patterned.1", "loop-patterned.2", "loop-unpatterned"):
        loop.produce(name, 0, 100)
    for name in ("loop-patterned.1", "loop-patterned.2"):
        loop.daemon.wait_for(
            f"commits in {name}",
            lambda name=name: loop.committed("loop-patterned", name, 1) == {0: 100},
        )
    loop.daemon.wait_for("the plan's event", lambda: "topics" in causes()[before:])
    assert loop.committed("loop-patterned", "loop-unpatterned", 1) == {0: 0}
    for follower in followers:
        follower.stop()


def test_replicas_that_change_racks_move_partitions_of_a_proxied_group(loop):
    group, topic, journal, gone = "loop-proxied-rack", "loop-racked-three", [], []
    loop.create(topic, [[1], [2], [3]] * 2)

    def join(rack):
        config = {
            "bootstrap.servers": loop.bootstrap,
            "group.id": group,
            "client.rack": rack,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "heartbeat.interval.ms": 500,
            "log_level": 0,
        }
        return SubscriberProcess(config, topic, journal)

    members = {rack: join(rack) for rack in "abc"}

    def owned():
        return {rack: set(member.held) for rack, member in members.items()}

    def has_two_each():
        return all(len(held) == 2 for held in owned().values())

    def leads():
        return loop.daemon.logged("proxy.leading", group=group)

    try:
        for number in range(6):
            loop.produce(topic, number, 100)
        loop.daemon.wait_for(
            "membership", lambda: loop.daemon.logged("proxy.waiting_for_lead", group=group)
        )
        for rack in cycle("abc"):
            loop.daemon.wait_for("a settled group", has_two_each)
            if leads():
                break
            gone.append(members[rack])
            gone[-1].stop()
            members[rack] = join(rack)
        loop.daemon.wait_for(
            "local partitions", lambda: owned() == {"a": {0, 3}, "b": {1, 4}, "c": {2, 5}}
        )
        # The pipeline knows a group from its first commit on, and only changes of racks after that.
        loop.read("lag", lambda records: f'["lag","{group}","{topic}"]'.encode() in records)
        names = {member.member_id for member in members.values()}
        loop.read("assignments", lambda records: planned_members(records, group) == names)
        reassign(loop.bootstrap, topic, {number: [(number + 1) % 3 + 1] for number in range(6)})
        loop.daemon.wait_for(
            "a plan", lambda: loop.daemon.logged("plan.published", group=group, cause="racks")
        )
        loop.daemon.wait_for("the move", lambda: owned() == {"b": {0, 3}, "c": {1, 4}, "a": {2, 5}})
        loop.all_is_processed(group, topic, [*gone, *members.values()])
        assert shared(journal) == []
    finally:
        for member in members.values():
            member.stop()


def test_groups_outlive_the_daemon_a_published_one_its_own_leader_and_a_successor_moves_nothing(
    loop, subscribe
):
    lasting = "loop-lasting"
    loop.create(lasting, [[1, 2], [2, 3], [3, 1]] * 2)
    followers = loop.follow(lasting, lasting, "abc")
    group, topic = "loop-published-lag", "loop-skewed-too"
    loop.create(topic, [[1, 2], [2, 3], [3, 1]] * 2)
    members = subscribe(group, topic, ["kafka-python", "aiokafka", "aiokafka"], rate=60)
    for number in range(6):
        loop.produce(topic, number, 30)
    with closing(
        PublishedPlans({"bootstrap.servers": loop.bootstrap}, group, prefix=PREFIX)
    ) as plans:
        plans.follow(lambda: None)

        def settled_by_the_plan():
            """Nobody gets anything, without a daemon, who came after the last plan."""
            plan = plans.newest(0)
            planned = {} if plan is None else plan.assignments
            shares = {name: set(share.get(topic, ())) for name, share in planned.items()}
            return settled(members) and shares == {m.instance: m.owned for m in members}

        subscribe.wait(
            "two partitions each",
            lambda: settled_by_the_plan() and all(len(m.owned) == 2 for m in members),
        )
        hot = set(members[0].owned)
        for number in hot:
            loop.produce(topic, number, 2000)
        subscribe.wait(
            "the hot partitions with two members",
            lambda: settled_by_the_plan() and not any(hot <= m.owned for m in members),
        )

    subscribe.wait("partitions", lambda: all(len(f.owned) == 2 for f in followers))
    owned = [set(f.owned) for f in followers]

    # The daemon dies: everybody goes on, at once and as before.
    for number in range(6):
        loop.produce(topic, number, 500)
    loop.daemon.kill()
    loop.produce(lasting, 0, 500)
    before = [(m.generation, m.handled) for m in members]
    subscribe.wait(
        "further records of each member",
        lambda: all(
            member.handled > handled + RECORDS_WITHOUT_A_DAEMON
            for member, (_, handled) in zip(members, before, strict=True)
        ),
    )
    assert [m.generation for m in members] == [generation for generation, _ in before]

    # The member that leads dies, and another is not heard of for longer than its session.
    leader = next(member for member in members if member.leads)
    asleep, awake = [member for member in members if member is not leader]
    asleep.get_stuck()
    asleep.pause()
    leader.kill()
    subscribe.wait("one owner", lambda: awake.owned == set(range(6)))
    asleep.speed_up()  # once it goes on: then it commits what it had in hand
    asleep.go_on()
    subscribe.wait("the other's return", lambda: settled([asleep, awake]) and asleep.owned)
    assert asleep.refusals, "what it had in hand belonged to another member by then"
    loop.start()
    loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
    awake.speed_up()
    loop.all_is_processed(group, topic, members)
    each_generation_has_one_owner_of_each_partition(members)

    # The successor knows all that happened meanwhile, and moves nothing of a group that it finds.
    loop.daemon.wait_for("the pipeline", lambda: loop.daemon.logged("pipeline.started"), 300)
    key = f'["lag","{lasting}","{lasting}"]'.encode()
    loop.read("lag", lambda records: (records.get(key) or {}).get("end", [0])[0] == 500)
    loop.hear(followers, times=2)
    assert [set(f.owned) for f in followers] == owned
    assert loop.daemon.logged("plan.published", group=lasting) == []
    loop.all_is_done(lasting, lasting, followers)
    for follower in followers:
        follower.stop()

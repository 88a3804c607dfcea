"""The whole loop of real parts: brokers, the daemon with its Spark pipeline, and consumers."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle

import pytest
from confluent_kafka import Consumer

from assignors.handover.timers import Timers
from assignors.protocol import partition_ranges as ranges
from deploy.cluster import Cluster
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.kafka.reassignment import reassign
from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.subscriber_process import SubscriberProcess, shared
from levelwind_testing.processes.supervised_daemons import wait_until
from levelwind_testing.processes.whole_loop import Loop

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

PREFIX = "loop."
TIMERS = Timers().scaled(0.5)
SETTINGS = (
    f"prefix={PREFIX}",
    "control.cooldown.duration=4",
    "groups.by-rack.strategy=range",
    "groups.advised.mode=advisory",
    "groups.proxied-rack.mode=proxy",
    "proxy.session_timeout=6",
    "proxy.heartbeat_interval=0.5",
    "proxy.retry=0.5",
    "groups.published-lag.mode=published",
    "groups.published-rack.mode=published",
    *timer_settings(TIMERS),
)


@pytest.fixture(scope="module")
def loop(tmp_path_factory) -> Iterator[Loop]:
    with Cluster.start(settings=PATIENT) as cluster:
        loop = Loop(cluster.bootstrap, tmp_path_factory.mktemp("state"), PREFIX, TIMERS, SETTINGS)
        try:
            loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
            # On a busy machine Spark's start alone may take longer than what a test waits for.
            loop.daemon.wait_for("lag", lambda: loop.daemon.logged("pipeline.caught_up"), 240)
            yield loop
        finally:
            loop.daemon.stop()


def test_a_skewed_lag_moves_the_hot_partitions_apart(loop):
    loop.create("skewed", [[1, 2], [2, 3], [3, 1]] * 2)
    followers = loop.follow("by-lag", "skewed", "abc", rate=60)
    loop.daemon.wait_for(
        "the first plan's partitions", lambda: all(len(f.owned) == 2 for f in followers)
    )
    loaded = followers[0]
    hot = set(loaded.owned)
    for number in range(6):
        loop.produce("skewed", number, 3000 if number in hot else 30)
    plan = loop.daemon.wait_for(
        "a plan", lambda: loop.daemon.logged("plan.published", group="by-lag", cause="skew")
    )[0]
    assert plan["after"]["skew"] < plan["before"]["skew"]
    assert loop.daemon.logged("trigger.raised", group="by-lag", kind="skew")
    loop.daemon.wait_for(
        "the hot partitions with two followers",
        lambda: (
            sum(len(f.owned) for f in followers) == 6 and not any(hot <= f.owned for f in followers)
        ),
    )
    loop.all_is_done("by-lag", "skewed", followers)
    for follower in followers:
        follower.stop()


def test_replicas_that_change_racks_take_their_partitions_to_consumers_there(loop):
    loop.create("racked", [[1], [2], [3]] * 2)
    followers = dict(zip("abc", loop.follow("by-rack", "racked", "abc"), strict=True))
    for number in range(6):
        loop.produce("racked", number, 100)

    def owners():
        return {rack: set(follower.owned) for rack, follower in followers.items()}

    loop.daemon.wait_for(
        "local partitions", lambda: owners() == {"a": {0, 3}, "b": {1, 4}, "c": {2, 5}}
    )
    # The pipeline knows a group from its first commit on, and only changes of racks after that.
    loop.read("lag", lambda records: b'["lag","by-rack","racked"]' in records)
    reassign(loop.bootstrap, "racked", {number: [(number + 1) % 3 + 1] for number in range(6)})

    def plans():
        return loop.daemon.logged("plan.published", group="by-rack", cause="racks")

    # Brokers may take their time, so that a plan knows new racks of some partitions only.
    loop.daemon.wait_for(
        "a local plan", lambda: plans() and plans()[-1]["after"]["cross_rack"] == 0.0
    )
    assert all(plan["after"]["cross_rack"] < plan["before"]["cross_rack"] for plan in plans())
    loop.daemon.wait_for("the move", lambda: owners() == {"b": {0, 3}, "c": {1, 4}, "a": {2, 5}})
    for number in range(6):
        loop.produce("racked", number, 100)
    loop.all_is_done("by-rack", "racked", list(followers.values()))
    loop.daemon.wait_for(
        "the end of the trigger",
        lambda: loop.daemon.logged("trigger.cleared", group="by-rack", kind="racks"),
    )
    for follower in followers.values():
        follower.stop()


def test_an_advisory_group_keeps_what_it_has_and_describe_shows_the_plan_beside_it(loop):
    loop.create("advised", [[1, 2], [2, 3], [3, 1]] * 2)
    for number in range(6):
        loop.produce("advised", number, 100)
    config = {
        "bootstrap.servers": loop.bootstrap,
        "group.id": "advised",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "partition.assignment.strategy": "range",
        "log_level": 0,
    }
    with Consumer(config) as first, Consumer(config) as second:
        members = (first, second)
        for member in members:
            member.subscribe(["advised"])

        def owned():
            for member in members:
                member.poll(0.1)
            return [{p.partition for p in member.assignment()} for member in members]

        loop.daemon.wait_for(
            "range", lambda: sorted(map(sorted, owned())) == [[0, 1, 2], [3, 4, 5]]
        )

        def planned():
            return owned() and loop.daemon.logged("plan.published", group="advised")

        (plan, *_) = loop.daemon.wait_for("a plan", planned)
        assert plan["mode"] == "advisory"
        names = [member.memberid() for member in members]

        def described_plan():
            """What describe says; the first plan may be of the member that came first."""
            found = owned() and described(loop, "advised")
            return {row["planned"] for row in found["partition"]} == set(names) and found

        shown = loop.daemon.wait_for("a plan of both", described_plan)
        before = owned()
        assert (shown["mode"], shown["planned"]["partitions"]) == ("advisory", 6)
        assert {
            row["instance"]: ranges.parse(row["owned"]["advised"]) for row in shown["member"]
        } == {name: tuple(sorted(numbers)) for name, numbers in zip(names, before, strict=True)}
        assert owned() == before


def described(loop, group):
    """What `levelwind describe` says of a group."""
    command = [sys.executable, "-m", "daemon.cli", "describe", group, "--format", "json"]
    command += ["--bootstrap", loop.bootstrap, "--set", f"prefix={PREFIX}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


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

    yield begin
    for member in started:
        member.stop()


def test_replicas_that_change_racks_take_partitions_of_members_that_subscribe_along(
    loop, subscribe
):
    group = "published-rack"
    loop.create("racked-too", [[1], [2], [3]] * 2)
    members = subscribe(group, "racked-too", ["kafka-python", "aiokafka", "aiokafka"])
    for number in range(6):
        loop.produce("racked-too", number, 100)

    def owned():
        return [member.owned for member in members] if settled(members) else None

    loop.daemon.wait_for("local partitions", lambda: owned() == [{0, 3}, {1, 4}, {2, 5}])
    names = {member.instance for member in members}
    loop.read("assignments", lambda records: planned_members(records, group) == names)
    reassign(loop.bootstrap, "racked-too", {number: [(number + 1) % 3 + 1] for number in range(6)})
    loop.daemon.wait_for(
        "a plan",
        lambda: loop.daemon.logged("plan.published", group=group, cause="racks"),
    )
    loop.daemon.wait_for("the move", lambda: owned() == [{2, 5}, {0, 3}, {1, 4}])
    loop.all_is_processed(group, "racked-too", members)
    each_generation_has_one_owner_of_each_partition(members)


def test_a_published_group_follows_plans_and_outlives_the_daemon_and_its_own_leader(
    loop, subscribe
):
    group, topic = "published-lag", "skewed-too"
    loop.create(topic, [[1, 2], [2, 3], [3, 1]] * 2)
    members = subscribe(group, topic, ["kafka-python", "aiokafka", "kafka-python"], rate=60)
    for number in range(6):
        loop.produce(topic, number, 30)
    loop.daemon.wait_for(
        "the first plan", lambda: loop.daemon.logged("plan.published", group=group)
    )
    loop.daemon.wait_for(
        "two partitions each", lambda: settled(members) and all(len(m.owned) == 2 for m in members)
    )
    hot = set(members[0].owned)
    for number in hot:
        loop.produce(topic, number, 2000)
    loop.daemon.wait_for(
        "a plan", lambda: loop.daemon.logged("plan.published", group=group, cause="skew")
    )
    loop.daemon.wait_for(
        "the hot partitions with two members",
        lambda: settled(members) and not any(hot <= m.owned for m in members),
    )

    # The daemon dies: everybody goes on, at once and as before.
    for number in range(6):
        loop.produce(topic, number, 500)
    loop.daemon.kill()
    before = [(m.generation, m.handled) for m in members]
    time.sleep(2)
    for member, (generation, handled) in zip(members, before, strict=True):
        assert member.generation == generation
        assert member.handled > handled

    # The member that leads dies, and another is not heard of for longer than its session.
    leader = next(member for member in members if member.leads)
    leader.kill()
    asleep, awake = [member for member in members if member is not leader]
    asleep.pause()
    wait_until("one owner", lambda: awake.owned == set(range(6)), 60)
    asleep.go_on()
    wait_until("the other's return", lambda: settled([asleep, awake]) and asleep.owned, 60)
    assert asleep.refusals, "what it had in hand belonged to another member by then"
    loop.start()
    loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
    asleep.speed_up()
    awake.speed_up()
    loop.all_is_processed(group, topic, members)
    each_generation_has_one_owner_of_each_partition(members)


def test_a_group_by_a_pattern_reads_a_topic_that_comes_later_and_no_other(loop):
    for name in ("patterned.1", "unpatterned"):
        loop.create(name, [[1, 2], [2, 3]])
    followers = loop.follow("patterned", "^patterned[.]", "ab")
    loop.daemon.wait_for("partitions", lambda: all(len(f.owned) == 1 for f in followers))

    def causes():
        return [plan["cause"] for plan in loop.daemon.logged("plan.published", group="patterned")]

    before = len(causes())
    loop.create("patterned.2", [[1, 2], [2, 3]])
    for name in ("patterned.1", "patterned.2", "unpatterned"):
        loop.produce(name, 0, 100)
    for name in ("patterned.1", "patterned.2"):
        loop.daemon.wait_for(
            f"commits in {name}",
            lambda name=name: loop.committed("patterned", name, 1) == {0: 100},
        )
    assert "topics" in causes()[before:]
    assert loop.committed("patterned", "unpatterned", 1) == {0: 0}
    for follower in followers:
        follower.stop()


def test_replicas_that_change_racks_move_partitions_of_a_proxied_group(loop):
    group, topic, journal, gone = "proxied-rack", "racked-three", [], []
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


def test_a_daemon_that_is_killed_freezes_the_assignment_and_its_successor_keeps_it(loop):
    loop.create("lasting", [[1, 2], [2, 3], [3, 1]] * 2)
    followers = loop.follow("lasting", "lasting", "abc")
    loop.daemon.wait_for("partitions", lambda: all(len(f.owned) == 2 for f in followers))
    before = [set(f.owned) for f in followers]
    loop.daemon.kill()
    loop.produce("lasting", 0, 500)
    loop.start()
    loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
    loop.daemon.wait_for("the pipeline", lambda: loop.daemon.logged("pipeline.started"))
    key = b'["lag","lasting","lasting"]'
    loop.read("lag", lambda records: (records.get(key) or {}).get("end", [0])[0] == 500, within=150)
    time.sleep(2 * TIMERS.heartbeat)
    assert [set(f.owned) for f in followers] == before
    assert loop.daemon.logged("plan.published", group="lasting") == []
    loop.all_is_done("lasting", "lasting", followers)
    for follower in followers:
        follower.stop()


def test_garbage_in_any_topic_that_is_read_is_kept_or_counted_and_stops_nothing(loop):
    # The last test of its cluster: a coordinator that meets garbage when it loads its partition
    # serves no group of that partition any more.
    for topic in ("__consumer_offsets", f"{PREFIX}metadata", f"{PREFIX}members"):
        loop.send(topic, 0, b"{not json", key=b"\xff garbage")
    assert loop.producer.flush(10) == 0
    kept = loop.read(
        "dead-letters",
        lambda records: (
            {json.loads(key)[0] for key in records} >= {"__consumer_offsets", f"{PREFIX}metadata"}
        ),
        within=120,
    )
    assert all(value["reason"] for value in kept.values())
    loop.daemon.wait_for("the rejection", lambda: loop.daemon.logged("record.rejected"))
    loop.produce("lasting", 1, 10)
    key = b'["lag","lasting","lasting"]'
    loop.read("lag", lambda records: (records.get(key) or {"lag": [0, 0]})["lag"][1] == 10)
    assert loop.daemon.child.poll() is None

"""Plans of watched groups go by what their members subscribe to, as lag records name it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import LagRecord, PlanShard, decode
from levelwind.assignors.protocol.records.shards import planned_assignments
from levelwind.daemon.control.watched.lag_owners import member_racks_in, subscriptions_in
from levelwind_testing.control.play import Play
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.coordinator_commands import Groups
from levelwind_testing.pipeline.scripted_log import ID, OTHER, lag, run
from levelwind_testing.records import lag as lag_of
from levelwind_testing.records import topic

LAYOUTS = [topic(name, (("a",),) * 3, topic_id=f"id-{name}") for name in "tu"]
IDS = {"t": ID, "u": OTHER}


def of_topic(name, owner, *, members=("m0",), at=100_000, **more):
    """A group's lag in a topic of three partitions, whose owners are indices of `members`."""
    owned = {"members": members, "owner": owner} if owner else {}
    return lag_of(
        0, 0, 0, ends=[5, 5, 5], topic=name, topic_id=f"id-{name}", at=at, **owned, **more
    )


def left(name, *non_readers, at=100_000, **more):
    """Lag of a topic that the group has left, five records behind in each partition."""
    return of_topic(name, (), unclaimed=(5, 5, 5), non_readers=non_readers, at=at, **more)


def planned(play):
    """Partitions by member and topic, of the newest plan."""
    kept = {record.key: record for record in play.log}
    shards = {record.shard: record for record in kept.values() if isinstance(record, PlanShard)}
    return planned_assignments(kept["g", "g"], shards)


def subscribed(play):
    return {entry.instance: entry.topics for entry in play.state.groups["g"].plan.members}


@pytest.mark.parametrize("mode", ["published", "advisory"])
def test_members_get_what_they_read_alone_and_those_that_own_nothing_take_part(mode):
    play = Play(strategy="uniform", modes={"g": mode})
    play.start(
        *LAYOUTS,
        of_topic("t", (0, 0, 0), others=("m1",), other_racks=("b",)),
        of_topic("u", (0, 0, 0), others=("m1",), other_racks=("b",), non_readers=("m1",)),
    )
    play.wait(2)
    assert subscribed(play) == {"m0": ("t", "u"), "m1": ("t",)}
    assert planned(play) == {"m0": {"u": (0, 1, 2)}, "m1": {"t": (0, 1, 2)}}
    assert play.state.groups["g"].plan.members[1].rack == "b"


def test_a_topic_that_all_members_left_is_planned_for_nobody():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(*LAYOUTS, of_topic("t", (0, 0, 0)), of_topic("u", (0, 0, 0)))
    play.wait(2)
    assert planned(play) == {"m0": {"t": (0, 1, 2), "u": (0, 1, 2)}}
    play.receive("lag", left("u", "m0", at=103_000))
    play.wait(2)
    plan = play.state.groups["g"].plan
    assert (plan.cause, sorted(plan.topics)) == ("membership", ["t"])
    assert planned(play) == {"m0": {"t": (0, 1, 2)}}
    play.restart()
    play.wait(10)
    assert len(play.plans) == 2, "the plan says what it was made for"


def test_a_group_that_left_all_of_its_topics_is_planned_nothing():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(*LAYOUTS, of_topic("t", (0, 0, 0)))
    play.wait(2)
    play.receive("lag", left("t", "m0", others=("m0",), at=103_000))
    play.wait(2)
    assert subscribed(play) == {"m0": ()}
    assert not any(planned(play).values())
    assert not play.logged("plan.failed")


def test_where_subscriptions_are_not_known_each_owner_counts_as_reading_all_topics():
    lags = {"t": of_topic("t", (0, 0, 0)), "u": of_topic("u", (0, 0, -1), members=("m1",))}
    assert subscriptions_in(lags) == {"m0": {"t", "u"}, "m1": {"t", "u"}}


def test_a_topic_that_was_left_is_not_read_by_members_that_have_come_since():
    lags = {"t": of_topic("t", (0, 0, 0), others=("m1",)), "u": left("u", "m0", at=99_000)}
    assert subscriptions_in(lags) == {"m0": {"t"}, "m1": {"t"}}


READ = st.sets(st.sampled_from("tu"), min_size=1)


@settings(max_examples=examples(50))
@given(st.dictionaries(st.sampled_from("mno"), READ, min_size=1), st.sets(st.integers(0, 5)))
def test_the_planner_finds_what_the_groups_own_record_says(subscriptions, owned):
    """From the coordinator's bytes through the pipeline to the planner."""
    story = Groups()
    names = sorted(subscriptions)
    shares = {name: {} for name in names}
    for number in owned:
        name, partition = "tu"[number // 3], number % 3
        readers = [member for member in names if name in subscriptions[member]]
        if readers:
            share = shares[readers[number % len(readers)]]
            share[name] = (*share.get(name, ()), partition)
    for name, topic_id in IDS.items():
        story.layout(0, name, [["a"]] * 3, topic_id=topic_id)
        story.commits(1, "g", name, {0: 1}, topic_id=topic_id)
    story.rebalance(
        2, "g", {name: (sorted(subscriptions[name]), shares[name]) for name in names}, rack="a"
    )
    for name, topic_id in IDS.items():
        story.sample(3, name, (5, 5, 5), topic_id=topic_id)
    rows = run(story)
    lags = {
        name: decode("lag", json.dumps(["lag", "g", name]).encode(), json.dumps(found).encode())
        for name in IDS
        if (found := lag(rows, topic=name)) is not None
    }
    assert all(isinstance(record, LagRecord) for record in lags.values())
    assert subscriptions_in(lags) == subscriptions
    assert member_racks_in(lags) == dict.fromkeys(names, "a")

"""What the members of a group subscribe to decides which partitions it claims."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import LagRecord, decode
from levelwind.streaming.group import codec as group_codec
from levelwind.streaming.rules.skew import SkewRule
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.coordinator_commands import Groups, owners, plan_of
from levelwind_testing.pipeline.local_pipeline import LocalPipeline
from levelwind_testing.pipeline.scripted_log import ID, OTHER, RULE, lag, run, triggers

IDS = {"t": ID, "u": OTHER}
ENDS = {"t": (10, 20, 30), "u": (7, 8, 9)}
COMMITTED = {"t": {0: 4, 1: 5}, "u": {0: 1}}
"""The third partition of `t` is new, as are two of `u`."""
BY_RESET = {"t": [6, 15, 30], "u": [6, 8, 9]}
"""What a reader would find: from the commit, or else from the beginning."""


def two_topics(*, commits: bool = True) -> Groups:
    story = Groups()
    for topic, topic_id in IDS.items():
        story.layout(0, topic, [["a"]] * 3, topic_id=topic_id)
        if commits:
            story.commits(1, "g", topic, COMMITTED[topic], topic_id=topic_id)
    return story


def sampled(story: Groups, at: float = 9) -> dict[str, Any]:
    """The group's lag in both topics after a sample of each.

    It is the same whether the group is updated alone or, by batches of samples alone, in columns.
    """
    before = len(story.messages)
    for topic, topic_id in IDS.items():
        story.sample(at, topic, ENDS[topic], topic_id=topic_id)
    found = {topic: lag(run(story), topic=topic) for topic in IDS}
    assert found == {topic: lag(run(story, batches=[before]), topic=topic) for topic in IDS}
    return found


def record_of(found: dict[str, Any], topic: str) -> LagRecord:
    key = json.dumps(["lag", "g", topic]).encode()
    record = decode("lag", key, json.dumps(found[topic]).encode())
    assert isinstance(record, LagRecord)
    return record


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_all_members_left_is_no_lag(protocol: str) -> None:
    story = two_topics()
    if protocol == "classic":
        story.rebalance(2, "g", {"m": (["t", "u"], {"t": (0, 1, 2), "u": (0, 1, 2)})})
    else:
        story.introduce(2, "g", "m", None, topics=["t", "u"])
        story.assign(2, "g", "m", {ID: [0, 1, 2], OTHER: [0, 1, 2]})
    both = sampled(story, at=3)
    assert {topic: both[topic]["lag"] for topic in IDS} == BY_RESET
    if protocol == "classic":
        story.rebalance(4, "g", {"m": (["t"], {"t": (0, 1, 2)})})
    else:
        story.introduce(4, "g", "m", None, topics=["t"])
        story.assign(5, "g", "m", {ID: [0, 1, 2]})
    found = sampled(story)
    assert (found["t"]["lag"], owners(found["t"])) == (BY_RESET["t"], ["m"] * 3)
    assert (found["u"]["lag"], found["u"]["unclaimed"]) == ([0, 0, 0], BY_RESET["u"])
    assert found["u"]["non_readers"] == ["m"]
    left = record_of(found, "u")
    assert (left.left, left.longest_wait) == (True, 0.0)
    assert not record_of(found, "t").left
    assert "non_readers" not in found["t"]


def test_partitions_of_a_topic_left_are_its_owners_until_they_are_given_up() -> None:
    story = two_topics()
    story.introduce(2, "g", "m", None, topics=["t"])
    story.assign(3, "g", "m", {ID: [0, 1, 2]}, {OTHER: [0, 2]})
    found = sampled(story)["u"]
    assert (found["lag"], found["unclaimed"]) == ([6, 0, 9], [-1, 8, -1])
    assert not record_of({"u": found}, "u").left


def test_a_new_partition_counts_from_its_beginning_while_a_member_subscribes() -> None:
    story = two_topics()
    story.rebalance(2, "g", {"m": (["t"], {"t": (0, 1)})})
    found = sampled(story)["t"]
    assert (found["lag"], owners(found)) == ([6, 15, 30], ["m", "m", None])
    assert "unclaimed" not in found


def test_a_topic_without_commits_has_a_lag_record_while_a_member_subscribes() -> None:
    story = two_topics(commits=False)
    story.rebalance(2, "g", {"m": (["t", "u"], {"t": (0, 1, 2)})})
    found = sampled(story)
    assert {topic: found[topic]["lag"] for topic in IDS} == {"t": [10, 20, 30], "u": [7, 8, 9]}
    story.rebalance(10, "g", {"m": (["t"], {"t": (0, 1, 2)})})
    assert sampled(story, at=11)["u"] is None, "it never committed there"


@pytest.mark.parametrize("members", [{}, {"m": (["t"], {"t": (0,)}), "foreign": (None, {})}])
def test_without_members_or_with_one_that_cannot_be_read_commits_and_owners_claim(
    members: dict[str, Any],
) -> None:
    story = two_topics()
    story.rebalance(2, "g", members)
    found = sampled(story)
    assert (found["t"]["lag"], found["t"]["unclaimed"]) == ([6, 15, 0], [-1, -1, 30])
    assert (found["u"]["lag"], found["u"]["unclaimed"]) == ([6, 0, 0], [-1, 8, 9])
    assert not found["t"].keys() & {"others", "non_readers"}


def test_what_members_read_counts_before_what_was_planned() -> None:
    story = two_topics()
    topics = {topic: plan_of([["a"]] * 3, 0, IDS[topic]) for topic in IDS}
    story.plan(2, "g", metadata_at=0, topics=topics)
    assert sampled(story, at=3)["u"]["lag"] == BY_RESET["u"]
    story.rebalance(4, "g", {"m": (["t"], {"t": (0,)})})
    found = sampled(story)
    assert (found["t"]["lag"], found["u"]["lag"]) == (BY_RESET["t"], [0, 0, 0])


def test_members_that_own_nothing_are_named_with_their_racks() -> None:
    story = two_topics()
    members = {"m": (["t"], {"t": (0, 1, 2)}), "n": (["t"], {}), "o": (["t", "u"], {})}
    story.rebalance(2, "g", members, rack="a")
    found = sampled(story)
    assert (found["t"]["others"], found["t"]["other_racks"]) == (["n", "o"], ["a", "a"])
    assert "non_readers" not in found["t"]
    assert (found["u"]["others"], found["u"]["non_readers"]) == (["n", "o"], ["m", "n"])


def test_records_of_a_topic_that_was_left_are_no_wait_that_makes_skew_a_trigger() -> None:
    """A speed is not known: skew is a trigger only where records are seen to wait."""
    for subscribed in (["t", "u"], ["t"]):
        story = two_topics()
        story.commits(1, "g", "u", dict.fromkeys(range(3), 0), topic_id=OTHER)
        members = {"m": (subscribed, {"t": (0, 1)}), "n": (subscribed, {"t": (2,)})}
        story.rebalance(1, "g", members)
        for second in range(2, 20):
            written = [20 * second, 20 * second, second]
            story.commits(second, "g", "t", dict(enumerate(written)))
            story.sample(second + 0.5, "t", written)
            story.sample(second + 0.5, "u", [5, 5, 5], topic_id=OTHER)
        rule = SkewRule(threshold=1.01, floor_seconds=0, duration_ms=2000)
        for batches in ([], range(len(story.messages))):  # alone, and in columns
            raised = triggers(run(story, LocalPipeline(skew=rule), batches))
            assert bool(raised) == (subscribed == ["t", "u"])


def test_subscriptions_are_read_back_as_they_were_written() -> None:
    pipeline = LocalPipeline(skew=RULE)
    story = two_topics()
    owned = {"t": (0, 1, 2)}
    story.rebalance(2, "g", {"m": (["t"], owned), "n": (["t"], {}), "o": (["u"], {})})
    story.introduce(2, "h", "m", None, topics=["t"], regex="u.*")
    story.resolve(2, "h", "u.*", ["u"])
    story.sample(3, "t", ENDS["t"])
    run(story, pipeline)
    topics = [frozenset("t"), frozenset("t"), frozenset("u")]
    assert [owner.topics for owner in pipeline.group_state("g").classic_members] == topics
    assert pipeline.group_state("h").consumer_members["m"].regex == "u.*"
    for group in "gh":
        stored = group_codec.pack(pipeline.group_state(group))
        assert group_codec.pack(group_codec.unpack(stored)) == stored


# -- against a naive twin

TOPIC_SETS = st.sets(st.sampled_from("tu")).map(sorted)
PARTITION_SETS = st.sets(st.integers(0, 2))
MEMBERS = st.dictionaries(
    st.sampled_from("mno"),
    st.tuples(st.none() | TOPIC_SETS, st.dictionaries(st.sampled_from("tu"), PARTITION_SETS)),
)


@settings(max_examples=examples(100))
@given(MEMBERS)
def test_lag_others_and_non_readers_are_those_of_a_naive_twin(members: dict[str, Any]) -> None:
    owner: dict[tuple[str, int], str] = {}
    for name, (_, owned) in sorted(members.items()):
        for topic, numbers in owned.items():
            owner |= {(topic, number): name for number in numbers if (topic, number) not in owner}
    exclusive = {
        name: (
            topics,
            {topic: tuple(n for n in range(3) if owner.get((topic, n)) == name) for topic in "tu"},
        )
        for name, (topics, _) in members.items()
    }
    story = two_topics()
    story.rebalance(2, "g", exclusive)
    found = sampled(story)
    readers = {
        name: topics
        for name, (topics, owned) in exclusive.items()
        if topics or topics is None or any(owned.values())
    }
    known = bool(readers) and None not in readers.values()
    for topic in "tu":
        subscribed = known and any(topic in topics for topics in readers.values())
        claimed = [
            subscribed or (topic, n) in owner or (not known and n in COMMITTED[topic])
            for n in range(3)
        ]
        waiting = BY_RESET[topic]
        said = found[topic]
        expected = [n if of else 0 for n, of in zip(waiting, claimed, strict=True)]
        assert said["lag"] == expected, topic
        unclaimed = [-1 if of else n for n, of in zip(waiting, claimed, strict=True)]
        assert said.get("unclaimed", [-1] * 3) == unclaimed
        idle = [name for name in sorted(readers) if name not in owner.values()]
        assert said.get("others", []) == (idle if known else [])
        strangers = [name for name in sorted(readers) if known and topic not in readers[name]]
        assert said.get("non_readers", []) == strangers

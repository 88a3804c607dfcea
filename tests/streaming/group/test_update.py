"""Updates of a group: its owners under each protocol, its plan's topics, and what is dropped."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import Tombstone
from levelwind.streaming.group import codec as group_codec
from levelwind.streaming.group.update import TTL_MS
from levelwind.streaming.messages import packing
from levelwind.streaming.topic.state import READER_TTL_MS
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.coordinator_commands import Groups, consumer_key, owners, plan_of
from levelwind_testing.pipeline.local_pipeline import OFFSETS, TOPICS, LocalPipeline
from levelwind_testing.pipeline.offsets_reference_codec import Golden, group_key
from levelwind_testing.pipeline.scripted_log import (
    CUTS,
    ID,
    OTHER,
    RULE,
    SECOND,
    assert_alike,
    compacted,
    deleted_since_sample,
    lag,
    name_of,
    run,
    triggers,
)

DAY = 24 * 60 * 60


# -- KIP-848 groups


def consumers(story: Groups) -> None:
    story.layout(0, "t", [["a", "b"], ["b", "c"], ["c"]])
    story.introduce(1, "g", "m0", "a")
    story.assign(1, "g", "m0", {ID: [0, 1]})
    story.introduce(1, "g", "m1", None, instance="static")
    story.assign(1, "g", "m1", {ID: [2]})
    story.commits(2, "g", "t", {0: 0, 1: 0, 2: 0})


def test_owners_of_a_kip_848_group_come_from_its_members_current_assignments() -> None:
    story = Groups()
    consumers(story)
    story.sample(3, "t", [10, 10, 10])
    for batches in ([], [1], [2, 4], [5, 6, 7]):
        found = lag(run(story, batches=batches))
        assert owners(found) == ["m0", "m0", "static"], batches
        assert found["local"] == [True, False, None], batches
        assert found["member_racks"] == ["a", None], batches


def test_lag_of_a_kip_848_group_is_skewed_by_its_members_share() -> None:
    story = Groups()
    consumers(story)
    for second in range(3, 16):
        story.sample(second, "t", [900, 900, 0])
    (found,) = (json.loads(value or b"") for _, value in triggers(run(story)))
    members = found["evidence"]["members"]
    assert {name: load["backlog"] for name, load in members.items()} == {"m0": 1800, "static": 0}


def test_a_member_owns_a_partition_until_it_has_revoked_it() -> None:
    story = Groups()
    consumers(story)
    story.assign(3, "g", "m0", {ID: [0]}, revoking={ID: [1]})
    story.sample(4, "t", [10, 10, 10])
    assert owners(lag(run(story))) == ["m0", "m0", "static"]
    story.assign(5, "g", "m0", {ID: [0]})
    story.sample(6, "t", [10, 10, 10])
    assert owners(lag(run(story))) == ["m0", None, "static"]


def test_a_member_that_left_owns_nothing() -> None:
    story = Groups()
    consumers(story)
    story.leave(3, "g", "m0")
    story.sample(4, "t", [10, 10, 10])
    found = lag(run(story))
    assert owners(found) == [None, None, "static"]
    assert "local" not in found
    assert "member_racks" not in found


def test_a_deleted_group_has_no_members_even_if_their_own_tombstones_are_missing() -> None:
    story = Groups()
    consumers(story)
    story.add(OFFSETS, 3000, consumer_key(3, "g"), None)
    story.sample(4, "t", [10, 10, 10])
    assert owners(lag(run(story))) == [None, None, None]


def test_a_lag_record_has_no_locality_where_racks_are_unknown() -> None:
    story = Groups()
    story.member(1, "g", "m0", {"t": (0,)}, rack="a")
    story.commits(2, "g", "t", {0: 0})
    story.sample(3, "t", [10])
    found = lag(run(story))
    assert owners(found) == ["m0"]
    assert "local" not in found


def test_a_topic_id_is_kept_until_its_topic_is_known() -> None:
    story = Groups()
    story.assign(1, "g", "m0", {OTHER: [0]})
    story.layout(2, "u", [["a"]], topic_id=OTHER)
    story.commits(3, "g", "u", {0: 1}, topic_id=OTHER)
    story.sample(4, "u", [9], topic_id=OTHER)
    for batches in ([], [1], [2], [3]):
        assert owners(lag(run(story, batches=batches), topic="u")) == ["m0"], batches


def test_an_owner_of_a_former_topic_owns_nothing_of_a_recreated_one() -> None:
    story = Groups()
    consumers(story)
    story.layout(3, "t", [["a"], ["a"], ["a"]], topic_id=OTHER)
    story.commits(4, "g", "t", {0: 0}, topic_id=OTHER)
    story.sample(5, "t", [10, 10, 10], topic_id=OTHER)
    assert owners(lag(run(story))) == [None, None, None]


def test_changed_racks_are_a_trigger_for_a_kip_848_group_with_a_rack() -> None:
    story = Groups()
    consumers(story)
    story.layout(5, "t", [["a", "b"], ["b", "c"], ["a"]])
    found = compacted(run(story))["racks", "g"]
    assert found["evidence"]["topics"] == {"t": {"2": {"from": ["c"], "to": ["a"]}}}


@pytest.mark.parametrize("tombstones", [True, False], ids=["as written", "after compaction"])
def test_a_group_that_changes_to_the_consumer_protocol_and_back_has_the_owners_of_the_last(
    golden: Mapping[str, Golden], *, tombstones: bool
) -> None:
    group = "golden-classic"
    classic = golden["classic_group_with_two_members"].value
    story = Groups()
    story.layout(0, "golden", [["a"], ["b"], ["c"]])
    story.commits(0, group, "golden", {0: 0, 1: 0, 2: 0})
    story.add(OFFSETS, 1000, group_key(group), classic)
    story.sample(2, "golden", [9, 9, 9])
    assert owners(lag(run(story), group, "golden"))[1] == "static-2"
    if tombstones:
        story.add(OFFSETS, 3000, group_key(group), None)
    story.introduce(3, group, "new", "a")
    story.assign(3, group, "new", {ID: [0, 1, 2]})
    story.sample(4, "golden", [9, 9, 9])
    assert owners(lag(run(story), group, "golden")) == ["new"] * 3
    if tombstones:
        story.leave(5, group, "new")
    story.add(OFFSETS, 5000, group_key(group), classic)
    story.sample(6, "golden", [9, 9, 9])
    for batches in ([], [3, 5], [4, 6, 8]):
        assert owners(lag(run(story, batches=batches), group, "golden"))[1] == "static-2"
        assert "new" not in lag(run(story, batches=batches), group, "golden")["members"]
    story.add(OFFSETS, 7000, group_key(group), None)
    story.sample(8, "golden", [9, 9, 9])
    assert owners(lag(run(story), group, "golden")) == [None] * 3


def test_a_clock_that_jumps_back_does_not_put_records_of_a_group_out_of_order() -> None:
    story = Groups()
    consumers(story)
    story.assign(9, "g", "m0", {ID: [0]})
    story.assign(2, "g", "m0", {ID: [0, 1]})  # later in the log, by an earlier clock
    story.sample(20, "t", [10, 10, 10])
    assert owners(lag(run(story))) == ["m0", "m0", "static"]


# -- owners as of the sample


def test_the_owners_are_those_at_the_time_of_the_sample() -> None:
    story = Groups()
    consumers(story)
    story.sample(3, "t", [10, 10, 10])
    story.leave(4, "g", "m0")
    assert owners(lag(run(story))) == ["m0", "m0", "static"]
    story.sample(5, "t", [10, 10, 10])
    assert owners(lag(run(story))) == [None, None, "static"]


def test_owners_of_managed_groups_come_from_the_plan_and_not_from_the_coordinator() -> None:
    story = Groups()
    consumers(story)
    story.member(2, "g", "managed", {"t": (0, 2)}, rack="c")
    story.sample(3, "t", [10, 10, 10])
    found = lag(run(story))
    assert owners(found) == ["managed", None, "managed"]
    assert found["local"] == [False, None, True]


# -- topics that a group reads by its members


def test_members_that_have_never_committed_have_a_lag_record() -> None:
    story = Groups()
    story.layout(0, "t", [["a"], ["b"]])
    story.introduce(1, "g", "m0", None, topics=("t",))
    story.assign(2, "g", "m0", {ID: [0, 1]})
    story.sample(3, "t", [7, 8], begin=[0, 3])
    story.sample(4, "t", [9, 8], begin=[0, 3])
    for batches in ([], [1], [2], [3], [4], [1, 2, 3, 4]):
        found = lag(run(story, batches=batches))
        assert (found["committed"], found["lag"]) == ([-1, -1], [9, 5]), batches
        assert owners(found) == ["m0", "m0"], batches
        assert "unclaimed" not in found
    story.leave(5, "g", "m0")
    for batches in ([], [5], [6], [5, 6]):
        assert lag(run(story, batches=batches)) is None, batches


def test_members_that_subscribe_to_an_expression_read_what_it_matches() -> None:
    for matched_first in (True, False):
        story = Groups()
        story.layout(0, "t", [["a"], ["b"]])
        if matched_first:
            story.resolve(1, "g", "t.*", ("t",))
        story.introduce(1, "g", "m0", None, topics=())
        if not matched_first:
            story.resolve(1, "g", "t.*", ("t",))
        story.assign(2, "g", "m0", {ID: [0, 1]})
        story.sample(3, "t", [7, 8])
        found = lag(run(story))
        assert (found["lag"], owners(found)) == ([7, 8], ["m0", "m0"]), matched_first
        story.resolve(4, "g", "t.*", ())
        assert lag(run(story)) is None


def test_a_classic_member_that_has_never_committed_has_a_lag_record(
    golden: Mapping[str, Golden],
) -> None:
    story = Groups()
    story.layout(0, "golden", [["a"]] * 3)
    record = golden["classic_group_with_two_members"]
    story.add(OFFSETS, 1000, record.key, record.value)
    story.sample(2, "golden", [7, 8, 9])
    found = lag(run(story), "golden-classic", "golden")
    assert (found["committed"], found["lag"]) == ([-1] * 3, [7, 8, 9])
    assert None not in owners(found)


def test_racks_that_changed_before_the_members_came_back_are_no_news_under_any_cut() -> None:
    story = Groups()
    story.layout(0, "t", [["a"], ["b"]])
    story.introduce(1, "g", "m0", "a", topics=("t",))
    story.layout(2, "t", [["a"], ["c"]])
    story.leave(3, "g", "m0")
    story.introduce(4, "g", "m0", "a", topics=("t",))
    for cut in range(len(story.messages) + 1):
        raised = [value is not None for _, value in triggers(run(story, batches=[cut]))]
        assert raised == [True, False], f"in batches cut before message {cut}"


def test_members_that_left_before_they_committed_leave_the_columns_alone() -> None:
    story = Groups()
    story.layout(0, "t", [["a"], ["b"]])
    story.layout(0, "u", [["a"]], topic_id=OTHER)
    story.commits(0, "g", "u", {0: 1}, topic_id=OTHER)
    story.introduce(1, "g", "m0", None, topics=("t",))
    story.leave(2, "g", "m0")
    story.sample(3, "t", [7, 8])
    story.sample(3, "u", [7], topic_id=OTHER)
    pipeline = LocalPipeline()
    run(story, pipeline)
    before = {name: value for name, value in pipeline.groups.items() if "samples" not in name}
    story.messages.clear()
    story.sample(5, "t", [9, 9])
    story.sample(5, "u", [9], topic_id=OTHER)
    out = run(story, pipeline)
    assert lag(out, topic="u")["lag"] == [8]
    assert lag(out, topic="t") is None
    after = {name: value for name, value in pipeline.groups.items() if "samples" not in name}
    assert all(after[name] is before[name] for name in before)


# -- topics that a group reads by plan


def test_a_planned_group_without_any_commit_has_a_lag_record() -> None:
    story = Groups()
    story.layout(0, "t", [["a"], ["b"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"], ["b"]], at=0)})
    story.member(1, "g", "m0", {"t": (0, 1)}, rack="a")
    story.sample(2, "t", [7, 8])
    for batches in ([], [1], [2], [3], [1, 2, 3]):
        found = lag(run(story, batches=batches))
        assert (found["committed"], found["lag"]) == ([-1, -1], [7, 8]), batches
        assert owners(found) == ["m0", "m0"], batches


def test_a_change_of_racks_between_the_first_plan_and_the_first_commit_is_a_trigger() -> None:
    story = Groups()
    story.layout(0, "t", [["a"], ["b"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"], ["b"]], at=0)})
    story.member(1, "g", "m0", {"t": (0, 1)}, rack="a")
    story.layout(2, "t", [["a"], ["c"]])
    for batches in ([], [1], [2], [3]):
        found = compacted(run(story, batches=batches))["racks", "g"]
        assert found["evidence"]["topics"] == {"t": {"1": {"from": ["b"], "to": ["c"]}}}, batches


def test_a_rebuilt_pipeline_misses_no_change_of_racks_since_the_plan() -> None:
    """Compaction has left the newest layout alone, and the plan."""
    story = Groups()
    story.layout(5, "t", [["a"], ["c"]])
    story.commits(1, "g", "t", {0: 1})
    story.plan(2, "g", metadata_at=0, topics={"t": plan_of([["a"], ["b"]], at=0)})
    story.member(2, "g", "m0", {"t": (0, 1)}, rack="a")
    for batches in ([], [1], [2], [3]):
        found = compacted(run(story, batches=batches))["racks", "g"]
        assert found["evidence"]["topics"] == {"t": {"1": {"from": ["b"], "to": ["c"]}}}, batches
        assert found["since"] == 5000, batches


def test_racks_of_a_topic_that_a_group_does_not_read_are_ignored() -> None:
    story = Groups()
    story.member(0, "g", "m0", {"t": (0,)}, rack="a")
    story.layout(0, "t", [["a"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    story.add_record(TOPICS.assignments, 2 * SECOND, Tombstone(("g", "g")))
    story.layout(3, "t", [["b"]])
    story.layout(4, "t", [["c"]])
    story.commits(5, "g", "t", {0: 1})
    story.sample(6, "t", [9])
    for batches in ([], [3], [4], range(99)):
        assert triggers(run(story, batches=batches)) == [], batches


def test_a_layout_older_than_the_plans_is_no_change() -> None:
    """The pipeline is behind with the metadata that the planner has seen."""
    story = Groups()
    story.layout(1, "t", [["a"], ["b"]])
    story.commits(1, "g", "t", {0: 1})
    story.sample(1.5, "t", [9, 9])
    story.member(2, "g", "m0", {"t": (0, 1)}, rack="a")
    story.plan(6, "g", metadata_at=5, topics={"t": plan_of([["a"], ["c"]], at=5)})
    assert triggers(run(story)) == []
    story.layout(7, "t", [["a"], ["b"]])
    assert ("racks", "g") in compacted(run(story)), (
        "back to the former racks, but not to those of the plan"
    )


def test_another_topics_newer_metadata_does_not_hide_a_change() -> None:
    story = Groups()
    story.layout(1, "t", [["a"], ["b"]])
    story.commits(1, "g", "t", {0: 1})
    story.member(2, "g", "m0", {"t": (0, 1)}, rack="a")
    story.layout(3, "t", [["a"], ["c"]])
    # The planner knew of `u` at 4, of `t` only what it was at 1.
    story.plan(5, "g", metadata_at=4, topics={"t": plan_of([["a"], ["b"]], at=1)})
    assert ("racks", "g") in compacted(run(story))
    story.plan(6, "g", metadata_at=4, topics={"t": plan_of([["a"], ["c"]], at=3)})
    assert ("racks", "g") not in compacted(run(story))


def test_a_plan_for_a_recreated_topic_is_not_compared_with_the_former_topic() -> None:
    story = Groups()
    story.layout(1, "t", [["a"]])
    story.commits(1, "g", "t", {0: 1})
    story.sample(1.5, "t", [9])
    story.member(2, "g", "m0", {"t": (0,)}, rack="a")
    story.plan(2, "g", metadata_at=1, topics={"t": plan_of([["a"]], at=1)})
    story.layout(3, "t", [["b"]], topic_id=OTHER)
    story.commits(4, "g", "t", {0: 1}, topic_id=OTHER)
    story.sample(4.5, "t", [9], topic_id=OTHER)
    story.plan(5, "g", metadata_at=1, topics={"t": plan_of([["a"]], at=1)})
    assert triggers(run(story)) == []
    story.layout(6, "t", [["c"]], topic_id=OTHER)
    assert ("racks", "g") in compacted(run(story)), (
        "compared with the racks of the recreated topic itself"
    )
    story.plan(6, "g", metadata_at=3, topics={"t": plan_of([["b"]], at=3, topic_id=OTHER)})
    assert ("racks", "g") in compacted(run(story))
    story.plan(7, "g", metadata_at=6, topics={"t": plan_of([["c"]], at=6, topic_id=OTHER)})
    assert ("racks", "g") not in compacted(run(story))


def test_a_topic_without_commits_is_dropped_when_the_next_plan_leaves_it_out() -> None:
    story = Groups()
    story.layout(0, "t", [["a"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    story.sample(2, "t", [7])
    assert lag(run(story)) is not None
    story.plan(3, "g", metadata_at=0, topics={})
    for batches in ([], [2], [3], [4]):
        assert lag(run(story, batches=batches)) is None, batches
    story.sample(4, "t", [8])
    assert lag(run(story)) is None, "though the topic still counts the group as a reader"
    story.plan(5, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    story.sample(6, "t", [9])
    story.member(7, "g", "m0", {"t": (0,)}, rack="a")
    story.layout(8, "t", [["b"]])
    for batches in ([], [5], [6], [7]):
        out = run(story, batches=batches)
        assert lag(out)["lag"] == [9], batches
        assert ("racks", "g") in compacted(out), batches


def test_a_topic_that_neither_plan_nor_commit_covers_any_more_is_dropped() -> None:
    story = Groups()
    story.layout(0, "t", [["a"]])
    story.commits(1, "g", "t", {0: 5})
    story.sample(2, "t", [7])
    story.plan(3, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    story.forget("g", "t", 0, 4000)
    story.plan(5, "g", metadata_at=0, topics={})
    for batches in ([], [4], [5], [4, 5]):
        assert lag(run(story, batches=batches)) is None, batches


def test_lag_published_as_a_plan_ended_ends_with_its_commits() -> None:
    story = Groups()
    story.layout(0, "t", [["a"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    story.sample(2, "t", [9], commits=(0,))
    story.commits(3, "g", "t", {0: 1})
    story.add_record(TOPICS.assignments, 4 * SECOND, Tombstone(("g", "g")))
    before_tombstone = len(story.messages)
    story.forget("g", "t", 0, 5 * SECOND)
    for batches in ([], [before_tombstone], range(99)):
        assert compacted(run(story, batches=batches)) == {}, batches


def test_a_topic_that_the_plan_leaves_out_stays_if_the_group_commits_in_it() -> None:
    story = Groups()
    story.layout(0, "t", [["a"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    story.member(1, "g", "m0", {"t": (0,)}, rack="a")
    story.commits(2, "g", "t", {0: 5})
    story.layout(3, "t", [["a"]])
    story.plan(4, "g", metadata_at=0, topics={})
    story.layout(5, "t", [["b"]])
    for batches in ([], [4], [5], [6]):
        assert ("racks", "g") in compacted(run(story, batches=batches)), batches


def test_a_group_without_commits_leaves_no_lag_and_no_state_after_its_plan() -> None:
    story = Groups()
    story.layout(0, "t", [["a"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    story.member(1, "g", "m0", {"t": (0,)}, rack="a")
    story.sample(2, "t", [7])
    story.add_record(TOPICS.assignments, 3000, Tombstone(("m", "g", "m0", "x")))
    story.add_record(TOPICS.assignments, 3000, Tombstone(("g", "g")))
    story.sample(4, "t", [8])
    pipeline = LocalPipeline(skew=RULE)
    assert compacted(run(story, pipeline)) == {}
    assert pipeline.groups == {}


def test_a_reader_by_plan_is_forgotten_by_its_topic_after_a_while() -> None:
    story = Groups()
    story.layout(0, "t", [["a"]])
    story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    late = READER_TTL_MS // SECOND
    story.sample(late, "t", [7])
    story.sample(late + 2, "t", [8])
    assert lag(run(story)) is not None, "the clock of the last sample may be wrong"
    story.sample(late + 4, "t", [9])
    for batches in ([], [3], [4]):
        assert lag(run(story, batches=batches)) is None, batches


# -- what is dropped


def test_a_silent_group_is_dropped_after_a_while_even_if_its_offsets_remain() -> None:
    story = Groups()
    story.layout(0, "t", [["a"]])
    story.commits(1, "g", "t", {0: 5})
    story.sample(2, "t", [7])
    late = TTL_MS // SECOND
    story.sample(late, "t", [8])
    assert lag(run(story))["lag"] == [3]
    story.sample(late + 2, "t", [9])
    story.sample(late + 3, "t", [9])
    for batches in ([], [3], [4], [3, 4]):
        pipeline = LocalPipeline(skew=RULE)
        assert lag(run(story, pipeline, batches=batches)) is None, batches
        assert pipeline.groups == {}, batches
    story.commits(late + 4, "g", "t", {0: 6})
    story.sample(late + 5, "t", [9])
    assert lag(run(story, batches=[3, 5]))["lag"] == [3], "until a new record of it"


@pytest.mark.parametrize("known", ["commit", "plan"])
@pytest.mark.parametrize("first", [False, True])
def test_one_sample_with_a_wrong_clock_drops_no_silent_group(known: str, first: bool) -> None:
    """A plan came back with the group's next one only."""
    story = Groups()
    story.layout(0, "t", [["a"]])
    if known == "commit":
        story.commits(1, "g", "t", {0: 5})
    else:
        story.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    if not first:
        story.sample(2, "t", [7])
    story.sample(2 * TTL_MS // SECOND, "t", [7])
    wrong = len(story.messages)
    for second in (3, 4):
        story.sample(second, "t", [8])
    for batches in ([], [wrong], range(9)):
        pipeline = LocalPipeline(skew=RULE)
        out = run(story, pipeline, batches=batches)
        assert lag(out) is not None, batches
        if not (first and known == "commit"):
            assert all(row.value is not None for row in out if row.topic == TOPICS.lag), batches


def test_a_group_with_a_member_is_never_dropped_nor_one_that_commits_elsewhere() -> None:
    story = Groups()
    consumers(story)
    late = TTL_MS // SECOND + DAY
    story.sample(late, "t", [8, 8, 8])
    assert lag(run(story)) is not None
    other = Groups()
    other.commits(1, "g", "t", {0: 5})
    other.commits(late, "g", "u", {0: 5}, topic_id=OTHER)
    other.sample(late, "t", [8])
    other.sample(late, "u", [8], topic_id=OTHER)
    other.sample(late + 1, "t", [8])
    for batches in ([], [3]):
        assert lag(run(other, batches=batches)) is not None, batches


def test_a_deleted_kip_848_group_leaves_nothing() -> None:
    story = Groups()
    consumers(story)
    story.sample(3, "t", [1, 1, 1])
    for partition in range(3):
        story.forget("g", "t", partition, 4000)
    for member in ("m0", "m1"):
        story.leave(4, "g", member)
    story.add(OFFSETS, 4000, consumer_key(3, "g"), None)
    for batches in ([], [9], [12]):
        pipeline = LocalPipeline(skew=RULE)
        assert compacted(run(story, pipeline, batches=batches)) == {}
        assert pipeline.groups == {}


def test_racks_of_a_topic_that_only_members_read_stay_a_trigger() -> None:
    story = Groups()
    story.layout(0, "t", [["a"], ["b"], ["c"]])
    story.introduce(0, "g", "m0", "b")
    story.commits(3, "g", "t", {0: 1})
    story.sample(4, "t", [4, 0, 0])
    story.layout(6, "t", [["a"], ["b"], ["a"]])
    story.forget("g", "t", 0, 17_000)
    story.leave(20, "g", "m2")
    for batches in ([], range(len(story.messages))):
        assert [value is None for _, value in triggers(run(story, batches=batches))] == [False]


# -- whatever the batches


@st.composite
def random_logs(draw: st.DrawFn) -> Groups:  # noqa: C901, PLR0912 - one case a kind of event
    """A managed group and a KIP-848 group; every event has a second of its own.

    No plan drops a topic to which its group has committed since the topic's last sample. Plans are
    no part of a sample's cut (docs/limitations.md): a group that neither has a counted commit in a
    topic nor a plan for it forgets the topic, and only the end of a batch shows whether that was so
    for a moment. For the same reason each log ends with a sample of each topic: a plan claims the
    partitions of the samples that it is read with.
    """
    story = Groups()
    racks = {topic: [["a"], ["b"], ["c"]] for topic in "tu"}
    layout_at = dict.fromkeys(racks, 0)
    ids = {"t": ID, "u": OTHER}
    planned: set[str] = set()
    uncounted: set[str] = set()  # topics to which g has committed since their last sample
    for topic in "tu":
        story.layout(0, topic, racks[topic], topic_id=ids[topic])
    story.member(0, "g", "m0", {"t": (0, 2), "u": (0,)}, rack="a")
    story.introduce(0, "k", "c0", "b")
    kinds = [
        "commit",
        "forget",
        "layout",
        *["sample"] * 6,
        "plan",
        "plan",
        "unplan",
        "assign",
        "leave",
        "introduce",
    ]
    event = st.tuples(
        st.sampled_from(kinds),
        st.sampled_from("gk"),
        st.sampled_from("tu"),
        st.integers(0, 2),
        st.integers(0, 400),
    )
    for second, (kind, group, topic, number, size) in enumerate(
        draw(st.lists(event, min_size=4, max_size=30)), 1
    ):
        match kind:
            case "commit" if deleted_since_sample(story, group, topic):
                pass
            case "commit":
                story.commits(second, group, topic, {0: size}, topic_id=ids[topic])
                uncounted |= {topic} if group == "g" else set()
            case "forget":
                story.forget(group, topic, 0, second * SECOND)
            case "layout":
                racks[topic], layout_at[topic] = [["a"], ["b"], ["abc"[number]]], second
                story.layout(second, topic, racks[topic], topic_id=ids[topic])
            case "sample":
                story.sample(second, topic, [400, size, 2 * size], topic_id=ids[topic])
                uncounted.discard(topic)
            case "plan" if (planned - set("tu"[:number])) & uncounted:
                pass
            case "unplan" if planned & uncounted:
                pass
            case "plan":
                planned = set("tu"[:number])
                topics = {t: plan_of(racks[t], layout_at[t], ids[t]) for t in ("tu"[:number])}
                story.plan(second, "g", metadata_at=max(layout_at.values()), topics=topics)
            case "unplan":
                planned = set()
                story.add_record(TOPICS.assignments, second * SECOND, Tombstone(("g", "g")))
            case "assign":
                story.assign(second, "k", f"c{number}", {ids[topic]: [number], ID: [0]})
            case "leave":
                story.leave(second, "k", f"c{number}")
            case _:
                rack = "abc"[number] if size > 100 else None
                story.introduce(second, "k", f"c{number}", rack, topics="tu"[size % 2 :])
    for second, topic in enumerate("tu", 40):
        story.sample(second, topic, [400, 1, 2], topic_id=ids[topic])
    return story


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(random_logs(), CUTS)
def test_any_batches_give_the_same_triggers_lag_and_owners(story: Groups, cuts: list[int]) -> None:
    whole, split = run(story), run(story, batches=cuts)
    assert_alike(whole, split, ("g", "k"))


# -- state as bytes


def test_a_groups_state_is_read_back_as_it_was_written() -> None:
    story = Groups()
    consumers(story)
    story.assign(2, "g", "m1", {ID: [2], OTHER: [1]})
    story.plan(2, "g", metadata_at=0, topics={"t": plan_of([["a", "b"], ["b"], ["c"]], at=0)})
    story.layout(3, "t", [["a", "b"], ["b", "c"], ["a"]])
    story.sample(4, "t", [1, 1, 1])
    pipeline = LocalPipeline(skew=RULE)
    run(story, pipeline)
    state = pipeline.group_state("g")
    stored = group_codec.pack(state)
    assert group_codec.pack(group_codec.unpack(stored)) == stored
    assert state.consumer_members["m1"].owned == {name_of(ID): (2,), name_of(OTHER): (1,)}
    assert state.layouts["t"][0].from_plan
    assert state.racks_trigger is not None


@pytest.mark.parametrize("version", [4, 5, None])
def test_a_state_of_another_version_is_refused_by_its_number(version: int | None) -> None:
    stored = packing.pack({} if version is None else {"state": version}, {})
    with pytest.raises(packing.PackingError, match=f"group state of version {version}, not 10"):
        group_codec.unpack(stored)

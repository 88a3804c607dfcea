"""Topic and group state, driven by records: what is published, whatever the batches."""

import base64
import itertools
import json
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import PlannedTopic, Tombstone
from levelwind.streaming.messages.rows import SinkRow
from levelwind.streaming.topic.state import READER_TTL_MS, LagRule, TopicState
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.local_pipeline import OFFSETS, TOPICS, LocalPipeline, Message
from levelwind_testing.pipeline.offsets_reference_codec import (
    Golden,
    commit_key,
    commit_value,
    group_key,
)
from levelwind_testing.pipeline.scripted_log import (
    CUTS,
    ID,
    OTHER,
    RULE,
    SECOND,
    Story,
    assert_alike,
    compacted,
    deleted_since_sample,
    lag,
    name_of,
    run,
    triggers,
)

DAY = 24 * 60 * 60
PLANNED = PlannedTopic(id=name_of(ID), partitions=1)


def shown(out: Iterable[SinkRow]) -> set[str]:
    """The groups with a lag record after what was published."""
    return {group for kind, group, *_ in compacted(out) if kind == "lag"}


# -- lag


def test_lag_is_published_with_all_that_it_was_computed_from() -> None:
    story = Story()
    story.layout(1, "t", [["a", "b"], ["b"], ["c"]])
    story.commits(2, "g", "t", {0: 60, 1: 130})
    story.sample(3, "t", [100, 120, 50], begin=[70, 0, 10])
    assert lag(run(story)) == {
        "v": 2,
        "at": 3000,
        "id": name_of(ID),
        "end_kind": "stable",
        "committed": [60, 130, -1],
        "committed_at": [2000, 2000, -1],
        "begin": [70, 0, 10],
        "end": [100, 120, 50],
        "lag": [30, 0, 0],
        "lost": [10, 0, 0],
        "stale": [1],
        "seconds": [0, 0, 0],
        "seconds_lower_bound": [0],
        "unclaimed": [-1, -1, 40],
        "racks": [["a", "b"], ["b"], ["c"]],
        "source": {f"{OFFSETS}/0": 1, "levelwind.metadata/0": 1},
    }


def test_the_high_watermark_and_the_reset_policy_are_settings() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.sample(2, "t", [100, 100])
    pipeline = LocalPipeline(lag=LagRule(end_kind="high", reset="latest"))
    found = lag(run(story, pipeline))
    assert (found["end_kind"], found["end"], found["lag"]) == ("high", [107, 107], [47, 0])
    assert found["unclaimed"] == [-1, 0]


def test_partitions_that_nobody_claims_are_told_apart_from_lag() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 78})
    story.sample(2, "t", [100, 100, 100])
    found = lag(run(story))
    assert (found["lag"], found["unclaimed"]) == ([22, 0, 0], [-1, 100, 100])
    story.member(3, "g", "m0", {"t": (0, 1)})
    story.sample(4, "t", [100, 100, 100])
    found = lag(run(story))
    assert (found["lag"], found["unclaimed"]) == ([22, 100, 0], [-1, -1, 100])
    assert "seconds_lower_bound" in found
    story.commits(5, "g", "t", {2: 90})
    found = lag(run(story))
    assert found["lag"] == [22, 100, 10]
    assert "unclaimed" not in found


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_commit_beyond_the_log_counts_as_its_reader_will_reset(policy: str) -> None:
    story = Story()
    cut = (1,)
    story.commits(1, "g", "t", {0: 150})
    story.sample(2, "t", [100], begin=[30], commits=cut)
    rule = LagRule(group_resets={"g": policy})  # type: ignore[dict-item]
    found = lag(run(story, LocalPipeline(lag=rule)))
    assert found["reset"] == [0]
    assert (found["lag"], found["lost"], found["stale"]) == (
        [70 if policy == "earliest" else 0],
        [0],
        [],
    )


def test_a_commit_that_the_sample_does_not_count_is_no_commit_beyond_the_log() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.sample(2, "t", [100], commits=(1,))
    story.commits(3, "g", "t", {0: 150})
    found = lag(run(story))
    assert (found["lag"], found["stale"], found.get("reset")) == ([0], [0], None)


def test_a_commit_between_the_stable_end_and_the_high_watermark_is_that_of_a_reader_ahead() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 107})
    story.sample(2, "t", [100], commits=(1,))  # the high watermark is 107
    found = lag(run(story))
    assert (found["lag"], found["stale"], found.get("reset")) == ([0], [0], None)


def test_offsets_that_hold_no_record_are_no_lag_and_unexamined_ones_are_an_upper_bound() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 45, 1: 45, 2: 5})
    examined = (20, 100, 40, 60, 90, 95)
    story.sample(2, "t", [100] * 3, gaps=[examined, (100, 100), examined])
    for batches in ([], [3], [4]):
        found = lag(run(story, batches=batches))
        assert found["lag"] == [55 - 15 - 5, 55, 95 - 20 - 5]
        assert found["lag_upper_bound"] == [1, 2]
    story.commits(3, "g", "t", {1: 100, 2: 61})
    found = lag(run(story, batches=[4]))
    assert (found["lag"], found.get("lag_upper_bound")) == ([35, 0, 34], None)


def test_the_reset_policy_is_a_setting_of_each_group() -> None:
    story = Story()
    for group in ("g", "other"):
        story.member(0, group, "m0", {"t": (0, 1)})
        story.commits(1, group, "t", {0: 60})
    story.sample(2, "t", [100, 100])
    out = run(story, LocalPipeline(lag=LagRule(group_resets={"other": "latest"})))
    assert [lag(out, group)["lag"] for group in ("g", "other")] == [[40, 100], [40, 0]]


def test_a_commit_after_the_last_sample_shows_at_once() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.sample(2, "t", [100])
    pipeline = LocalPipeline()
    run(story, pipeline)
    later = Story()
    later.messages = [
        Message(topic=OFFSETS, offset=9, at=3000, key=m.key, value=m.value)
        for m in story.messages[:1]
    ]
    later.commits(3, "g", "t", {0: 90})
    found = lag(
        pipeline.run(
            [
                Message(topic=OFFSETS, offset=10, at=3000, key=m.key, value=m.value)
                for m in later.messages[1:]
            ]
        )
    )
    assert (found["at"], found["committed"], found["lag"]) == (2000, [90], [10])


@pytest.mark.parametrize("batches", [[], [4]], ids=["one batch", "two"])
def test_racks_that_change_after_the_last_sample_show_at_once(batches: list[int]) -> None:
    story = Story()
    story.layout(0, "t", [["a"]])
    story.member(0, "g", "m0", {"t": (0,)}, rack="b")
    story.commits(1, "g", "t", {0: 1})
    story.sample(2, "t", [10])
    story.layout(3, "t", [["b"]])
    found = lag(run(story, batches=batches))
    assert (found["racks"], found["local"]) == ([["b"]], [True])


def test_commits_before_anything_is_known_of_the_topic_are_kept_for_it() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    pipeline = LocalPipeline()
    assert run(story, pipeline) == []
    later = Story()
    later.sample(2, "t", [100])
    assert lag(run(later, pipeline))["lag"] == [40]


def test_a_partition_whose_end_cannot_be_read_keeps_the_last_known_one() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.sample(2, "t", [100])
    story.sample(3, "t", [-1])
    found = lag(run(story))
    assert (found["at"], found["end"], found["lag"]) == (3000, [100], [40])


def test_the_log_orders_commits_not_their_clocks() -> None:
    story = Story()
    story.commits(9, "g", "t", {0: 60})
    story.commits(1, "g", "t", {0: 70})  # the clock jumped back
    story.sample(5, "t", [100])
    assert lag(run(story))["committed"] == [70]
    assert lag(run(story, batches=[1, 2]))["committed"] == [70]


def test_a_sample_said_twice_or_late_changes_nothing() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.sample(3, "t", [100])
    story.sample(2, "t", [80])
    story.sample(3, "t", [100])
    assert lag(run(story, batches=[2, 3]))["lag"] == [40]


def test_a_topic_grows() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60, 1: 5})
    story.sample(2, "t", [100])
    story.sample(3, "t", [100, 10])
    assert [json.loads(row.value)["lag"] for row in run(story, batches=[3])] == [[40], [40, 5]]


def test_offset_tombstones_of_all_partitions_take_the_lag_away() -> None:
    story = Story()
    story.layout(0, "t", [["a"], ["a"]])
    story.commits(1, "g", "t", {0: 60, 1: 60})
    story.commits(1, "stays", "t", {0: 1})
    story.sample(2, "t", [100, 100])
    story.forget("g", "t", 0, 3000)
    half = run(story)
    assert lag(half)["committed"] == [-1, 60]
    story.forget("g", "t", 1, 4000)
    for batches in ([], [5], [6], [5, 6]):
        out = run(story, batches=batches)
        assert lag(out) is None, batches
        assert lag(out, "stays")["lag"] == [99, 0]


def test_a_commit_of_no_offset_takes_the_former_one_back() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60, 1: 30})
    story.commits(2, "g", "t", {0: -1})
    story.sample(3, "t", [100, 100])
    found = lag(run(story))
    assert (found["committed"], found["lag"]) == ([-1, 30], [0, 70])
    assert found["unclaimed"] == [100, -1]


def test_a_group_without_a_name_is_skipped_and_counted() -> None:
    """Brokers take its commits; nobody can ask for its lag, and no levelwind record can name it."""
    story, pipeline = Story(), LocalPipeline()
    for group in ("", "g", ""):
        story.commits(1, group, "t", {0: 60})
    story.sample(2, "t", [100])
    assert list(compacted(run(story, pipeline))) == [("lag", "g", "t")]
    assert pipeline.skipped == {"group without a name": 2}


@pytest.mark.parametrize("unreadable", [(0,), (1,), (0, 1, 2)])
def test_a_group_without_a_name_is_skipped_beside_names_that_are_no_utf8(
    unreadable: tuple[int, ...],
) -> None:
    story, pipeline = Story(), LocalPipeline()
    for number in range(3):
        if number in unreadable:
            key = commit_key(f"x{number}", "t", 0).replace(b"x", b"\xff")
            story.add(OFFSETS, SECOND, key, commit_value(60, SECOND))
        story.commits(1, ["", "g", ""][number], "t", {0: 60})
    story.sample(2, "t", [100])
    rows = run(story, pipeline)
    lags = compacted(row for row in rows if row.topic == TOPICS.lag)
    assert list(lags) == [("lag", "g", "t")]
    assert pipeline.skipped == {"group without a name": 2}
    rejected = [row for row in rows if row.topic == TOPICS.dead_letters]
    assert len(rejected) == len(unreadable)


@pytest.mark.parametrize("first", ["the observer", "the coordinator"])
def test_a_deleted_topic_takes_state_and_lag_of_all_its_groups_away(first: str) -> None:
    """The lag ends with what the observer says, the state with the coordinator's tombstones."""
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.commits(1, "h", "t", {0: 60})
    story.sample(2, "t", [100])
    end = Story()
    if first == "the observer":
        end.gone(3, "t")
        pipeline = LocalPipeline()
        assert compacted(run(story, pipeline) + run(end, pipeline)) == {}
    for group in ("g", "h"):
        end.forget(group, "t", 0, 3 * SECOND)
    if first == "the coordinator":
        end.gone(3, "t")
    for batches in ([], [2], range(9)):
        pipeline = LocalPipeline()
        whole = run(story, pipeline)
        assert len(compacted(whole)) == 2
        assert compacted(whole + run(end, pipeline, batches)) == {}
        assert (pipeline.topics, pipeline.groups) == ({}, {})


@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize("behind", [-1, 0, 1])
def test_a_topic_that_ends_by_a_clock_that_is_behind_leaves_none_of_its_lag(
    behind: int, recreated: bool
) -> None:
    """The end's time may be that of the brokers, or of a clock that was set back since."""
    story = Story()
    for topic, topic_id in (("t", ID), ("u", OTHER)):
        story.layout(1, topic, [["a"]], topic_id=topic_id)
        story.commits(2, "g", topic, {0: 60}, topic_id=topic_id)
        story.sample(3, topic, [100], topic_id=topic_id)
    before = len(story.messages)
    story.sample(5, "t", [110])
    if recreated:
        story.layout(5 - behind, "t", [["b"]], topic_id=OTHER)
    else:
        story.gone(5 - behind, "t")
    pipeline = LocalPipeline()
    pipeline.run(story.messages[:before])
    pipeline.run(story.messages[before:])
    assert pipeline.group_state("g").lags.keys() == {"u"}


def of_steps(
    steps: Iterable[tuple[str, str, int]], topic_id: bytes | None, *, exact: bool, sighted: bool
) -> Story:
    """A story of a topic that is gone for a while; `sighted`: its observer sees it all the time.

    There is no sample while it is gone.
    """
    story, gone = Story(), False
    story.layout(1, "t", [["a"]] * 2)
    for second, (kind, group, partition) in enumerate([*steps, ("back", "", 0)], 2):
        cut = (story.written.get(OFFSETS, 0),) if exact else None
        match kind:
            case "commit":
                story.commits(second, group, "t", {partition: second}, topic_id)
            case "forget":
                story.forget(group, "t", partition, second * SECOND)
            case "plan":
                story.plan(second, group, 0, {"t": PLANNED})
            case "sample" if not gone:
                story.sample(second, "t", [100, 200], commits=cut)
            case "gone":
                gone = True
            case "back":
                gone = False
        if kind in {"gone", "back"} and not sighted:
            story.gone(second, "t") if gone else story.layout(second, "t", [["a"]] * 2)
    story.sample(60, "t", [300, 400], commits=(story.written.get(OFFSETS, 0),))
    return story


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit"] * 5 + ["sample"] * 2 + ["forget", "plan", "gone", "back"]),
        st.sampled_from(["g", "h"]),
        st.integers(0, 1),
    ),
    max_size=25,
)


@settings(max_examples=examples(200), deadline=None)
@given(
    STEPS,
    st.sampled_from([ID, None]),
    st.booleans(),
    CUTS,
    st.sampled_from([LagRule(), LagRule(commits_topic=TOPICS.commits)]),
)
def test_a_topic_that_comes_back_has_the_lag_of_one_that_was_always_seen(
    steps: list[tuple[str, str, int]],
    topic_id: bytes | None,
    exact: bool,
    cuts: list[int],
    rule: LagRule,
) -> None:
    """A group that has stopped would never bring its commits back, nor one that stays its plan."""
    names = ("id", "committed", "committed_at", "lag")
    seen, interrupted = (
        {
            key: {name: record[name] for name in names}
            for key, record in compacted(
                run(
                    of_steps(steps, topic_id, exact=exact, sighted=sighted),
                    LocalPipeline(lag=rule),
                    cuts,
                )
            ).items()
        }
        for sighted in (True, False)
    )
    assert interrupted == seen


@pytest.mark.parametrize("before", ["a topic", "nothing"])
@pytest.mark.parametrize("batches", [[], range(9)])
def test_another_topic_of_the_name_has_no_readers_that_planned_to_read_the_former_one(
    before: str, batches: Iterable[int]
) -> None:
    story = Story()
    if before == "a topic":
        story.layout(1, "t", [["a"]])
    story.plan(2, "former", 0, {"t": PLANNED})
    if before == "a topic":
        story.gone(3, "t")
    story.plan(4, "new", 0, {"t": PLANNED})
    story.layout(5, "t", [["a"]], topic_id=OTHER)
    story.sample(6, "t", [70], topic_id=OTHER)
    expected = {"new"} if before == "a topic" else {"new", "former"}
    assert shown(run(story, batches=batches)) == expected


@pytest.mark.parametrize("batches", [[], range(9)])
def test_a_reader_by_plan_expires_also_while_its_topic_is_out_of_sight(
    batches: Iterable[int],
) -> None:
    story = Story()
    story.layout(1, "t", [["a"]])
    story.plan(2, "old", 0, {"t": PLANNED})
    story.gone(3, "t")
    for day in (8, 9):
        story.plan(day * DAY, f"g{day}", 0, {"t": PLANNED})
    story.layout(9 * DAY + 1, "t", [["a"]])
    story.sample(9 * DAY + 2, "t", [70])
    assert shown(run(story, batches=batches)) == {"g8", "g9"}


@pytest.mark.parametrize("rule", [LagRule(), LagRule(commits_topic=TOPICS.commits)])
def test_commits_to_a_deleted_topic_end_in_time_also_without_tombstones(rule: LagRule) -> None:
    """Compaction removes them if no pipeline reads for a day."""
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.commits(1, "h", "t", {0: 60}, topic_id=None)
    story.sample(2, "t", [100])
    story.gone(3, "t")
    story.commits(4, "i", "t", {0: 5})
    pipeline = LocalPipeline(lag=rule)
    run(story, pipeline)
    assert len(TopicState.unpack(pipeline.topics["t"]).commits.groups) == 3
    later = Story()
    later.commits(READER_TTL_MS / SECOND + 4, "j", "t", {0: 6})
    later.commits(READER_TTL_MS / SECOND + 5, "k", "t", {0: 6})
    run(later, pipeline)
    groups = set(TopicState.unpack(pipeline.topics["t"]).commits.groups)
    assert groups == {"i", "j", "k"}, "which commit to what the observer cannot see"


def test_lag_that_only_commits_after_the_last_sample_made_ends_with_the_topic() -> None:
    """So it does though the batch brings a later commit, as to a topic that is only unobserved."""
    story = Story()
    story.layout(0, "t", [["a"]])
    story.sample(1, "t", [9], commits=(0,))
    story.commits(2, "g", "t", {0: 1})
    first_batch = len(story.messages)
    story.gone(3, "t")
    story.commits(4, "g", "t", {0: 2})
    for batches in ([], [first_batch], range(99)):
        assert compacted(run(story, batches=batches)) == {}, batches


def test_a_topic_made_anew_starts_anew() -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60}, topic_id=ID)
    story.commits(1, "tx", "t", {0: 50}, topic_id=None)
    story.sample(2, "t", [100], topic_id=ID)
    story.commits(3, "g", "t", {0: 4}, topic_id=OTHER)
    story.sample(4, "t", [10], topic_id=OTHER)
    for batches in ([], [2], [3], [4], [3, 4]):
        out = run(story, batches=batches)
        found = lag(out)
        assert (found["id"], found["committed"], found["lag"]) == (name_of(OTHER), [4], [6]), (
            batches
        )
        assert lag(out, "tx") is None, (
            "a commit without an id, older than the topic, is the former topic's"
        )


def test_a_commit_to_the_former_topic_does_not_count_for_the_new_one() -> None:
    story = Story()
    story.sample(1, "t", [10], topic_id=OTHER)
    story.commits(2, "g", "t", {0: 60}, topic_id=ID)
    story.sample(3, "t", [10], topic_id=OTHER)
    assert lag(run(story)) is None


@pytest.mark.parametrize("topic_id", [ID, None])
@pytest.mark.parametrize("exact", [False, True])
def test_commits_to_a_topic_that_was_seen_to_go_do_not_count_for_the_next_of_its_name(
    topic_id: bytes | None, exact: bool
) -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60}, topic_id=topic_id)
    story.sample(2, "t", [100], commits=(1,) if exact else None)
    story.gone(3, "t")
    story.commits(4, "h", "t", {0: 5}, topic_id=topic_id and OTHER)
    story.layout(5, "t", [["a"]], topic_id=OTHER)
    story.sample(6, "t", [70], topic_id=OTHER, commits=(2,) if exact else None)
    for batches in ([], [4], range(9)):
        out = run(story, batches=batches)
        assert lag(out) is None
        assert (lag(out, "h")["id"], lag(out, "h")["lag"]) == (name_of(OTHER), [65])


def test_a_commit_without_an_id_counts_for_the_topic_of_its_time() -> None:
    story = Story()
    story.sample(1, "t", [10], topic_id=OTHER)
    story.commits(2, "tx", "t", {0: 6}, topic_id=None)
    assert lag(run(story), "tx")["lag"] == [4]


@pytest.mark.parametrize("seen", [False, True])
def test_a_polled_commit_counts_for_a_topic_made_anew_until_its_tombstone(seen: bool) -> None:
    """The group may have committed the same to the new topic, and nobody would say so."""
    story = Story()
    story.commits(1, "g", "t", {0: 60}, topic_id=None)
    story.sample(2, "t", [100], topic_id=ID)
    if seen:
        story.gone(3, "t")
    story.sample(4, "t", [70], topic_id=OTHER)
    gone = Story()
    gone.forget("g", "t", 0, 5 * SECOND)
    gone.sample(6, "t", [80], topic_id=OTHER)
    for batches in ([], range(9)):
        assert lag(run(story, batches=batches)) is None  # written by a coordinator
        pipeline = LocalPipeline(lag=LagRule(commits_topic=TOPICS.commits))
        out = run(story, pipeline, batches=batches)
        assert lag(out)["committed"] == [60]
        assert (lag(out)["id"], lag(out)["lag"]) == (name_of(OTHER), [10])
        assert compacted(out + run(gone, pipeline)) == {}


@pytest.mark.parametrize("known", ["nothing", "layout", "sample"])
@pytest.mark.parametrize("batches", [[], range(0, 100, 7), range(100)])
def test_readers_by_plan_are_forgotten_also_where_no_sample_comes(
    known: str, batches: Iterable[int]
) -> None:
    """As of a topic that does not exist, or is excluded: each short-lived group stayed for ever."""
    story = Story()
    if known != "nothing":
        story.layout(1, "t", [["a"]])
    if known == "sample":
        story.sample(1, "t", [5])
    for day in range(40):
        story.plan(day * DAY + 2, f"group of day {day}", 0, {"t": PLANNED})
    pipeline = LocalPipeline()
    out = run(story, pipeline, batches)
    # The day before the last is the newest one that two records agree on.
    last_week = {f"group of day {day}" for day in range(32, 40)}
    assert set(TopicState.unpack(pipeline.topics["t"]).planned_readers) == last_week
    if known == "sample":
        assert shown(out) <= last_week


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["g", "h", "i"]), st.integers(0, 20 * DAY)),
        min_size=1,
        max_size=12,
    ),
    CUTS,
)
def test_no_reader_by_plan_is_older_than_its_time_to_live_before_the_newest_but_one(
    plans: list[tuple[str, int]], cuts: list[int]
) -> None:
    story = Story()
    at, newest = 0, {}
    for group, pause in plans:
        at += pause
        newest[group] = at * SECOND
        story.plan(at, group, 0, {"t": PLANNED})
    pipeline = LocalPipeline()
    run(story, pipeline, cuts)
    known = TopicState.unpack(pipeline.topics["t"]).planned_readers
    second = [0, 0, *sorted(set(newest.values()))][-2]
    assert second - min(known.values()) < READER_TTL_MS
    assert known.keys() >= {g for g, since in newest.items() if second - since < READER_TTL_MS}


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.sampled_from(["plan", "sample", "layout"]), min_size=3, max_size=12),
    st.integers(0, 99),
    st.sampled_from(["plan of another", "plan of a reader", "sample", "layout"]),
    st.integers(-99, 400),
    CUTS,
)
@example(["plan"] * 3, 0, "plan of a reader", -94, list(range(100)))  # a clock that begins in 1970
def test_one_record_with_a_wrong_clock_takes_no_reader_away(
    kinds: list[str], place: int, wrong: str, days: int, cuts: list[int]
) -> None:
    """Whatever its kind and its time: nothing but a new record of the group brings it back."""
    story, start, place = Story(), 100 * DAY, place % len(kinds)
    story.plan(start, "quiet", 0, {"t": PLANNED})
    for second, kind in enumerate(kinds, start + 1):
        is_wrong = second == start + 1 + place
        for each, at in [(wrong, second + days * DAY)] * is_wrong + [(kind, second)]:
            match each.split()[0]:
                case "plan":
                    reader = "quiet" if each.endswith("a reader") else f"g{second}"
                    story.plan(at, reader, 0, {"t": PLANNED})
                case "sample":
                    story.sample(at, "t", [5])
                case _:
                    story.layout(at, "t", [["a"]])
    for second in range(start + 20, start + 24):
        story.plan(second, "last", 0, {"t": PLANNED})
        story.sample(second, "t", [5])
    out = run(story, LocalPipeline(), cuts)
    assert shown(out) >= {"quiet", "last"}


@pytest.mark.parametrize("sampled", [False, True])
def test_a_plan_with_a_wrong_clock_is_forgotten_with_the_next_of_its_group(sampled: bool) -> None:
    """It was the newest of its group for three years, in which nothing ended the group."""
    story = Story()
    if sampled:
        story.layout(1, "t", [["a"]])
    story.plan(3 * 365 * DAY, "ended", 0, {"t": PLANNED})
    for day in range(1, 30):
        if day < 5:
            story.plan(day * DAY, "ended", 0, {"t": PLANNED})
        if sampled:
            story.sample(day * DAY + 1, "t", [5])
        else:
            for group in ("g", "h"):
                story.plan(day * DAY + len(group), group, 0, {"t": PLANNED})
    pipeline = LocalPipeline()
    run(story, pipeline, range(999))
    known = TopicState.unpack(pipeline.topics["t"]).planned_readers
    assert "ended" not in known
    assert max(known.values(), default=0) < 30 * DAY * SECOND


def test_an_older_record_does_not_make_a_group_older_where_nothing_else_is_as_new() -> None:
    story = Story()
    for day, group in [(100, "g"), (100, "h"), (130, "g"), (50, "g"), (131, "i"), (132, "j")]:
        story.plan(day * DAY, group, 0, {"t": PLANNED})
    pipeline = LocalPipeline()
    run(story, pipeline, range(9))
    known = TopicState.unpack(pipeline.topics["t"]).planned_readers
    assert known["g"] == 130 * DAY * SECOND


@pytest.mark.parametrize("sampled", [False, True])
def test_plans_with_a_wrong_clock_take_no_reader_away_that_comes_later(sampled: bool) -> None:
    """For as long as they are in the future two of them agreed on it, with each later plan."""
    story = Story()
    for group in ("wrong", "wrong, too"):
        story.plan(365 * DAY + len(group), group, 0, {"t": PLANNED})
    if sampled:
        story.layout(DAY, "t", [["a"]])
        story.sample(DAY + 1, "t", [5])
    story.plan(DAY + 2, "quiet", 0, {"t": PLANNED})
    for second in range(3, 9):
        story.plan(DAY + second, f"g{second}", 0, {"t": PLANNED})
    pipeline = LocalPipeline()
    run(story, pipeline, range(999))
    assert "quiet" in TopicState.unpack(pipeline.topics["t"]).planned_readers


@pytest.mark.parametrize("wrong", ["plan", "commit"])
def test_one_record_with_a_wrong_clock_ends_no_commit_to_a_topic_out_of_sight(wrong: str) -> None:
    """Of a group that has stopped, nothing would bring the commit back."""
    story = Story()
    story.layout(1, "t", [["a"]])
    story.commits(2, "stopped", "t", {0: 60})
    story.sample(3, "t", [100])
    story.gone(4, "t")
    if wrong == "plan":
        story.plan(8 * DAY, "g", 0, {"t": PLANNED})
    else:
        story.commits(8 * DAY, "g", "t", {0: 1, 1: 1})
    story.layout(6, "t", [["a"]])
    story.sample(7, "t", [100])
    for batches in ([], range(9)):
        assert "stopped" in shown(run(story, batches=batches))


# -- skew


def skewed(story: Story, first: int, last: int, *, even: Iterable[int] = ()) -> None:
    """A group whose m0 has the lag, sampled each second; in the seconds `even` it lies evenly.

    It commits nothing, so its lag counts once it is five seconds old.
    """
    for second in range(first, last):
        story.sample(second, "t", [500] * 4 if second in even else [500, 500, 0, 0])


def owned(story: Story) -> None:
    story.commits(0, "g", "t", dict.fromkeys(range(4), 0))
    story.member(0, "g", "m0", {"t": (0, 1)})
    story.member(0, "g", "m1", {"t": (2, 3)})


def test_skew_that_lasts_becomes_a_trigger_with_its_evidence() -> None:
    story = Story()
    owned(story)
    skewed(story, 1, 8)
    idle = {"seconds": 0, "backlog": 0, "arrivals": 0, "capacity": 100}
    assert compacted(run(story))["skew", "g"] == {
        "v": 2,
        "kind": "skew",
        "group": "g",
        "at": 6000,
        "since": 1000,
        "evidence": {
            "heaviest": 10,
            "best": 5,
            "threshold": 1.5,
            "floor_seconds": 3,
            "utilisation": 0,
            "best_utilisation": 0,
            "utilisation_limit": 0.85,
            "backlog": 1000,
            "arrivals": 0,
            "capacity": 200,
            "assumed": True,
            "horizon": 10,
            "skew": 2,
            "members": {"m0": idle | {"seconds": 10, "backlog": 1000}, "m1": idle},
        },
        "source": {f"{OFFSETS}/0": 3, "levelwind.metadata/0": 5},
    }


def test_a_moment_is_judged_only_when_something_later_is_seen() -> None:
    story = Story()
    owned(story)
    skewed(story, 1, 7)  # second 6 completes the five seconds, but could still be added to
    assert triggers(run(story)) == []


def test_skew_with_a_break_is_no_trigger() -> None:
    story = Story()
    owned(story)
    skewed(story, 1, 9, even=[5])
    assert triggers(run(story)) == []


def test_skew_that_ends_ends_its_trigger() -> None:
    story = Story()
    owned(story)
    skewed(story, 1, 17, even=[13, 14, 15])
    values = [value for _, value in triggers(run(story))]
    assert len(values) == 2
    assert values[1] is None


def test_capacity_weighs() -> None:
    story = Story()
    story.commits(0, "g", "t", dict.fromkeys(range(4), 0))
    story.member(0, "g", "big", {"t": (0, 1)}, capacity=4.0)
    story.member(0, "g", "small", {"t": (2, 3)}, capacity=1.0)
    for second in range(1, 16):
        story.sample(second, "t", [2000, 2000, 500, 500])
    assert triggers(run(story)) == []


def test_a_group_without_known_owners_has_lag_and_no_skew() -> None:
    story = Story()
    story.commits(0, "g", "t", {0: 0, 1: 0, 2: 0, 3: 0})
    skewed(story, 1, 14)
    out = run(story)
    assert lag(out)["lag"] == [500, 500, 0, 0]
    assert triggers(out) == []


def test_an_evicted_member_owns_nothing_and_is_no_member() -> None:
    story = Story()
    owned(story)
    story.member(0, "g", "m1", {}, state="evicted")
    skewed(story, 1, 14)
    assert triggers(run(story)) == [], "a single member cannot be skewed"


def test_owners_of_classic_groups_come_from_their_membership(golden: Mapping[str, Golden]) -> None:
    story = Story()
    story.commits(0, "golden-classic", "golden", {0: 0, 1: 0, 2: 0})
    story.add(
        OFFSETS, 0, group_key("golden-classic"), golden["classic_group_with_two_members"].value
    )
    for second in range(1, 14):
        story.sample(second, "golden", [900, 0, 900])
    (found,) = (json.loads(value or b"") for _, value in triggers(run(story)))
    members = found["evidence"]["members"]
    assert "static-2" in members
    assert sorted(load["backlog"] for load in members.values()) == [0, 1800]


def test_a_group_whose_lag_is_gone_has_no_trigger_left() -> None:
    story = Story()
    owned(story)
    skewed(story, 1, 13)
    for partition in range(4):
        story.forget("g", "t", partition, 14_000)
    assert compacted(run(story)) == {}


# -- racks


def watched(story: Story, *, rack: str | None = "a") -> None:
    story.layout(1, "t", [["a", "b"], ["b", "c"]])
    story.commits(2, "g", "t", {0: 1})
    story.member(2, "g", "m0", {"t": (0, 1)}, rack=rack)


def test_changed_replica_racks_are_a_trigger_with_both_sets() -> None:
    story = Story()
    watched(story)
    story.layout(5, "t", [["a", "b"], ["a", "c"]])
    assert compacted(run(story))["racks", "g"] == {
        "v": 2,
        "kind": "racks",
        "group": "g",
        "at": 5000,
        "since": 5000,
        "evidence": {
            "topics": {"t": {"1": {"from": ["b", "c"], "to": ["a", "c"]}}},
            "partitions": 1,
        },
        "source": {"levelwind.metadata/0": 1},
    }


def test_a_plan_that_knew_the_change_ends_the_trigger() -> None:
    story = Story()
    watched(story)
    story.layout(5, "t", [["a", "b"], ["a", "c"]])
    story.plan(6, "g", metadata_at=4)
    assert ("racks", "g") in compacted(run(story)), "a plan that did not know of it ends nothing"
    story.plan(7, "g", metadata_at=5)
    assert [value is None for _, value in triggers(run(story))] == [False, True]


def test_a_plan_between_two_changes_leaves_the_second_standing() -> None:
    story = Story()
    watched(story)
    story.layout(5, "t", [["a", "b"], ["a", "c"]])
    story.layout(6, "t", [["a", "b"], ["a", "b"]])
    story.plan(7, "g", metadata_at=5)
    found = compacted(run(story))["racks", "g"]
    assert found["evidence"]["topics"] == {"t": {"1": {"from": ["a", "c"], "to": ["a", "b"]}}}
    assert found["since"] == 6000


def test_racks_that_change_back_end_the_trigger() -> None:
    story = Story()
    watched(story)
    story.layout(5, "t", [["a", "b"], ["a", "c"]])
    story.layout(6, "t", [["a", "b"], ["b", "c"]])
    assert [value is None for _, value in triggers(run(story))] == [False, True]


def test_racks_do_not_matter_where_no_member_has_one() -> None:
    story = Story()
    watched(story, rack=None)
    story.layout(5, "t", [["a", "b"], ["a", "c"]])
    assert triggers(run(story)) == []
    story.member(6, "g", "m1", {}, rack="b")
    assert len(triggers(run(story))) == 1, "until one has"


def test_the_racks_of_a_topic_made_anew_are_a_new_baseline() -> None:
    story = Story()
    watched(story)
    story.layout(5, "t", [["c"], ["c"]], topic_id=OTHER)
    story.commits(6, "g", "t", {0: 1}, topic_id=OTHER)
    assert triggers(run(story)) == []


# -- whatever the batches


@st.composite
def stories(draw: st.DrawFn) -> Story:  # noqa: C901, PLR0912 - one case a kind of event
    """Any input in the order of its times; commits and samples never share a bucket of time."""
    story = Story()
    ids = {"t": ID, "u": OTHER}
    for topic, topic_id in ids.items():
        story.layout(0, topic, [["a"], ["b"], ["c"]], topic_id=topic_id)
        for group in "gh":
            story.commits(0, group, topic, {0: 0, 1: 0}, topic_id=topic_id)
    for group in "gh":
        story.member(0, group, "m0", {"t": (0, 2), "u": (0,)}, rack="a")
        story.member(0, group, "m1", {"t": (1,), "u": (1, 2)})
    moves = st.tuples(
        st.sampled_from(
            ["commit", "forget", "layout", *["sample"] * 9, "member", "leave", "plan", "gone"]
        ),
        st.sampled_from(["g", "h"]),
        st.sampled_from(["t", "t", "u"]),
        st.integers(0, 2),
        st.integers(0, 400),
    )
    for second, (event, group, topic, number, size) in enumerate(
        draw(st.lists(moves, min_size=4, max_size=40)), 1
    ):
        match event:
            case "commit" if deleted_since_sample(story, group, topic):
                pass
            case "commit":
                story.commits(
                    second,
                    group,
                    topic,
                    {number: size},
                    topic_id=draw(st.sampled_from([ids[topic], None])),
                )
            case "forget":
                story.forget(group, topic, number, second * SECOND)
            case "layout":
                story.layout(second, topic, [["a"], ["b"], ["abc"[number]]], topic_id=ids[topic])
            case "sample":
                story.sample(second, topic, [400, size, 2 * size], topic_id=ids[topic])
            case "member":
                other = "u" if topic == "t" else "t"
                story.member(
                    second,
                    group,
                    f"m{number}",
                    {topic: (number,), other: (0,)},
                    rack="a" if size > 200 else None,
                )
            case "leave":
                story.add_record(
                    TOPICS.assignments, second * SECOND, Tombstone(("m", group, f"m{number}", "x"))
                )
            case "plan":
                story.plan(second, group, metadata_at=max(second - number, 0))
            case "gone":
                story.gone(second, topic)
    if draw(st.booleans()):  # so that something comes after the last sample
        story.layout(100, "t", [["a"], ["c"], ["b"]], topic_id=ids["t"])
    return story


@pytest.mark.slow
@settings(max_examples=examples(120))
@given(stories(), CUTS)
def test_any_batches_give_the_same_triggers_and_in_the_end_the_same_lag(
    story: Story, cuts: list[int]
) -> None:
    whole, split = run(story), run(story, batches=cuts)
    assert_alike(whole, split, ("g", "h"))


def test_a_group_that_deletes_its_commit_and_commits_again_between_two_samples_never_left() -> None:
    """Its samples carry the end offsets of the offsets topic, as an observer publishes them."""
    story = Story()
    story.layout(0, "t", [["a"], ["b"], ["c"]])
    story.member(0, "g", "m0", {"t": (0, 2)}, rack="a")
    story.commits(1, "g", "t", {0: 0})
    story.layout(2, "t", [["a"], ["b"], ["a"]])
    story.sample(3, "t", [400, 0, 0], commits=(1,))
    story.forget("g", "t", 0, 4 * SECOND)
    story.commits(5, "g", "t", {0: 0})
    story.sample(6, "t", [400, 0, 0], commits=(3,))
    whole, split = run(story), run(story, batches=range(99))
    assert_alike(whole, split, ("g",))
    assert [value is None for _, value in triggers(split)] == [False], "the racks trigger stays"
    assert lag(split)["lag"] == [400, 0, 0]


def test_a_racks_trigger_names_the_same_source_when_another_topics_layout_arrives_later() -> None:
    """The commits in `u` count with its first sample; only then the group learns of its layout."""
    story = Story()
    for topic, topic_id in {"t": ID, "u": OTHER}.items():
        story.layout(0, topic, [["a"], ["b"], ["c"]], topic_id=topic_id)
        story.commits(0, "g", topic, {0: 0, 1: 0}, topic_id=topic_id)
    story.member(0, "g", "m0", {"t": (0, 2), "u": (0,)}, rack="a")
    story.layout(1, "t", [["a"], ["b"], ["a"]])
    first_batch = len(story.messages)
    story.sample(22, "u", [400, 0, 0], topic_id=OTHER)
    story.member(23, "g", "m0", {"t": (0,), "u": (0,)})
    story.member(24, "g", "m0", {"t": (0,), "u": (0,)}, rack="a")
    whole, split = run(story), run(story, batches=[first_batch])
    assert_alike(whole, split, ("g",))
    sources = [json.loads(value)["source"] for _, value in triggers(split) if value is not None]
    assert sources == [{TOPICS.metadata + "/0": 2}] * 2


def test_the_source_of_a_racks_trigger_leaves_out_topics_whose_racks_are_the_same() -> None:
    """Whether the group knows by then that `u` was published again depends on the batches."""
    story = Story()
    story.layout(0, "t", [["a"]])
    story.layout(0, "u", [["a"]], topic_id=OTHER)
    story.commits(0, "g", "t", {0: 0})
    story.member(0, "g", "m0", {"t": (0,)})
    story.layout(1, "t", [["b"]])
    story.commits(1, "g", "u", {0: 0}, topic_id=OTHER)
    story.layout(2, "u", [["a"]], topic_id=OTHER)
    story.member(3, "g", "m0", {"t": (0,)}, rack="a")
    first_batch = len(story.messages)
    story.sample(22, "u", [400], topic_id=OTHER)
    whole, split = run(story), run(story, batches=[first_batch])
    assert_alike(whole, split, ("g",))
    assert [json.loads(value or b"")["source"] for _, value in triggers(split)] == [
        {TOPICS.metadata + "/0": 2}
    ]


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(stories(), CUTS)
def test_a_batch_that_is_run_again_publishes_the_same(story: Story, cuts: list[int]) -> None:
    pipeline = LocalPipeline(skew=RULE)
    bounds = [0, *sorted({cut % (len(story.messages) + 1) for cut in cuts}), len(story.messages)]
    for first, last in itertools.pairwise(bounds):
        before = (dict(pipeline.topics), dict(pipeline.groups))
        once = pipeline.run(story.messages[first:last]) if first < last else []
        pipeline.topics, pipeline.groups = before
        again = pipeline.run(story.messages[first:last]) if first < last else []
        assert once == again


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 5])
def test_a_topics_state_is_as_large_as_is_documented(groups: int) -> None:
    partitions, story, pipeline = 60, Story(), LocalPipeline(skew=RULE)
    for number in range(groups):
        story.commits(1, f"g{number}", "t", dict.fromkeys(range(partitions), 10**9))
    for second in range(2, 200, 5):  # more than are remembered
        story.sample(second, "t", [10**9 + second] * partitions)
    run(story, pipeline, batches=range(partitions * groups, 2000))
    assert len(pipeline.topics["t"]) <= 1200 + partitions * (188 + 64 * groups)


# -- what is no input


@pytest.mark.parametrize(
    ("topic", "key", "value", "reason"),
    [
        (OFFSETS, b"\x00\x01garbage", b"zz", "malformed key"),
        (OFFSETS, None, b"zz", "no key"),
        (TOPICS.metadata, b'["offsets","t"]', b"{", "malformed levelwind record: not JSON"),
        (TOPICS.metadata, b"garbage", b"{}", "malformed levelwind record: not JSON"),
        (
            TOPICS.assignments,
            b'["m","g"]',
            b"{}",
            "malformed levelwind record: key: expected 4 parts",
        ),
        (TOPICS.metadata, b'["topic","t"]', b'{"v":2}', "malformed levelwind record: unknown v 2"),
    ],
)
def test_garbage_becomes_a_dead_letter_and_nothing_else_stops(
    topic: str, key: bytes | None, value: bytes, reason: str
) -> None:
    story = Story()
    story.commits(1, "g", "t", {0: 60})
    story.add(topic, 2000, key, value)
    story.sample(3, "t", [100])
    out = run(story)
    assert lag(out)["lag"] == [40]
    (letter,) = [row for row in out if row.topic == TOPICS.dead_letters]
    fields = json.loads(letter.value or b"")
    assert fields["reason"].startswith(reason)
    assert base64.b64decode(fields["value"]) == value
    assert fields["key"] is None if key is None else base64.b64decode(fields["key"]) == key
    assert json.loads(letter.key) == [topic, 0, fields["offset"]]


def test_a_dead_letter_of_a_huge_record_is_cut_to_fit_a_message() -> None:
    story = Story()
    story.add(OFFSETS, 1, b"\x00\x01", b"x" * 2**20)
    (letter,) = run(story)
    assert len(letter.value or b"") < 2**20
    assert "cut to" in json.loads(letter.value or b"")["reason"]

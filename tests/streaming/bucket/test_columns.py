"""The columns of a bucket give what `group.update`, the law of a group, gives event by event."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.problem.drain import LONGEST_UNCOMMITTED_MS
from levelwind.assignors.protocol.records import Tombstone, encode_key
from levelwind.streaming import output
from levelwind.streaming.bucket import state as bucket_state
from levelwind.streaming.bucket.bucket_batch import BucketBatch
from levelwind.streaming.bucket.state import BucketState
from levelwind.streaming.group import codec as group_codec
from levelwind.streaming.group import update as group_update
from levelwind.streaming.group.state import GroupState
from levelwind.streaming.group.update import TTL_MS
from levelwind.streaming.messages import packing
from levelwind.streaming.messages.buckets import DEFAULT_BUCKETS, GROUP_KEY_PREFIX, group_key
from levelwind.streaming.messages.lag_columns import LagRows, LagSamples
from levelwind.streaming.messages.packing import PackingError, pack
from levelwind.streaming.messages.rows import Kind, SinkRow
from levelwind.streaming.rules.cadence import LASTING_SKEW_MS
from levelwind.streaming.rules.event_time import JUMP_MS, UNKNOWN
from levelwind.streaming.rules.skew import SkewRule, SkewRun
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.coordinator_commands import Groups, owners, plan_of
from levelwind_testing.pipeline.local_pipeline import (
    OFFSETS,
    OUTPUTS,
    TOPICS,
    GroupEvent,
    LocalPipeline,
)
from levelwind_testing.pipeline.scripted_log import (
    CUTS,
    ID,
    OTHER,
    RULE,
    SECOND,
    compacted,
    lag,
    run,
    triggers,
)

BUCKET = group_key("g0", DEFAULT_BUCKETS)
NAMES = [
    name for name in map("g{}".format, range(100)) if group_key(name, DEFAULT_BUCKETS) == BUCKET
][:4]
"""Groups of one bucket: two with planned members, two of KIP-848."""
PLANNED, CONSUMERS = NAMES[:2], NAMES[2:]
IDS = {"t": ID, "u": OTHER}
PARTITIONS = 3


@dataclass(slots=True)
class TwinPipeline(LocalPipeline):
    """A pipeline beside which each group is updated alone, by the law."""

    alone: dict[str, GroupState] = field(default_factory=dict)

    def _of_bucket(self, state_key: str, rows: list[GroupEvent]) -> list[SinkRow]:
        published = LocalPipeline._of_bucket(self, state_key, rows)
        if not state_key.startswith(GROUP_KEY_PREFIX):
            return published
        expected: list[SinkRow] = []
        for group, batch in BucketBatch.of(rows).by_group(names_in(rows)).items():
            state = self.alone.pop(group, None)
            result = group_update.advance(
                group, state, batch, self.skew, {TOPICS.assignments: "assignments"}
            )
            if result.state is not None:
                self.alone[group] = result.state
            expected += output.group_records(group, result, OUTPUTS)
        assert sorted(published, key=by_key) == sorted(expected, key=by_key)
        for group, state in self.alone.items():
            assert packed(self.group_state(group)) == packed(state)
        assert self.at_stake[BUCKET] == any(
            is_at_stake(state.skew_run, self.skew) for state in self.alone.values()
        )
        kept = {group for group in NAMES if self._keeps(group)}
        assert kept == self.alone.keys() & set(NAMES)
        return published

    def _keeps(self, group: str) -> bool:
        values = [self.groups.get(f"{BUCKET}/{name}") for name in ("samples", "members")]
        return None not in values and group in BucketState.unpack(*values).groups


def is_at_stake(run: SkewRun, rule: SkewRule) -> bool:
    lasted = run.evaluated_at - run.since
    return run.since != UNKNOWN and lasted <= max(LASTING_SKEW_MS, rule.duration_ms)


def names_in(rows: list[GroupEvent]) -> set[str]:
    names = set()
    for group, kind, payload in rows:
        match kind:
            case Kind.LAG_SAMPLES:
                names.update(LagSamples.unpack(payload).groups)
            case Kind.LAGS:
                names.update(LagRows.unpack(payload).groups)
            case _:
                names.add(group)
    return names


def by_key(row: SinkRow) -> tuple[str, bytes]:
    return row.topic, row.key


def packed(state: GroupState) -> bytes:
    return group_codec.pack(replace(state, lags=dict(sorted(state.lags.items()))))


@st.composite
def turbulent_logs(draw: st.DrawFn) -> Groups:  # noqa: C901, PLR0912 - one case a kind of event
    """Groups of one bucket to which everything happens, samples most often."""
    story = Groups()
    now = 1000.0
    sizes = {"t": PARTITIONS, "u": PARTITIONS}
    racks = {topic: [["a"], ["b"], ["c"]] for topic in IDS}
    for topic, topic_id in IDS.items():
        story.layout(now, topic, racks[topic], topic_id=topic_id)
    for group in NAMES[::2]:
        story.commits(now, group, "t", dict.fromkeys(range(PARTITIONS), 0))
    story.member(now, PLANNED[0], "m0", {"t": (0, 2), "u": (0,)}, rack="a")
    story.member(now, PLANNED[0], "m1", {"t": (1, 2)}, capacity=2.0)
    story.assign(now, CONSUMERS[0], "c0", {ID: [0, 1], OTHER: [0]})
    for topic, topic_id in IDS.items():
        story.sample(now, topic, [10] * PARTITIONS, topic_id=topic_id)
    event = st.tuples(
        st.sampled_from(
            ["sample"] * 10
            + ["commit"] * 4
            + ["late", "set back", "silence", "ages", "forget", "layout", "grow"]
            + ["plan", "unplan", "member", "evict", "assign", "leave", "introduce", "rebalance"]
        ),
        st.integers(0, 1),
        st.sampled_from("tu"),
        st.integers(0, 2),
        st.sampled_from([0, 50, 100, 200, 300, 333, 400]),
    )
    for kind, index, topic, number, size in draw(st.lists(event, min_size=6, max_size=40)):
        now += 1
        ends = [400, size, 2 * size, *[size] * PARTITIONS][: sizes[topic]]
        match kind:
            case "sample":
                story.sample(now, topic, ends, topic_id=IDS[topic])
            case "late":
                story.sample(now - number, topic, ends, topic_id=IDS[topic])
            case "set back":
                now -= JUMP_MS / SECOND + number
                story.sample(now, topic, ends, topic_id=IDS[topic])
            case "silence":
                now += RULE.duration_ms / SECOND + number
                story.sample(now, topic, ends, topic_id=IDS[topic])
            case "ages":
                now += TTL_MS / SECOND + number
                story.sample(now, topic, ends, topic_id=IDS[topic])
            case "commit":
                group = NAMES[2 * index + number % 2]
                story.commits(now, group, topic, {number: size}, topic_id=IDS[topic])
            case "forget":
                for partition in range(sizes[topic]):
                    story.forget(NAMES[2 * index], topic, partition, int(now * SECOND))
            case "layout":
                racks[topic] = [["a"], ["b"], ["abc"[number]]]
                story.layout(now, topic, racks[topic], topic_id=IDS[topic])
            case "grow":
                sizes[topic] = PARTITIONS + number
            case "plan":
                topics = {t: plan_of(racks[t], now, IDS[t]) for t in "tu"[:number]}
                story.plan(now, PLANNED[index], metadata_at=now, topics=topics)
            case "unplan":
                story.add_record(
                    TOPICS.assignments, int(now * SECOND), Tombstone(("g", PLANNED[index]))
                )
            case "member":
                owned = {topic: tuple(range(number, PARTITIONS + index))}
                rack = "ab"[index] if size else None
                story.member(now, PLANNED[index], f"m{number}", owned, rack=rack)
            case "evict":
                story.member(now, PLANNED[index], f"m{number}", {}, state="evicted")
            case "assign":
                story.assign(now, CONSUMERS[index], f"c{number}", {IDS[topic]: [number, 0]})
            case "leave":
                story.leave(now, CONSUMERS[index], f"c{number}")
            case "rebalance":
                members = {
                    "c0": ("tu"[: size // 150], {topic: (number,)}),
                    "c1": ("t", {}),
                    "c2": (None, {}),
                }
                chosen = dict(list(members.items())[: 1 + (size + index) % 3])
                story.rebalance(now, CONSUMERS[index], chosen, rack="ab"[index])
            case _:
                rack = "abc"[number] if size > 100 else None
                topics = "tu"[: size // 150]
                story.introduce(now, CONSUMERS[index], f"c{number}", rack, topics=topics)
    return story


RULES = st.sampled_from(
    [RULE, SkewRule(threshold=1.0, floor_seconds=0, duration_ms=1000), SkewRule()]
)


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(turbulent_logs(), CUTS, RULES)
def test_columns_give_what_each_group_gives_alone_under_any_cut(
    story: Groups, cuts: list[int], rule: SkewRule
) -> None:
    run(story, TwinPipeline(skew=rule), batches=cuts)


@st.composite
def calm_logs(draw: st.DrawFn) -> Groups:
    """Samples and commits alone, whatever the clock, of groups whose members own two topics.

    Few sizes make skew begin, last, break off and end.
    """
    story = Groups()
    now = 1000.0
    for topic, topic_id in IDS.items():
        story.layout(now, topic, [["a"], ["b"], ["c"]], topic_id=topic_id)
        for group in NAMES:
            story.commits(now, group, topic, dict.fromkeys(range(PARTITIONS), 0), topic_id=topic_id)
    both = [{"t": (0,), "u": (0, 1)}, {"t": (1, 2), "u": (2,)}, {"t": (2,)}]
    for number, owned in enumerate(both):
        story.member(now, PLANNED[0], f"m{number}", owned, rack="abc"[number], capacity=1 + number)
        story.member(
            now, PLANNED[1], f"m{number}", owned if number < draw(st.integers(0, 3)) else {}
        )
        partitions = {IDS[topic]: list(numbers) for topic, numbers in owned.items()}
        story.assign(now, CONSUMERS[0], f"c{number}", partitions)
    event = st.tuples(
        st.sampled_from(["sample"] * 12 + ["commit"] * 3 + ["late", "set back", "silence"]),
        st.sampled_from("tu"),
        st.integers(0, 3),
        st.sampled_from([(0, 0, 0), (300, 0, 0), (0, 0, 50), (100, 100, 100), (0, 0, 100)]),
    )
    for kind, topic, number, ends in draw(st.lists(event, min_size=8, max_size=40)):
        now += {"set back": -JUMP_MS / SECOND - number, "silence": 2.0 + number}.get(kind, 1.0)
        if kind == "commit":
            committed = dict.fromkeys(range(number), ends[0] // 2)
            story.commits(now, NAMES[number], topic, committed, topic_id=IDS[topic])
        else:
            at = now - number if kind == "late" else now
            story.sample(at, topic, ends, topic_id=IDS[topic])
    return story


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(calm_logs(), st.integers(2, 30), RULES)
def test_columns_of_samples_and_commits_give_what_each_group_gives_alone(
    story: Groups, size: int, rule: SkewRule
) -> None:
    settled = next(
        index for index, message in enumerate(story.messages) if message.key[:10] == b'["offsets"'
    )
    cuts = range(settled, len(story.messages), size)
    run(story, TwinPipeline(skew=rule), batches=cuts)


def busy_groups() -> Groups:
    """Groups of which three have members that own two topics."""
    story = Groups()
    for topic, topic_id in IDS.items():
        story.layout(1, topic, [["a"]] * PARTITIONS, topic_id=topic_id)
        for group in NAMES:
            story.commits(1, group, topic, dict.fromkeys(range(PARTITIONS), 0), topic_id=topic_id)
    owned = {"m0": {"t": (0, 2), "u": (0,)}, "m1": {"t": (1,), "u": (1, 2)}}
    for name, partitions in owned.items():
        for group in PLANNED:
            story.member(1, group, name, partitions)
        by_id = {IDS[topic]: list(numbers) for topic, numbers in partitions.items()}
        story.assign(1, CONSUMERS[0], name, by_id)
    return story


@st.composite
def busy_logs(draw: st.DrawFn) -> Groups:
    """Members that are behind and commit at speeds of their own, so that these are learned."""
    story = busy_groups()
    backlog = draw(st.sampled_from([0, 3_000, 100_000]))
    done = dict.fromkeys(NAMES[:3], 0)
    now, end = 1.0, backlog
    for _ in range(draw(st.integers(8, 40))):
        now += draw(st.sampled_from([1.0, 1.0, 1.0, 1.0, 3.0, 20.0, 2_000.0]))
        end += draw(st.sampled_from([0, 50, 100, 5_000]))
        for number, group in enumerate(done):
            done[group] = min(done[group] + 100 * (number + 1), end)
            if draw(st.booleans()):
                topic = draw(st.sampled_from("tu"))
                offsets = dict.fromkeys(range(PARTITIONS), done[group])
                story.commits(now - 0.4, group, topic, offsets, topic_id=IDS[topic])
        if draw(st.integers(0, 9)) == 0:
            story.member(now, PLANNED[0], "m1", {"t": (1,), "u": draw(st.sampled_from([(), (1,)]))})
        for topic in draw(st.sampled_from(["t", "tu", "tu", "u"])):
            cut = (story.written[OFFSETS],)
            story.sample(now, topic, [end, end, end // 2], topic_id=IDS[topic], commits=cut)
    return story


def test_a_group_that_has_been_silent_for_long_costs_its_bucket_nothing() -> None:
    """Brokers may keep commits for longer than the pipeline keeps a group without members."""
    story, silent, alive = Groups(), *PLANNED
    age = TTL_MS // SECOND + 10
    story.layout(1, "t", [["a"]] * PARTITIONS)
    story.commits(1, silent, "t", {0: 5})
    story.commits(age, alive, "t", {0: 5})
    pipeline = LocalPipeline()
    story.sample(age, "t", [10] * PARTITIONS)
    pipeline.run(story.messages)
    pipeline.groups, read = WatchedValues(pipeline.groups), len(story.messages)
    story.sample(age + 1, "t", [11] * PARTITIONS)
    assert {row.key for row in pipeline.run(story.messages[read:])} == {
        encode_key(("lag", alive, "t"))
    }
    assert "groups" not in pipeline.groups.read, "the group was built up, and dropped again"


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(busy_logs(), st.integers(1, 30), RULES)
def test_columns_learn_the_speeds_that_each_group_learns_alone(
    story: Groups, size: int, rule: SkewRule
) -> None:
    run(story, TwinPipeline(skew=rule), batches=range(0, len(story.messages), size))


def test_a_burst_is_a_trigger_before_any_commit_could_show_it() -> None:
    story = Groups()
    group = PLANNED[0]
    story.layout(1, "t", [["a"]] * PARTITIONS)
    story.member(1, group, "m0", {"t": (0, 1)})
    story.member(1, group, "m1", {"t": (2,)})
    for second in range(1, 90):
        burst = 90_000 if second >= 85 else 0
        ends = [100 * second + burst, 100 * second + burst, 100 * second]
        story.sample(second, "t", ends)
        if second % 5 == 0:
            story.commits(second + 0.5, group, "t", dict.fromkeys(range(3), 100 * second))
    batches = range(0, len(story.messages), 4)
    raised = triggers(run(story, TwinPipeline(skew=SkewRule()), batches=batches))
    assert [json.loads(value or b"{}").get("at") for _, value in raised] == [87_000], (
        "the burst's sample and two seconds"
    )


def test_beside_a_partition_that_cannot_be_split_the_skew_of_the_others_is_a_trigger() -> None:
    story = Groups()
    group = PLANNED[0]
    for topic, topic_id in IDS.items():
        story.layout(1, topic, [["a"]] * PARTITIONS, topic_id=topic_id)
    for name, owned in {"m0": {"t": (0,)}, "m1": {"t": (1, 2)}, "m2": {"u": (0, 1, 2)}}.items():
        story.member(1, group, name, owned)
    for second in range(1, 90):
        hot, other = (300_000, 90_000) if second >= 80 else (0, 0)
        so_far = {0: 100 * second, 1: 10 * second, 2: 10 * second}
        story.sample(second, "t", [so_far[0] + hot, so_far[1] + other, so_far[2] + other])
        story.sample(second, "u", [0] * 3, topic_id=IDS["u"])
        if second % 5 == 0:
            story.commits(second + 0.5, group, "t", so_far)
    batches = range(0, len(story.messages), 6)
    ((_, value),) = triggers(run(story, TwinPipeline(skew=SkewRule()), batches=batches))
    evidence = json.loads(value or b"{}")["evidence"]
    seconds = {name: load["seconds"] for name, load in evidence["members"].items()}
    assert evidence["heaviest"] == seconds["m1"] < seconds["m0"]
    assert evidence["best"] == pytest.approx((seconds["m1"] + seconds["m2"]) / 2, rel=0.01)


def test_owners_of_a_group_whose_plan_dropped_its_only_topic_have_no_load() -> None:
    story = Groups()
    group = PLANNED[0]
    for topic, topic_id in IDS.items():
        story.layout(0, topic, [["a"]] * PARTITIONS, topic_id=topic_id)
    story.member(0, group, "m0", {"t": (0, 2), "u": (0,)})
    topics = {"t": plan_of([["a"]] * PARTITIONS, at=0)}
    story.plan(3, group, metadata_at=0, topics=topics)
    story.sample(4, "t", [400, 0, 0])
    story.plan(5, group, metadata_at=0, topics={})
    story.sample(6, "t", [400, 0, 0])
    story.commits(7, group, "t", {0: 1})
    story.sample(8, "t", [400, 0, 0])
    out = run(story, TwinPipeline(skew=RULE), batches=range(len(story.messages)))
    assert triggers(out) == []


def test_samples_after_a_clock_that_was_set_back_raise_a_trigger_as_before() -> None:
    story, pipeline = settled()
    story.sample(100, "t", [100] * PARTITIONS)
    for second in range(10, 16):
        story.sample(second, "t", [1000, 100, 1000])
    raised = triggers(run(story, pipeline, batches=range(len(story.messages))))
    assert sorted(json.loads(key)[1] for key, _ in raised) == NAMES


# -- what a batch costs


class WatchedValues(dict[str, bytes]):
    """State values that note which of them are read and written."""

    def __init__(self, values: Mapping[str, bytes]) -> None:
        super().__init__(values)
        self.read: set[str] = set()
        self.written: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name.rpartition("/")[2])
        return super().get(name, default)

    def __setitem__(self, name: str, value: bytes) -> None:
        self.written.add(name.rpartition("/")[2])
        super().__setitem__(name, value)


def settled(members: int = 2, rule: SkewRule = RULE) -> tuple[Groups, LocalPipeline]:
    """Groups of one bucket, with members that own partitions, after two samples."""
    story, pipeline = Groups(), TwinPipeline(skew=rule)
    story.layout(1, "t", [["a"]] * PARTITIONS)
    for group in NAMES:
        story.commits(1, group, "t", dict.fromkeys(range(PARTITIONS), 0))
        for number in range(members):
            owned = {"t": tuple(range(number, PARTITIONS, members))}
            story.member(1, group, f"m{number}", owned, rack="a")
    for second in (2, 3):
        story.sample(second, "t", [100] * PARTITIONS)
    run(story, pipeline)
    story.messages.clear()
    return story, pipeline


def test_samples_and_lag_read_no_groups_state_and_write_the_columns_of_samples_alone() -> None:
    story, pipeline = settled()
    pipeline.groups = WatchedValues(pipeline.groups)
    for second in range(4, 7):
        story.commits(second, NAMES[0], "t", {0: second})
        story.sample(second, "t", [100 + second] * PARTITIONS)
    published = run(story, pipeline)
    assert len(compacted(published)) == len(NAMES)
    assert pipeline.groups.read == {"samples", "members"}
    assert pipeline.groups.written == {"samples"}
    assert owners(lag(published, NAMES[0])) == ["m0", "m1", "m0"]
    assert lag(published, NAMES[0])["local"] == [True] * PARTITIONS


def test_speeds_are_published_from_the_columns_alone() -> None:
    story, pipeline = busy_groups(), TwinPipeline(skew=RULE)
    for topic, topic_id in IDS.items():
        story.sample(2, topic, [100_000] * PARTITIONS, topic_id=topic_id)
    run(story, pipeline)
    story.messages.clear()
    pipeline.groups = WatchedValues(pipeline.groups)
    for second in range(3, 20):
        for topic, topic_id in IDS.items():
            for group in NAMES[:3]:
                offsets = dict.fromkeys(range(PARTITIONS), 100 * second)
                story.commits(second - 0.4, group, topic, offsets, topic_id=topic_id)
        cut = (story.written[OFFSETS],)
        for topic, topic_id in IDS.items():
            ends = [100_000] * PARTITIONS
            story.sample(second, topic, ends, topic_id=topic_id, commits=cut)
    published = run(story, pipeline, batches=range(0, len(story.messages), 50))
    speeds = [json.loads(row.key)[1] for row in published if row.key.startswith(b'["speed"')]
    assert {group: speeds.count(group) > 2 for group in speeds} == dict.fromkeys(NAMES[:3], True)
    assert pipeline.groups.read == {"samples", "members"}


def test_records_of_a_topic_that_was_left_single_out_no_group() -> None:
    """They are no wait, which would have the skew of the group judged alone at each sample."""
    rule = SkewRule(threshold=1.01, floor_seconds=0, duration_ms=2000)
    story, pipeline, group = Groups(), TwinPipeline(skew=rule), NAMES[0]
    for topic in "tu":
        story.commits(1, group, topic, dict.fromkeys(range(3), 0), topic_id=IDS[topic])
    story.rebalance(1, group, {"m": (["t"], {"t": (0, 1)}), "n": (["t"], {"t": (2,)})})
    for second in range(2, 20):
        written = [20 * second, 20 * second, second]
        story.commits(second, group, "t", dict(enumerate(written)))
        story.sample(second + 0.5, "t", written)
        story.sample(second + 0.5, "u", [5, 5, 5], topic_id=IDS["u"])
        if second == 2:
            run(story, pipeline)
            story.messages.clear()
            pipeline.groups = WatchedValues(pipeline.groups)
    published = run(story, pipeline, batches=range(0, len(story.messages), 5))
    assert pipeline.groups.read == {"samples", "members"}
    assert lag(published, group, "u")["unclaimed"] == [5, 5, 5]


def test_commits_between_two_samples_are_published_and_change_no_state() -> None:
    story, pipeline = settled()
    pipeline.groups = WatchedValues(pipeline.groups)
    story.commits(4, NAMES[1], "t", {0: 40})
    published = run(story, pipeline)
    assert lag(published, NAMES[1])["lag"] == [60, 100, 100]
    assert len(published) == 1
    assert pipeline.groups.written == set()


def test_a_trigger_is_raised_once_and_cleared_once_though_samples_are_applied_in_columns() -> None:
    story, pipeline = settled()
    for second in range(4, 20):
        story.sample(second, "t", [1000, 100, 1000])
    for second in range(20, 22):
        story.sample(second, "t", [100, 100, 100])
    found = [(key, value is None) for key, value in triggers(run(story, pipeline, batches=[3, 14]))]
    for group in NAMES:
        assert [gone for key, gone in found if group.encode() in key] == [False, True], group


@pytest.mark.parametrize(("duration", "lasting"), [(3, LASTING_SKEW_MS // 1000), (90, 90)])
def test_skew_is_at_stake_for_a_minute_and_until_it_is_a_trigger(
    duration: int, lasting: int
) -> None:
    story, pipeline = settled(rule=replace(RULE, duration_ms=duration * SECOND))
    at_stake = []
    for second in range(4, lasting + 10):
        story.sample(second, "t", [1000, 100, 1000] if second > 5 else [100] * PARTITIONS)
        run(story, pipeline)
        story.messages.clear()
        at_stake.append(pipeline.at_stake[BUCKET])
    # A sample is evaluated with the next one: the first of skew, at 6 s, when that of 7 s is read.
    seconds = [second for second, stakes in enumerate(at_stake, 4) if stakes]
    assert seconds == list(range(7, 7 + lasting + 1))


def test_skew_by_guesses_is_at_stake_for_a_minute_and_a_trigger_once_records_wait() -> None:
    """One member has all arrivals, as by the range assignor, and keeps pace."""
    story, pipeline = settled()
    at_stake, raised = [], []
    stops = 100
    for second in range(4, stops + 14):
        ends = [100 + 300 * (second - 3), 100, 100 + 300 * (second - 3)]
        if second <= stops:
            for group in NAMES:
                story.commits(second, group, "t", dict(enumerate(ends)))
        story.sample(second, "t", ends)
        records = run(story, pipeline)
        story.messages.clear()
        at_stake.append(pipeline.at_stake[BUCKET])
        if any(value is not None for _, value in triggers(records)):
            raised.append(second)
    first = 4 + at_stake.index(True)
    seconds = [second for second, stakes in enumerate(at_stake, 4) if stakes]
    assert seconds == list(range(first, first + LASTING_SKEW_MS // 1000 + 1))
    # No reader that keeps pace has a commit that old; the sample is evaluated with the next one.
    assert raised == [stops + LONGEST_UNCOMMITTED_MS // SECOND + 2]


@pytest.mark.parametrize("seconds", [1, 3, 4, 5, 5.1, 6, 8, 9.5])
def test_how_often_a_group_that_keeps_pace_commits_raises_no_trigger_by_guesses(
    seconds: float,
) -> None:
    """One member has all arrivals; just before a commit its oldest record is as old as the last."""
    story, pipeline = settled()
    due, raised = 4.03, []
    for second in range(4, 80):
        while due <= second:
            read = 100 + round(300 * (due - 3))
            for group in NAMES:
                story.commits(due, group, "t", {0: read, 1: 100, 2: read})
            due += seconds
        end = 100 + 300 * (second - 3)
        story.sample(second, "t", [end, 100, end])
        raised += triggers(run(story, pipeline))
        story.messages.clear()
    assert raised == []


# -- state as bytes


@pytest.mark.parametrize("value", [bucket_state.unpack_groups, lambda v: BucketState.unpack(v, v)])
def test_a_bucket_of_another_version_is_refused_by_its_number(value: Any) -> None:
    with pytest.raises(PackingError, match="bucket state of version 0, not 7"):
        value(pack({"bucket": 0}, {}))


@pytest.mark.parametrize("members", [0, 1, 10, 100])
def test_a_buckets_state_is_no_larger_than_documented(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_COMPRESSED", 0)

    def size(groups: Sequence[str], partitions: int) -> int:
        story, pipeline = Groups(), LocalPipeline(skew=RULE)
        story.layout(0, "t", [["a", "b"]] * partitions)
        for group in groups:
            story.commits(1, group, "t", dict.fromkeys(range(partitions), 0))
            for number in range(members):
                owned = {"t": tuple(range(number, partitions, members))}
                story.member(2, group, f"m{number}", owned, rack="a")
        story.sample(3, "t", [10] * partitions)
        run(story, pipeline)
        return sum(map(len, pipeline.groups.values()))

    a_group = size(NAMES[:3], 1) - size(NAMES[:2], 1)
    assert a_group <= 580 + 170 * members
    a_partition = (size(NAMES[:2], 1000) - size(NAMES[:2], 500)) / 1000
    assert a_partition <= 8 + 4 + 2 + 1 + (8 + 3 + 5 if members else 0)
    assert size(NAMES[:1], 1) - a_group <= 2048

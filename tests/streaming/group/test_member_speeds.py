"""Speeds of members, from offset commits and samples to the published record."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import MemberSpeed, SpeedRecord, decode, encode
from levelwind.streaming.group.member_speeds import published_speed
from levelwind.streaming.rules.speed import FORGET_MS
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.local_pipeline import OFFSETS, LocalPipeline
from levelwind_testing.pipeline.scripted_log import (
    CUTS,
    RULE,
    SECOND,
    Story,
    assert_alike,
    compacted,
    run,
    triggers,
)

PARTITIONS = 4
OWNED = {"m0": (0, 1), "m1": (2, 3)}
BACKLOG = 100_000


class Workers(Story):
    """A group of two members that each consume two partitions of a topic, second by second."""

    def __init__(self, backlog: int = BACKLOG) -> None:
        Story.__init__(self)
        self.ends = [backlog] * PARTITIONS
        self.begins = [0] * PARTITIONS
        self.done = [0] * PARTITIONS
        self.second = 1
        self.layout(0, "t", [["a"]] * PARTITIONS)
        self.commits(0, "g", "t", dict.fromkeys(range(PARTITIONS), 0))
        for name, owned in OWNED.items():
            self.member(0, "g", name, {"t": owned})
        self.take_sample()

    def work(
        self,
        seconds: int,
        speeds: Mapping[str, int],
        *,
        every: int = 1,
        arriving: int = 0,
        owned: Mapping[str, tuple[int, ...]] = OWNED,
    ) -> None:
        """Let the members consume so many records a second, and commit every so many seconds."""
        for _ in range(seconds):
            self.second += 1
            self.ends = [end + arriving for end in self.ends]
            for name, speed in speeds.items():
                for partition in owned[name]:
                    ahead = self.done[partition] + speed // len(owned[name])
                    self.done[partition] = min(ahead, self.ends[partition])
                    if self.second % every == 0:
                        offsets = {partition: self.done[partition]}
                        self.commits(self.second - 0.3, "g", "t", offsets)
            self.take_sample()

    def take_sample(self) -> None:
        """Sample the topic, with the end of the offsets topic."""
        commits = (self.written.get(OFFSETS, 0),)
        self.sample(self.second, "t", self.ends, self.begins, commits=commits)


def speeds(story: Story, **more: Any) -> dict[str, tuple[float, float]]:
    """Speed and sureness by instance, as published last."""
    found = compacted(run(story, LocalPipeline(skew=RULE), **more)).get(("speed", "g"))
    members = found["members"] if found else {}
    return {name: (member["speed"], member["sure"]) for name, member in members.items()}


def test_members_that_are_behind_are_learned_and_a_slow_one_is_told_apart() -> None:
    story = Workers()
    story.work(10, {"m0": 300, "m1": 100})
    assert speeds(story) == {"m0": (300, 0.67), "m1": (100, 0.67)}


def test_commits_every_five_seconds_are_enough() -> None:
    story = Workers()
    story.work(16, {"m0": 300, "m1": 100}, every=5)
    assert speeds(story) == {"m0": (300, 0.67), "m1": (100, 0.67)}


@pytest.mark.parametrize(
    ("speed", "published"),
    [
        (123_456.789, 123_456.79),
        (100.0, 100),
        (9.876, 9.88),
        (1.006, 1.01),
        (0.98765, 0.988),
        (0.0333333, 0.0333),
        (0.005, 0.005),
        (0.0033333, 0.00333),
        (1e-9 / 3, 3.33e-10),
    ],
)
def test_a_speed_is_published_with_two_decimals_and_below_one_with_three_digits(
    speed: float, published: float
) -> None:
    assert published_speed(speed) == published


@given(st.floats(1e-16, 1e22))
def test_a_published_speed_is_one_of_the_record_and_within_half_a_percent(speed: float) -> None:
    members = {"m": MemberSpeed(speed=published_speed(speed), sure=0.5)}
    record = SpeedRecord(group="g", at=1, members=members)
    assert decode("lag", *encode(record)) == record
    assert published_speed(speed) == pytest.approx(speed, rel=0.0051)


def test_a_member_that_reads_a_record_in_minutes_leaves_the_others_theirs() -> None:
    story = Workers()
    for _ in range(6):
        story.second += 499
        story.work(1, {"m0": 30_000, "m1": 2})
    found = speeds(story)
    assert found["m1"][0] == 0.004
    assert found["m0"][0] == 60


def test_members_that_keep_pace_are_not_learned_however_they_commit() -> None:
    for every in (1, 5):
        story = Workers(backlog=0)
        story.work(30, {"m0": 300, "m1": 300}, every=every, arriving=60)
        assert speeds(story) == {}


def test_a_member_that_falls_behind_is_learned_beside_one_that_keeps_pace() -> None:
    story = Workers(backlog=0)
    story.work(30, {"m0": 300, "m1": 100}, every=2, arriving=60)
    assert {name: speed for name, (speed, _) in speeds(story).items()} == {"m1": 100}


def test_a_learned_speed_is_published_again_only_when_it_changes() -> None:
    story, pipeline = Workers(), LocalPipeline(skew=RULE)
    story.work(40, {"m0": 300, "m1": 100})
    run(story, pipeline)
    story.messages.clear()
    story.work(20, {"m0": 300, "m1": 100})
    keys = [row.key for row in run(story, pipeline, batches=range(0, 100, 5))]
    assert b'["speed","g"]' not in keys
    story.messages.clear()
    story.work(30, {"m0": 200, "m1": 100})
    found = compacted(run(story, pipeline))["speed", "g"]["members"]
    assert found["m0"]["speed"] == 200


def test_records_of_other_partitions_count_for_no_window() -> None:
    story = Workers()
    story.work(4, {"m0": 300, "m1": 100})
    swapped = {"m0": (2, 3), "m1": (0, 1)}
    for name, owned in swapped.items():
        story.member(story.second, "g", name, {"t": owned})
    story.work(20, {"m0": 300, "m1": 100}, owned=swapped)
    assert {name: speed for name, (speed, _) in speeds(story).items()} == {"m0": 300, "m1": 100}


@pytest.mark.parametrize("seen_first", [0, 2])
def test_records_that_the_log_lost_before_they_were_read_are_no_speed(seen_first: int) -> None:
    """A reader that retention overtakes commits a segment further on, and is no faster for it."""
    story, work = Workers(), {"m0": 300, "m1": 100}
    for begin in (40_000, 50_000, 60_000):
        story.work(3, work)
        story.begins[0] = begin
        story.work(seen_first, work)
        story.done[0] = begin
    story.work(3, work)
    assert {name: speed for name, (speed, _) in speeds(story).items()} == work


def test_a_member_that_restarts_keeps_its_speed_and_one_that_left_long_ago_has_none() -> None:
    story = Workers()
    story.work(10, {"m0": 300, "m1": 100})
    story.member(story.second, "g", "m1", {}, state="evicted")
    story.work(3, {"m0": 300, "m1": 0})
    assert speeds(story)["m1"] == (100, 0.67)
    late = story.second + FORGET_MS / SECOND + 1
    story.sample(late, "t", story.ends)
    story.sample(late + 1, "t", story.ends)
    assert speeds(story)["m1"] == (100, 0.67)
    story.member(late + 2, "g", "m2", {"t": (2, 3)})
    assert "m1" not in speeds(story)


def test_all_speeds_are_forgotten_after_a_long_silence() -> None:
    story = Workers()
    story.work(10, {"m0": 300, "m1": 100})
    for late in (0, 1):
        story.sample(story.second + FORGET_MS / SECOND + late, "t", story.ends)
    assert speeds(story) == {}
    assert ("speed", "g") not in compacted(run(story))


def test_the_speeds_of_a_group_that_ends_end_with_a_tombstone() -> None:
    story = Workers()
    story.work(10, {"m0": 300, "m1": 100})
    for name in OWNED:
        story.member(story.second, "g", name, {}, state="evicted")
    for partition in range(PARTITIONS):
        story.forget("g", "t", partition, (story.second + 1) * SECOND)
    story.gone(story.second + 2, "t")
    out = run(story)
    assert (b'["speed","g"]', None) in [(row.key, row.value) for row in out]
    assert ("speed", "g") not in compacted(out)


def test_a_burst_on_one_members_partitions_is_a_trigger_with_its_parts() -> None:
    story = Workers(backlog=0)
    story.work(20, {"m0": 400, "m1": 400}, arriving=40)
    story.ends[0] += 8_000
    story.ends[1] += 8_000
    story.work(8, {"m0": 400, "m1": 400}, arriving=40)
    assert triggers(run(story))[0][0] == b'["skew","g"]'
    found = compacted(run(story))["skew", "g"]
    assert (found["at"] - 21 * SECOND, found["since"] - 21 * SECOND) <= (4 * SECOND, SECOND)
    evidence = found["evidence"]
    assert evidence["heaviest"] > 1.5 * evidence["best"]
    assert evidence["members"]["m0"]["backlog"] > 14_000
    assert evidence["members"]["m1"]["backlog"] == 0
    assert evidence["members"]["m1"]["arrivals"] == 80
    assert evidence["arrivals"] <= 500, "a burst is no rate"


@st.composite
def shifts(draw: st.DrawFn) -> Workers:
    """Members whose speeds, partitions and backlog change at any time."""
    story = Workers(backlog=draw(st.sampled_from([0, 2_000, BACKLOG])))
    for _ in range(draw(st.integers(2, 5))):
        rates = {name: draw(st.sampled_from([0, 100, 240, 300])) for name in OWNED}
        every, arriving = draw(st.integers(1, 4)), draw(st.sampled_from([0, 20, 60]))
        story.work(draw(st.integers(2, 12)), rates, every=every, arriving=arriving)
        match draw(st.sampled_from(["none", "burst", "move", "evict", "clock"])):
            case "burst":
                story.ends[0] += 5_000
                story.ends[1] += 5_000
            case "move":  # between two samples: owners are no part of a sample's cut
                story.member(story.second + 0.5, "g", "m0", {"t": (0,)})
                story.member(story.second + 0.5, "g", "m1", {"t": (1, 2, 3)})
            case "evict":
                story.member(story.second + 0.5, "g", "m1", {}, state="evicted")
            case "clock":
                story.second += draw(st.integers(1, 100))
    return story


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(shifts(), CUTS)
def test_speeds_and_triggers_do_not_depend_on_where_a_batch_ends(
    story: Workers, cuts: list[int]
) -> None:
    assert_alike(run(story), run(story, batches=cuts), ["g"])

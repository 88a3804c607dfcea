"""Whatever the pipeline reads, its readers can read all that it publishes: nothing is rejected.

`LocalPipeline` decodes each record that it publishes as the daemon does. The stories here go to the
ends of what Kafka allows: offsets, times, rates and speeds from next to nothing to the largest.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol.canonical_json import LATEST_MS
from levelwind.assignors.protocol.declared.fields import LEAST_CAPACITY, MOST_CAPACITY
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.local_pipeline import OFFSETS, TOPICS, LocalPipeline
from levelwind_testing.pipeline.scripted_log import CUTS, RULE, SECOND, Story, compacted, run

PARTITIONS = 2
MEMBERS = ("m0", "m1")
BASE = 1_700_000_000
DAY = 24 * 60 * 60

PAUSES = st.sampled_from([0.001, 1.0, 3.0, 60.0, 1000.0, 29.0 * 60, 40.0 * DAY])
"""Seconds from one step to the next: a speed is forgotten after half an hour."""
STEPS = st.sampled_from([0, 1, 1, 1, 2, 1000, 2**40, 2**58])
"""Records that arrive, or are read, from one step to the next."""
BACKLOGS = st.sampled_from([0, 10**4, 2**61])
CAPACITIES = st.sampled_from([LEAST_CAPACITY, 0.01, 1.0, MOST_CAPACITY])
RACKS = st.sampled_from([["a"], ["b"], ["a", "b"]])
OFFSET_LIMIT = 2**62
TIMES = st.sampled_from([-1, 0, LATEST_MS - 1, LATEST_MS, LATEST_MS + 1, 2**52, 2**62])
"""Times of clocks that are far off, in milliseconds since the epoch."""


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Two members that read a topic at all paces, with clocks that may be far off."""
    story, at = Story(), float(BASE)
    exact = draw(st.sampled_from([True, True, True, False]))
    ends, done = [draw(BACKLOGS)] * PARTITIONS, [0] * PARTITIONS
    story.layout(at, "t", [["a"]] * PARTITIONS)
    story.plan(at, "g", metadata_at=at)
    for index, name in enumerate(MEMBERS):
        capacity = draw(CAPACITIES)
        story.member(at, "g", name, {"t": (index,)}, rack="a", capacity=capacity)
    story.commits(at, "g", "t", dict.fromkeys(range(PARTITIONS), 0))
    story.sample(at, "t", ends, commits=(story.written[OFFSETS],) if exact else None)
    for kind in draw(
        st.lists(st.sampled_from(["read"] * 6 + ["layout", "clock"]), min_size=4, max_size=30)
    ):
        at += draw(PAUSES)
        match kind:
            case "layout":
                story.layout(at, "t", [draw(RACKS) for _ in range(PARTITIONS)])
            case "clock":
                odd = draw(TIMES)
                if draw(st.booleans()):
                    story.forget("g", "t", 0, odd)
                    story.forget("g", "t", 1, odd)
                story.commit("g", "t", draw(st.integers(0, 1)), draw(STEPS), odd)
                story.member(odd / SECOND, "g", "m0", {"t": (0,)}, rack="a")
                story.plan(at, "g", metadata_at=at)
                story.add(TOPICS.metadata, odd, b'["topic","t"]', b"{}")
            case _:
                for partition in range(PARTITIONS):
                    arrived = ends[partition] + draw(STEPS)
                    ends[partition] = min(arrived, OFFSET_LIMIT)
                    done[partition] = min(done[partition] + draw(STEPS), ends[partition])
                    story.commit("g", "t", partition, done[partition], int(at * SECOND))
        story.sample(at + 0.1, "t", ends, commits=(story.written[OFFSETS],) if exact else None)
    return story


@settings(max_examples=examples(100), deadline=None)
@given(stories(), CUTS)
def test_every_published_record_is_one_that_its_readers_take(story: Story, cuts: list[int]) -> None:
    run(story, LocalPipeline(skew=RULE), cuts)


LATE = pytest.mark.parametrize("late", [LATEST_MS + 1, 2**52, 2**62])


@LATE
def test_a_trigger_by_a_clock_that_is_centuries_ahead_has_a_time_that_is_read(late: int) -> None:
    story = Story()
    story.layout(1, "t", [["a"]])
    story.plan(1, "g", metadata_at=1)
    story.commits(1, "g", "t", {0: 1})
    story.sample(2, "t", [5])
    story.layout(3, "t", [["b"]])
    story.member(late / SECOND, "g", "m", {"t": (0,)}, rack="a")
    found = compacted(run(story, batches=range(len(story.messages))))
    assert found["racks", "g"]["at"] == LATEST_MS


@LATE
def test_a_commit_by_a_clock_that_is_centuries_ahead_is_a_dead_letter(late: int) -> None:
    story = Story()
    story.commit("g", "t", 0, 2, late)
    assert [row.topic for row in run(story)] == [TOPICS.dead_letters]

"""The planner's records that were cut into shards, wherever a batch ends between them."""

import itertools

import pytest

from levelwind.assignors.protocol.records import cutting
from levelwind.streaming.group import codec as group_codec
from levelwind_testing.pipeline.coordinator_commands import Groups, owners, plan_of
from levelwind_testing.pipeline.local_pipeline import LocalPipeline
from levelwind_testing.pipeline.scripted_log import OTHER, RULE, compacted, lag, run


@pytest.fixture(autouse=True)
def small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut each planned topic, and each topic of an assignment, into a shard of its own."""
    monkeypatch.setattr(cutting, "WHOLE_BYTES", 30)


def planned() -> Groups:
    """A group that reads two topics by its plan, in which racks change afterwards."""
    story = Groups()
    story.layout(0, "t", [["a"], ["b"]])
    story.layout(0, "u", [["a"], ["b"]], topic_id=OTHER)
    topics = {
        "t": plan_of([["a"], ["b"]], at=0),
        "u": plan_of([["a"], ["b"]], at=0, topic_id=OTHER),
    }
    story.plan(1, "g", metadata_at=0, topics=topics)
    story.member(1, "g", "m0", {"t": (0, 1), "u": (0, 1)}, rack="a")
    story.layout(2, "t", [["a"], ["c"]])
    story.sample(3, "t", [7, 8])
    story.sample(3, "u", [5, 6], topic_id=OTHER)
    return story


@pytest.mark.slow
def test_a_plan_and_an_assignment_in_shards_count_as_whole_ones_wherever_batches_end() -> None:
    story = planned()
    assert len(story.messages) == 11  # of them four shards
    for first, second in itertools.combinations(range(1, 11), 2):
        published = run(story, batches=[first, second])
        for topic, behind in (("t", [7, 8]), ("u", [5, 6])):
            found = lag(published, topic=topic)
            assert (found["lag"], owners(found)) == (behind, ["m0", "m0"]), (first, second)
        trigger = compacted(published)["racks", "g"]
        assert trigger["evidence"]["topics"] == {"t": {"1": {"from": ["b"], "to": ["c"]}}}


def test_a_plan_that_lacks_a_shard_leaves_the_last_plan() -> None:
    story = planned()
    whole = lag(run(story), topic="u")
    story.plan(
        4, "g", metadata_at=4, topics={"v": plan_of([["a"]], at=4), "w": plan_of([["a"]], at=4)}
    )
    lost = next(m for m in story.messages[11:] if b'"gs"' in (m.key or b""))
    at = story.messages.index(lost)
    del story.messages[at]
    story.sample(5, "u", [5, 6], topic_id=OTHER)
    found = lag(run(story), topic="u")
    assert found["lag"] == whole["lag"]


def test_no_shard_is_kept_once_its_head_was_read() -> None:
    pipeline = LocalPipeline(skew=RULE)
    story = planned()
    run(story, pipeline, batches=[3])
    assert pipeline.group_state("g").shards == {}


def test_shards_are_read_back_from_the_state_as_they_were_written() -> None:
    pipeline = LocalPipeline(skew=RULE)
    story = planned()
    del story.messages[4:]  # behind the shards of the plan
    run(story, pipeline)
    state = pipeline.group_state("g")
    assert len(state.shards) == 2
    stored = group_codec.pack(state)
    assert group_codec.pack(group_codec.unpack(stored)) == stored

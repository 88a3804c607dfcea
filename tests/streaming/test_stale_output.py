"""Records of an earlier checkpoint: tombstoned unless the rebuilt state confirms them."""

import json
from collections.abc import Sequence

import pytest

from levelwind.assignors.protocol.records import ReplayRecord, encode, encode_key
from levelwind.streaming.messages.rows import SinkRow
from levelwind_testing.pipeline.local_pipeline import TOPICS, LocalPipeline
from levelwind_testing.pipeline.scripted_log import RULE, Story, run

ALL = (("lag", "g", "t"), ("racks", "g"), ("skew", "g"))


def request_checks(story: Story, at: int, keys: Sequence[tuple[str, ...]] = ALL) -> None:
    """Request the verification of keys, as the pipeline's process does after a rebuild."""
    for offset, key in enumerate(keys):
        request_check(
            story, at, TOPICS.lag if key[0] == "lag" else TOPICS.triggers, offset, encode_key(key)
        )


def request_check(story: Story, at: int, topic: str, offset: int, key: bytes | None) -> None:
    replay = ReplayRecord(
        at=at,
        topic=topic,
        partition=0,
        offset=offset,
        timestamp=at,
        until=offset + 1,
        raw_key=key,
        raw_value=None,
    )
    story.add(TOPICS.replays, at, *encode(replay))


def tombstoned(rows: Sequence[SinkRow]) -> list[tuple[str, tuple[str, ...]]]:
    return sorted((row.topic, tuple(json.loads(row.key))) for row in rows if row.value is None)


def test_unknown_keys_are_tombstoned_and_leave_no_state() -> None:
    story, pipeline = Story(), LocalPipeline(skew=RULE)
    request_checks(story, 1000)
    rows = run(story, pipeline)
    assert tombstoned(rows) == [
        (TOPICS.lag, ALL[0]),
        (TOPICS.triggers, ALL[1]),
        (TOPICS.triggers, ALL[2]),
    ]
    assert len(rows) == 3
    assert (pipeline.groups, pipeline.topics) == ({}, {})


@pytest.mark.parametrize("batches", [[], [100]], ids=["while it is built", "once it is"])
def test_records_that_the_rebuilt_state_confirms_stay(batches: list[int]) -> None:
    story = Story()
    story.layout(0, "t", [["a"], ["b"], ["b"]])
    story.member(0, "g", "m0", {"t": (0, 1)}, rack="a")
    story.member(0, "g", "m1", {"t": (2,)})
    story.commits(1, "g", "t", {0: 0, 1: 0, 2: 0})
    for second in range(2, 15):
        story.sample(second, "t", [900, 900, 0])
    story.layout(15, "t", [["a"], ["c"], ["b"]])
    batches = [len(story.messages)] if batches else []
    request_checks(story, 1000)
    assert tombstoned(run(story, batches=batches)) == []


def test_keys_of_a_known_group_are_tombstoned_if_they_no_longer_hold() -> None:
    story = Story()
    story.layout(0, "t", [["a"]])
    story.member(0, "g", "m0", {"t": (0,)}, rack="a")
    story.commits(1, "g", "t", {0: 0})
    story.sample(2, "t", [900])
    story.sample(3, "t", [900])
    request_checks(story, 1000, [*ALL, ("lag", "g", "former")])
    assert tombstoned(run(story)) == [
        (TOPICS.lag, ("lag", "g", "former")),
        (TOPICS.triggers, ("racks", "g")),
        (TOPICS.triggers, ("skew", "g")),
    ]


def test_lag_published_between_two_samples_stays() -> None:
    story = Story()
    story.layout(0, "t", [["a"]])
    story.sample(1, "t", [900])
    story.commits(2, "g", "t", {0: 0})
    first_batch = len(story.messages)
    request_checks(story, 1000, ALL[:1])
    assert tombstoned(run(story, batches=[first_batch])) == []


@pytest.mark.parametrize("key", [None, b"{", b'["lag","g"]', b'["skew","g"]'])
def test_a_key_that_levelwind_never_publishes_is_a_dead_letter(key: bytes | None) -> None:
    story = Story()
    request_check(story, 1000, TOPICS.lag, 7, key)
    (letter,) = run(story)
    assert json.loads(letter.key) == [TOPICS.lag, 0, 7]
    assert (
        "levelwind publishes no record with this key" in json.loads(letter.value or b"")["reason"]
    )

"""A backlog of samples: a part of it at a time is unpacked, and nobody can tell."""

import random
from collections import Counter
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pytest

from levelwind.assignors.protocol.records import OffsetsRecord
from levelwind.streaming.decoding import ingest
from levelwind.streaming.messages.rows import Kind
from levelwind.streaming.messages.topic_columns import BucketSamples
from levelwind.streaming.topic import batch
from levelwind.streaming.topic.batch import TopicBatch
from levelwind_testing.pipeline.local_pipeline import TOPICS, LocalPipeline
from levelwind_testing.pipeline.scripted_log import ID, OTHER, RULE, SECOND, Story

SAMPLE_BYTES = 200
"""A little less than the value of a sample here."""
PARTITIONS = {"a": 1, "b": 3, "c": 64, "d": 65}
"""The number of partitions of each topic; a sample of the last is no plain one."""
NUMBERS, CONTENT = ("partition", "offset", "at"), ("topic", "key", "value")
"""Fields of a message."""


def backlog_of(seed: int) -> Story:
    """Samples of some topics, most of them plain, among layouts and commits."""
    rng = random.Random(seed)
    story, ids = Story(), dict.fromkeys(PARTITIONS, ID)
    for second in range(200):
        topic = rng.choice(list(PARTITIONS))
        ends = [100 + second + number for number in range(PARTITIONS[topic])]
        match rng.randrange(40):
            case 0:
                story.gone(second, topic)
            case 1:
                story.layout(second, topic, [[rng.choice("ab")]] * PARTITIONS[topic], ids[topic])
            case 2:
                ids[topic] = rng.choice([ID, OTHER])
            case 3:
                story.sample(second, topic, ends, topic_id=ids[topic])
            case kind if kind < 14:
                story.commits(second, "g", topic, {0: second}, ids[topic])
            case _:
                cut = (story.written.get("__consumer_offsets", 0) + rng.choice([0, 0, -1, 3]),)
                at = second - rng.choice([0] * 9 + [3])
                story.sample(at, topic, ends, topic_id=ids[topic], commits=cut)
    return story


@pytest.mark.parametrize(("records", "size"), [(1, 0), (5, 5 * SAMPLE_BYTES), (1000, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_how_many_samples_are_unpacked_at_a_time_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, seed: int, records: int, size: int
) -> None:
    messages = backlog_of(seed).messages
    whole, sliced = (
        LocalPipeline(skew=RULE, offsets_read={} if seed % 2 else None) for _ in range(2)
    )
    sizes = random.Random(seed).choices([1, 10, 60], k=len(messages))
    for first, last in pairwise(accumulate(sizes, initial=0)):
        some = messages[first:last]
        with monkeypatch.context() as patch:
            patch.setattr(ingest, "SLICE_RECORDS", records)
            patch.setattr(batch, "MAX_UNPACKED_BYTES", size)
            rows = sliced.run(some)
        # Rows of a bucket are in the order in which its topics came.
        assert Counter(rows) == Counter(whole.run(some))
        assert sliced.topics == whole.topics
        assert sliced.groups == whole.groups


def test_a_row_has_the_samples_of_a_slice_and_only_the_first_ones_keep_their_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    for second in range(8):
        story.sample(second, "a", [second], commits=(0,))
    numbers = [np.array([getattr(m, name) for m in story.messages]) for name in NUMBERS]
    columns = [pa.array([getattr(m, name) for m in story.messages]) for name in CONTENT]
    records = ingest.RecordColumns(
        **dict(zip(("partition", "offset", "timestamp"), numbers, strict=True)),
        **dict(zip(CONTENT, columns, strict=True)),
    )
    monkeypatch.setattr(ingest, "SLICE_RECORDS", 3)
    packed = ingest.pack_batch(records, TOPICS)
    assert packed.kind == [Kind.SAMPLES] * 3
    assert [len(BucketSamples.unpack(row).raws) for row in packed.payload] == [3, 3, 2]
    first_five = sum(len(message.value or b"") for message in story.messages[:5])
    monkeypatch.setattr(batch, "MAX_UNPACKED_BYTES", first_five)
    rows = zip(packed.subject, packed.kind, packed.payload, strict=True)
    of_topic = TopicBatch.by_topic(rows)["a"]
    assert [read.sample is not None for read in of_topic.samples] == [True] * 5 + [False] * 3
    read = [read.record for read in of_topic.records]
    assert [record.at for record in read if isinstance(record, OffsetsRecord)] == [
        second * SECOND for second in range(8)
    ]

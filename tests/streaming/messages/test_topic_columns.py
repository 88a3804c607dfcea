"""Rows of a bucket's topics: each topic gets back what was packed of it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.protocol.records import OffsetsRecord, encode
from levelwind.streaming.messages.buckets import topic_key
from levelwind.streaming.messages.rows import Raw
from levelwind.streaming.messages.topic_columns import (
    MAX_PARTITIONS,
    BucketCommits,
    BucketSamples,
)

BUCKETS = 3
OFFSETS = st.integers(-1, 2**62)


@st.composite
def samples(draw: st.DrawFn) -> OffsetsRecord:
    size = draw(st.integers(0, 3))
    ends = [tuple(draw(st.lists(OFFSETS, min_size=size, max_size=size))) for _ in range(4)]
    return OffsetsRecord(
        topic=draw(st.sampled_from("abc")),
        at=draw(st.integers(0, 2**50)),
        id=draw(st.sampled_from(["ü", "id"])),
        begin=ends[0],
        stable=ends[1],
        high=ends[2],
        data_end=draw(st.sampled_from([None, ends[3]])),
        offsets_topic_ends=tuple(draw(st.lists(st.integers(0, 2**50), max_size=2))),
    )


@given(st.lists(samples(), min_size=1, max_size=6))
def test_samples_are_read_back_with_the_bytes_of_their_records(
    records: list[OffsetsRecord],
) -> None:
    raws = []
    for number, record in enumerate(records):
        key, value = encode(record)
        raws.append(
            Raw(topic="m", partition=1, offset=number, timestamp=7 + number, key=key, value=value)
        )
    row = BucketSamples(raws=raws, records=records)
    assert BucketSamples.unpack(row.pack()) == row


def test_a_sample_that_needs_a_closer_look_or_much_memory_is_a_row_of_its_own() -> None:
    wide = (0,) * (MAX_PARTITIONS + 1)
    plain = OffsetsRecord(
        topic="a", at=1, id="id", begin=(0,), stable=(0,), high=(0,), offsets_topic_ends=()
    )
    raw = Raw(topic="m", partition=0, offset=0, timestamp=0, key=b"", value=b"")
    assert BucketSamples.fits(raw, plain)
    assert not BucketSamples.fits(replace(raw, until=3), plain)
    for record in (
        replace(plain, begin=wide, stable=wide, high=wide),
        replace(plain, gaps=((1, 2),)),
        replace(plain, offsets_topic_ends=None),
    ):
        assert not BucketSamples.fits(raw, record)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)), min_size=1))
def test_each_topic_has_its_commits_with_its_names(counts: list[tuple[int, int, int]]) -> None:
    topics = sorted((f"t{n}" for n in range(len(counts))), key=lambda t: topic_key(t, BUCKETS))
    commits, groups, ids = (np.array(column, np.int64) for column in zip(*counts, strict=True))
    numbers = np.arange(commits.sum())
    columns = ("group", "topic_id", "partition", "offset", "at", "source", "position")
    row = BucketCommits(
        topics=tuple(topics),
        commits=commits,
        groups=tuple(f"g{n}" for n in range(groups.sum())),
        group_count=groups,
        topic_ids=tuple(f"i{n}" for n in range(ids.sum())),
        topic_id_count=ids,
        **{name: numbers * 10 + at for at, name in enumerate(columns)},
    )
    parts = [BucketCommits.unpack(part.pack()) for _, part in row.divided(BUCKETS)]
    assert [len({topic_key(t, BUCKETS) for t in part.topics}) for part in parts] == [1] * len(parts)
    found = [pair for part in parts for pair in part.by_topic()]
    assert [topic for topic, _ in found] == topics
    for name, of_topic in (("groups", groups), ("topic_ids", ids)):
        assert [len(getattr(c, name)) for _, c in found] == of_topic.tolist()
        assert [n for _, c in found for n in getattr(c, name)] == list(getattr(row, name))
    for name in columns:
        joined = np.concatenate([getattr(c, name) for _, c in found])
        assert joined.tolist() == getattr(row, name).tolist()
    assert [c.group.size for _, c in found] == commits.tolist()

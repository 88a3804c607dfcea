"""Output of the pipeline in messages of any size: the log that readers find, and its cleaning."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from levelwind.assignors.protocol.records import LagRecord, Tombstone, decode, encode, encode_key
from levelwind.assignors.protocol.records.cut import CutRecord, shard_keys
from levelwind.daemon.kafka.repeated_records import RepeatedRecords
from levelwind.streaming.messages.rows import Kind, Raw, SinkRow
from levelwind.streaming.output import pass_through_record
from levelwind.streaming.sized_output import SizedOutput
from levelwind_testing import records
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.local_pipeline import OUTPUTS, TOPICS

GROUPS = ("g", 'a "name"')
ROOM = 10**6


def outputs(most_bytes):
    return replace(OUTPUTS, most_bytes=dict.fromkeys(OUTPUTS.most_bytes, most_bytes))


def sample(group, at, partitions):
    return structs.replace(records.lag(at, *range(partitions), topic="t"), group=group)


def row(record):
    key, value = (encode_key(record.key), None) if isinstance(record, Tombstone) else encode(record)
    return SinkRow(TOPICS.lag, key, value, 0)


class Pipeline:
    """A bucket's output, batch by batch, and the log that it writes."""

    def __init__(self):
        self.packed = None
        self.log = []

    def write(self, batch, most_bytes, *, until=None, verified=()):
        """Write a batch; with `until` the process ends after so many messages."""
        output = SizedOutput(outputs(most_bytes), self.packed)
        written = [*output.rows(map(row, batch)), *output.unneeded(verified)]
        self.log += [(message.key, message.value) for message in written][:until]
        if until is None:
            self.packed = output.pack()


def read(log, *, lazy=False):
    """The newest record of each key, as a reader has it that begins with the log."""
    reader, known = RepeatedRecords(lazy=lazy), {}
    for key, value in log:
        found = reader.decode("lag", key, value)
        if isinstance(found, Tombstone):
            known.pop(found.key, None)
        elif found is not None:
            known[found.key] = found if isinstance(found, LagRecord | CutRecord) else found.read()
    return known


def compacted(log, dropped):
    """A log of which some messages are dropped that a later one of their key replaces."""
    newest = {key: at for at, (key, _) in enumerate(log)}
    return [
        message for at, message in enumerate(log) if at == newest[message[0]] or not dropped(at)
    ]


def test_a_record_that_fits_is_written_as_it_is_and_nothing_is_kept():
    pipeline, record = Pipeline(), sample("g", 1, 3)
    pipeline.write([record], ROOM)
    assert pipeline.log == [encode(record)]
    assert pipeline.packed is None


def test_shards_that_a_later_record_does_not_need_end_behind_its_head():
    pipeline = Pipeline()
    pipeline.write([sample("g", 1, 100)], 300)
    before = len(pipeline.log) - 1
    assert before > 3
    del pipeline.log[:]
    pipeline.write([sample("g", 2, 30)], 300)
    ends = [key for key, value in pipeline.log if value is None]
    needed = len(pipeline.log) - len(ends) - 1
    assert ends == [encode_key(key) for key in shard_keys(("lag", "g", "t"), range(needed, before))]
    assert all(value is None for _, value in pipeline.log[needed + 1 :])
    del pipeline.log[:]
    pipeline.write([sample("g", 3, 30)], ROOM)
    assert len(pipeline.log) == 1 + needed
    assert pipeline.packed is None


def test_the_end_of_a_record_ends_its_shards():
    pipeline = Pipeline()
    pipeline.write([sample("g", 1, 100)], 300)
    pipeline.write([Tombstone(("lag", "g", "t"))], 300)
    assert read(pipeline.log) == {}
    newest = dict(pipeline.log)
    assert set(newest.values()) == {None}
    assert pipeline.packed is None


def test_a_record_without_room_is_named_and_its_shards_end():
    pipeline = Pipeline()
    pipeline.write([sample("g", 1, 100), sample("h", 1, 3)], 300)
    pipeline.write([sample("g", 2, 100), sample("h", 2, 3)], 150)
    known = read(pipeline.log)
    cut = known["lag", "g", "t"]
    assert isinstance(cut, CutRecord)
    assert (cut.shards, cut.bytes) == (None, len(encode(sample("g", 2, 100))[1]))
    alive = {key for key, value in dict(pipeline.log).items() if value is not None}
    assert alive == {encode_key(("lag", name, "t")) for name in "gh"}


def test_a_key_without_room_costs_its_own_record_alone(capsys):
    pipeline, long, other = Pipeline(), sample("n" * 300, 1, 9), sample("g", 1, 2)
    pipeline.write([long, other], len(b"".join(encode(other))))
    assert read(pipeline.log) == {other.key: other}
    assert "takes no message with the key" in capsys.readouterr().err


def test_shards_of_an_earlier_state_end_when_they_are_verified_unless_they_are_needed():
    former, pipeline = Pipeline(), Pipeline()
    former.write([sample("g", 1, 100), sample("h", 1, 50)], 300)
    keys = [key for key, _ in former.log]
    pipeline.log = former.log
    pipeline.write([sample("g", 2, 30)], 300, verified=[*keys, encode_key(("speed", "g"))])
    alive = {key for key, value in dict(pipeline.log).items() if value is not None}
    fresh = Pipeline()
    fresh.write([sample("g", 2, 30)], 300)
    # The group's own update ends heads that it does not know.
    assert alive == {key for key, _ in fresh.log} | {encode_key(("lag", "h", "t"))}


batches = st.tuples(
    st.lists(
        st.tuples(st.sampled_from(GROUPS), st.none() | st.integers(1, 60)),
        min_size=1,
        max_size=3,
        unique_by=lambda change: change[0],
    ),
    st.integers(160, 700),
    st.none() | st.integers(0, 12),
)
"""What a batch publishes, the limit of its messages, and where the process ends in it."""


@pytest.mark.parametrize("lazy", [True, False])
@settings(max_examples=examples(150))
@given(data=st.data(), history=st.lists(batches, min_size=1, max_size=6))
def test_a_reader_of_any_log_has_the_newest_record_or_while_it_is_written_an_older_one(
    lazy, data, history
):
    """Of a log that breaks off in a batch, is cleaned between any two messages, and goes on."""
    pipeline, truth, ever = Pipeline(), {}, {}
    for at, (changes, most_bytes, until) in enumerate(history, start=1):
        batch = [
            Tombstone(("lag", group, "t")) if partitions is None else sample(group, at, partitions)
            for group, partitions in changes
        ]
        for record in batch:
            ever.setdefault(record.key, []).append(record)
        if until is not None:
            pipeline.write(batch, most_bytes, until=until)
            for key, found in read(pipeline.log, lazy=lazy).items():
                assert isinstance(found, CutRecord) or found in ever[key]
            most_bytes = data.draw(st.integers(160, 700))  # noqa: PLW2901 - as after a restart
        pipeline.write(batch, most_bytes)
        for record in batch:
            truth[record.key] = None if isinstance(record, Tombstone) else record
        gone = data.draw(st.sets(st.integers(0, len(pipeline.log))))
        for log in (pipeline.log, compacted(pipeline.log, lambda index, gone=gone: index in gone)):
            known = read(log, lazy=lazy)
            for key, record in truth.items():
                found = known.get(key)
                if isinstance(found, CutRecord):
                    assert found.bytes == len(encode(record)[1])
                else:
                    assert found == record
        pipeline.log = compacted(pipeline.log, lambda index, gone=gone: index in gone)


@settings(max_examples=examples(100))
@given(
    key=st.none() | st.integers(0, 3_000).map(bytes),
    value=st.none() | st.integers(0, 3_000).map(bytes),
    most_bytes=st.integers(600, 6_000),
)
def test_a_dead_letter_keeps_no_more_of_its_record_than_its_topic_takes(key, value, most_bytes):
    raw = Raw(
        topic="t", partition=1, offset=2, timestamp=3, key=key, value=value, reason="malformed"
    )
    row = pass_through_record(Kind.REJECTED, raw.pack(), outputs(most_bytes))
    assert len(row.key) + len(row.value) <= most_bytes
    letter = decode("dead_letters", row.key, row.value)
    whole = (letter.raw_key, letter.raw_value) == (key, value)
    assert whole == (letter.reason == "malformed")
    for kept, part in ((letter.raw_key, key), (letter.raw_value, value)):
        assert (kept is None) == (part is None)
        assert part is None or part.startswith(kept)

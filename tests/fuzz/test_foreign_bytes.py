"""Random, cut and damaged bytes through every codec of foreign bytes.

Each input must become a value or be refused, in little memory. A value that was read is written and
read again, so that accepted values are sound. `make rare` takes a million inputs of a fresh seed,
which is printed, `make test` a hundred thousand and the quick suite twenty thousand of seeds that
stay.
"""

import logging
import resource
import tracemalloc
from random import Random

import pyarrow as pa
import pytest

from levelwind.assignors.clients.group_join import Joiner, read_members
from levelwind.assignors.problem.inputs import Member, ProblemError
from levelwind.assignors.protocol import records
from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.kafka.sticky_user_data import (
    StickyUserData,
    decode_generation,
    decode_priority,
)
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.topics import TOPIC_KINDS
from levelwind.streaming.decoding import classic_group, offsets_topic
from levelwind.streaming.errors import UnknownVersion
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.groups import corpus
from levelwind_testing.groups.mutation import mutated

QUICK, MANY, MILLION = 10_000, 100_000, 1_000_000
BATCH = 1000
MEASURED_EVERY = 25
"""One of this many inputs is read under tracemalloc, which slows it threefold."""
BYTES_PER_INPUT_BYTE, BYTES_PER_INPUT = 400, 64 * 1024
"""Bytes of memory allowed for each byte of input, and for any input."""
RUN_KIB = 256 * 1024
"""KiB by which the process may grow in a whole run."""


@pytest.fixture(autouse=True)
def unlogged(caplog):
    """Leave out the warnings: what pytest keeps of them would count as a reader's memory."""
    caplog.set_level(logging.ERROR, "levelwind.clients.classic")


def damaged(draw, seeds, *, words=False):
    kind = draw.randrange(10)
    if kind == 0:
        return draw.randbytes(draw.randrange(80))
    if kind == 1:
        return draw.choice(seeds)[: draw.randrange(8)] + draw.randbytes(draw.randrange(40))
    return mutated(draw, draw.choice(seeds), words=words)


def measured(number, raw, read):
    """Read the input; measure the memory of every `MEASURED_EVERY`th."""
    if number % MEASURED_EVERY:
        return read(raw)
    tracemalloc.start()
    try:
        return read(raw)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= BYTES_PER_INPUT + BYTES_PER_INPUT_BYTE * len(raw), (
            f"{peak} bytes for {raw[:200].hex()} of {len(raw)}"
        )


def read_consumer_protocol(kind):
    def read(raw):
        try:
            value = kind.decode(raw)
        except WireError:
            return False
        assert kind.decode(value.encode()).encode() == value.encode()
        return True

    return read


def read_number(read):
    def number(raw):
        try:
            return -(2**31) <= read(raw) < 2**31
        except WireError:
            return False

    return number


def read_joiner(raw):
    try:
        _, (member,) = read_members([Joiner(id="m", offers={"sticky": raw})])
    except ProblemError:
        return False
    return isinstance(member, Member)


def read_membership(raw):
    try:
        read = classic_group.decode(raw)
    except (WireError, UnknownVersion):
        return False
    assert all(
        number >= 0
        for member in read.members
        for held in member.assigned.values()
        for number in held
    )
    return True


CODECS = [
    (read_consumer_protocol(ConsumerSubscription), corpus.SUBSCRIPTIONS, 0.14),
    (read_consumer_protocol(ConsumerAssignment), corpus.ASSIGNMENTS, 0.08),
    (read_consumer_protocol(StickyUserData), corpus.USER_DATA, 0.08),
    (read_number(decode_generation), corpus.USER_DATA, 0.02),
    (read_number(decode_priority), corpus.USER_DATA, 0.02),
    (read_joiner, corpus.SUBSCRIPTIONS, 0.06),
    (read_membership, corpus.GROUPS, 0.15),
]
OFFSETS_SHARE, RECORDS_SHARE = 0.3, 0.15


def through_codecs(draw, count):
    for read, seeds, share in CODECS:
        inputs = int(count * share)
        accepted = sum(
            bool(measured(number, damaged(draw, seeds), read)) for number in range(inputs)
        )
        assert 0 < accepted < inputs


def through_the_offsets_topic(draw, count):
    seeds = [raw for _, raw in corpus.OFFSETS if raw]
    keys = [key for key, _ in corpus.OFFSETS]
    accepted = 0
    for number in range(int(count * OFFSETS_SHARE) // BATCH):
        chosen = [draw.choice(corpus.OFFSETS) for _ in range(BATCH)]
        batch = [
            (
                None
                if not draw.randrange(50)
                else key
                if draw.randrange(3)
                else damaged(draw, keys),
                value if value is None or not draw.randrange(9) else damaged(draw, seeds),
            )
            for key, value in chosen
        ]
        read = measured_batch(number, batch)
        commits = read.commits.row.tolist()
        rows = [*commits, *read.memberships, *read.rejected]
        assert len(set(rows)) == len(rows)
        assert len(rows) + sum(read.skipped.values()) == BATCH
        assert set(read.rejected.values()) <= set(offsets_topic.REASONS)
        accepted += len(commits)
    assert accepted


def measured_batch(number, batch):
    columns = [pa.array([row[side] for row in batch], pa.binary()) for side in (0, 1)]
    raw = b"".join(part or b"" for row in batch for part in row)
    return measured(number, raw, lambda _: offsets_topic.decode(*columns))


def read_record(draw, topic, key, value):
    def read(_):
        record = records.decode(topic, key, value)
        if isinstance(record, records.Rejection):
            assert len(record.reason) < 500
            return False
        if isinstance(record, records.Tombstone):
            records.encode_key(record.key)
        else:
            assert records.decode(topic, *records.encode(record)) == record
        return True

    return read


def through_levelwinds_records(draw, count):
    inputs = int(count * RECORDS_SHARE)
    accepted = 0
    values = [value for _, _, value in corpus.RECORDS]
    for number in range(inputs):
        topic, key, value = draw.choice(corpus.RECORDS)
        match draw.randrange(20):
            case 0:
                topic = draw.choice(TOPIC_KINDS)
            case 1 | 2:
                key = damaged(draw, [key], words=True)
            case 3:
                value = draw.choice([None, b"", *values])
            case _:
                value = damaged(draw, [value], words=True)
        accepted += measured(number, key + (value or b""), read_record(draw, topic, key, value))
    assert 0 < accepted < inputs


def run(draw, count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    through_codecs(draw, count)
    through_the_offsets_topic(draw, count)
    through_levelwinds_records(draw, count)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < RUN_KIB, f"{grown_kib} KiB"


@pytest.mark.parametrize("seed", [0, 1])
def test_ten_thousand_inputs_are_each_a_value_or_refused(seed):
    run(Random(drawn_seed(seed)), QUICK)


@pytest.mark.integration
def test_a_hundred_thousand_inputs_are_each_a_value_or_refused():
    run(Random(drawn_seed(2)), MANY)


@pytest.mark.integration
@pytest.mark.rare
@pytest.mark.timeout(3600)
def test_a_million_inputs_are_each_a_value_or_refused():
    run(Random(drawn_seed(3)), MILLION)

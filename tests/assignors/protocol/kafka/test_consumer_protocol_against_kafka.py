"""The ConsumerProtocol compared with Kafka's own classes: bytes of values, and values of bytes.

A fixed seed repeats the same cases; `make rare` draws a further one and prints it.
"""

import json
from pathlib import Path
from random import Random

import pytest

from levelwind.assignors.clients.group_join import Joiner, read_members
from levelwind.assignors.protocol.kafka.consumer_protocol import (
    NEWEST,
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.kafka.sticky_user_data import StickyUserData, encode_generation
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind_testing.drawn_seeds import fixed_and_fresh_seeds
from levelwind_testing.groups.mutation import mutated
from levelwind_testing.kafka.consumer_protocol_oracle import Codec

pytestmark = pytest.mark.integration

GOLDEN = Path(__file__).parents[3] / "data" / "consumer_protocol.jsonl"
VALUES = 250
MUTANTS = 2000
STRICTER = ("UTF-8", "trailing bytes", "a length of -")
seeds = fixed_and_fresh_seeds(fixed=1, fresh=1)
LETTERS = ["", "a", "b", "Z", "ü", "\ue000", "😀", "-", "_", "."]


@pytest.fixture(scope="module")
def codec(kafka):
    return Codec(kafka)


@pytest.fixture(scope="module")
def draw(seeds):
    return Random(seeds.start)


def name(draw):
    return "".join(draw.choice(LETTERS) for _ in range(draw.randint(1, 4))) + draw.choice("xyz")


def held(draw):
    return {
        name(draw): tuple(
            sorted({draw.choice([0, 1, 7, draw.randint(0, 2**31 - 1)]) for _ in range(3)})
        )
        for _ in range(draw.randint(0, 3))
    }


def data(draw):
    return draw.choice([None, b"", draw.randbytes(draw.randint(1, 9))])


def subscription(draw):
    return ConsumerSubscription(
        topics=tuple(name(draw) for _ in range(draw.randint(0, 4))),
        user_data=data(draw),
        owned=held(draw),
        generation=draw.choice([-1, 0, draw.randint(0, 2**31 - 1)]),
        rack=draw.choice([None, name(draw)]),
    )


def assignment(draw):
    partitions = held(draw)
    in_order = sorted(partitions, key=lambda topic: topic.encode("utf-16-be"))
    return ConsumerAssignment(
        partitions={topic: partitions[topic] for topic in in_order}, user_data=data(draw)
    )


def test_it_writes_what_kafka_writes_at_every_version(codec, draw):
    for _ in range(VALUES):
        wish, given = subscription(draw), assignment(draw)
        for version in range(NEWEST + 1):
            assert wish.encode(version) == codec.subscription(wish, version), f"v{version}: {wish}"
            assert given.encode(version) == codec.assignment(given, version), f"v{version}: {given}"


def test_kafka_reads_what_it_writes_at_every_version(codec, draw):
    for _ in range(VALUES):
        for value in (subscription(draw), assignment(draw)):
            for version in range(NEWEST + 1):
                raw = value.encode(version)
                rewritten = codec.rewritten(raw, NEWEST, kind=type(value))
                assert rewritten == type(value).decode(raw).encode(NEWEST), f"v{version}: {value}"


def test_damaged_bytes_are_read_as_kafka_reads_them(codec, draw):
    """What Kafka refuses is refused, and what both read is the same.

    Kafka reads three things that are refused here: a string that is not UTF-8, a negative length
    other than -1 for null, and bytes behind the fields of a known version.
    """
    read = 0
    for _ in range(MUTANTS):
        value = draw.choice([subscription, assignment])(draw)
        raw = mutated(draw, value.encode(draw.randint(0, NEWEST)))
        by_kafka = codec.rewritten(raw, NEWEST, kind=type(value))
        by_levelwind = decoded(type(value), raw)
        if isinstance(by_levelwind, str):
            assert by_kafka is None or any(reason in by_levelwind for reason in STRICTER), (
                f"{raw.hex()}: {by_levelwind}"
            )
        else:
            assert by_kafka is not None, raw.hex()
            assert by_levelwind.encode() == type(value).decode(by_kafka).encode(), raw.hex()
            read += 1
    assert read > MUTANTS / 20


def decoded(kind, raw):
    """The value, or the text of the error."""
    try:
        return kind.decode(raw)
    except WireError as error:
        return str(error)


def test_sticky_user_data_is_what_kafkas_assignor_writes(codec, draw):
    for _ in range(VALUES):
        topic, generation = name(draw), draw.randint(0, 2**31 - 1)
        # A single topic: Kafka writes several topics in the order of a hash table.
        single = {topic: (0, 3, draw.randint(4, 2**31 - 1))}
        raw = codec.user_data("sticky", single, generation)
        assert raw == StickyUserData(held=single, generation=generation).encode()
        multiple = held(draw) | single
        raw = codec.user_data("sticky", multiple, generation)
        assert StickyUserData.decode(raw) == StickyUserData(held=multiple, generation=generation)
        assert encode_generation(generation) == codec.user_data(
            "cooperative-sticky", multiple, generation
        )


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_a_members_claims_are_those_that_kafkas_assignor_sees(codec, draw, strategy):
    for _ in range(VALUES):
        sticky = StickyUserData(held=held(draw), generation=draw.randint(-1, 99))
        user_bytes = draw.choice(
            [sticky.encode(), sticky.encode(0), encode_generation(7), b"", b"?", None]
        )
        whole = subscription(draw)
        version = draw.randint(1, NEWEST)
        raw = ConsumerSubscription(
            topics=whole.topics,
            user_data=user_bytes,
            owned=whole.owned,
            generation=whole.generation,
        ).encode(version)
        _, (member,) = read_members([Joiner(id="m", offers={strategy: raw})])
        pairs = {
            f"{topic}-{number}"
            for topic, numbers in (member.owned or {}).items()
            for number in numbers
        }
        partitions, generation = codec.member_data(strategy, raw).rsplit(" ", 1)
        assert set(filter(None, partitions[1:-1].split(", "))) == pairs, raw.hex()
        seen = -1 if generation == "Optional.empty" else int(generation.split("[")[1][:-1])
        assert seen == member.generation, raw.hex()


def test_the_golden_bytes_are_what_kafka_writes(codec):
    for line in GOLDEN.read_text().splitlines():
        golden = json.loads(line)
        value, version = golden["value"], golden["version"]
        user_bytes = None if value.get("user_data") is None else bytes.fromhex(value["user_data"])
        if golden["kind"] == "subscription":
            wish = ConsumerSubscription(
                **value | {"topics": tuple(value["topics"]), "user_data": user_bytes}
            )
            raw = codec.subscription(wish, version)
        elif golden["kind"] == "assignment":
            raw = codec.assignment(
                ConsumerAssignment(partitions=value["partitions"], user_data=user_bytes), version
            )
        else:
            raw = codec.user_data(golden["kind"], value["held"], value["generation"])
        assert raw.hex() == golden["bytes"], golden["name"]

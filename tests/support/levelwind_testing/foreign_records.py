"""Records of each kind that were changed at random, as a foreign or a faulty writer makes them."""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple, get_args
from unittest.mock import patch

from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    NO_SUBJECT,
    BrokerRecord,
    CutRecord,
    GroupRecord,
    LagRecord,
    LeverKind,
    MemberSpeed,
    PlannerRecord,
    ProxyRecord,
    Record,
    Rejection,
    SpeedRecord,
    Tombstone,
    cutting,
    decode,
    encode,
)
from levelwind.assignors.protocol.topics import TopicKind
from levelwind_testing.records import (
    assignment,
    lag,
    lever,
    offsets,
    plan,
    proposal,
    racks_trigger,
    request,
    skew_trigger,
)

NUMBERS = [-(2**63), -2, -1, 0, 1, 2, 3, 4, 7, 2**31, 2**40, 2**53, 2**62, 2**63 - 1, 0.5, 1e300]
TEXTS = ["", "t", "u", "g", "a", "b", "m0", "i1", "\u0000", "x" * 249, "0-3", "-1", "9"]
ANYTHING = [None, True, False, [], {}, [[]], [None], {"t": []}, *NUMBERS, *TEXTS]
SUBJECTS = {"pin": "t/1", "drain": "m0", "evacuate": "a"}
SETTINGS = {"pin": "m1", "strategy": "optimal"}


class Message(NamedTuple):
    """A record as it lies in a topic; without a value it is a tombstone."""

    topic: TopicKind
    key: bytes
    value: bytes | None

    def read(self) -> Record | Tombstone | None:
        """The record, unless whoever reads the topic refuses it or passes over it."""
        read = decode(self.topic, self.key, self.value)
        return None if isinstance(read, Rejection | CutRecord) else read


def changed(draw: Random, value: Any) -> Any:
    """A JSON value with something in it changed: at any depth, mostly to what has its type."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name = draw.choice(sorted(value))
        match draw.randrange(12):
            case 0:
                return {key: item for key, item in value.items() if key != name}
            case 1:
                return value | {draw.choice(TEXTS): value[name]}
            case _:
                return value | {name: changed(draw, value[name])}
    if isinstance(value, list) and draw.random() < 0.9:
        where = draw.randrange(len(value)) if value else 0
        match draw.randrange(4):
            case 0:
                return value[:where] + value[where + 1 :]
            case 1:
                return [*value, value[where] if value else draw.choice(ANYTHING)]
            case _ if value:
                return [*value[:where], changed(draw, value[where]), *value[where + 1 :]]
    if draw.randrange(10) == 0:
        return draw.choice(ANYTHING)
    if type(value) in {int, float} and draw.randrange(2):
        return draw.choice((value + 1, max(value - 1, 0), 2 * value, value * 1000, 0))
    kind = TEXTS if isinstance(value, str) else NUMBERS
    return draw.choice(kind if value is not None else ANYTHING)


class ForeignRecords:
    """Draws changed records of every kind that daemons read."""

    def __init__(self, draw: Random, written: Sequence[tuple[TopicKind, Record]]) -> None:
        """`written`: records of a group, of which the others are about the same."""
        self.draw = draw
        records = (*written, *_further(), *_cut(written))
        messages = [Message(kind, *encode(record)) for kind, record in records]
        self.kinds: dict[str, list[Message]] = {}
        for message in messages:
            self.kinds.setdefault(type(message.read()).__name__, []).append(message)

    @property
    def good(self) -> list[Message]:
        """All records that are changed."""
        return [message for of_kind in self.kinds.values() for message in of_kind]

    def of(self, kind: str) -> Message:
        """A changed record of a kind, of which one in twenty is a tombstone."""
        draw = self.draw
        topic, key, value = draw.choice(self.kinds[kind])
        if draw.randrange(10) == 0:
            parts = json.loads(key)
            key = json.dumps([*parts[:-1], draw.choice(["t/9", "t/x", *TEXTS])]).encode()
        if draw.randrange(20) == 0:
            return Message(topic, key, None)
        fields = json.loads(value)
        for _ in range(draw.randrange(1, 4)):
            fields = changed(draw, fields)
        return Message(topic, key, json.dumps(fields).encode())


def _further() -> Iterator[tuple[TopicKind, Record]]:
    """Records of each kind that the first seconds of a group do not bring."""
    full = lag(5, 6, 7, 8, at=100_500)
    column = (0,) * 4
    yield "lag", full
    yield (
        "lag",
        LagRecord(
            **{name: getattr(full, name) for name in ("group", "topic", "at", "id", "end_kind")},
            committed=column,
            committed_at=column,
            begin=column,
            end=(9, 9, 9, 9),
            lag=(9, 9, 0, 9),
            lag_upper_bound=(1,),
            lost=column,
            stale=(0,),
            racks=(("a",), ("b",), ("a", "b"), ()),
            source={"__consumer_offsets/0": 4},
            rate=(1.5, None, 0.0, 2.0),
            velocity=(1.5, None, 0.0, 2.0),
            seconds=(1.5, None, 0.0, 2.0),
            seconds_lower_bound=(3,),
            end_read_at=column,
            reset=(2,),
            unclaimed=(-1, -1, 4, -1),
            data_end=(-1, 8, -1, -1),
            members=("m0", "m1"),
            member_racks=("a", None),
            owner=(0, 1, -1, 0),
            local=(True, False, None, None),
        ),
    )
    yield "lag", SpeedRecord(group="g", at=1, members={"m0": MemberSpeed(speed=10.0, sure=0.5)})
    yield "triggers", skew_trigger(at=100_000)
    yield "triggers", racks_trigger(at=100_000)
    yield "metadata", BrokerRecord(broker=1, at=100_000, rack="a", online=True)
    yield "metadata", offsets("t", (9, 9, 9, 9), at=100_000)
    yield "control", request(at=100_000)
    for kind in get_args(LeverKind):
        subject = SUBJECTS.get(kind, NO_SUBJECT)
        yield "control", lever(kind, subject, SETTINGS.get(kind), at=100_000)
    target = {"m0": {"t": (0, 1)}, "m1": {"t": (2, 3), "u": (0, 1)}}
    yield "control", proposal(target, at=100_000, strategy="lag", after={"skew": 1.0})
    yield "assignments", plan()
    yield "assignments", PlannerRecord(planner_epoch=1, instance="d0", started_at=1)
    yield (
        "assignments",
        ProxyRecord(group="g", at=100_000, planner_epoch=1, standing="leading", reason=""),
    )


def _cut(written: Sequence[tuple[TopicKind, Record]]) -> Iterator[tuple[TopicKind, Record]]:
    """Shards of a plan and of an assignment, and the heads that name them."""
    planned = next(record for _, record in written if isinstance(record, GroupRecord))
    with patch.object(cutting, "WHOLE_BYTES", 1):
        parts = (*cutting.cut(planned), *cutting.cut(assignment("m0", {"t": (0, 1)})))
    shards, reference = cutting.cut_assignments("g", 1, {"m0": {"t": (0, 1)}, "m1": {"t": (2, 3)}})
    for part in (*parts, *shards, replace(planned, mode="proxy", assignments=reference)):
        yield "assignments", part

"""All records of levelwind's topics, and their bytes.

`encode` writes a record in its one canonical form. `decode` never raises: a malformed message is a
`Rejection`, a value that its reader counts, logs and keeps. A tombstone ends what its key names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Struct

from levelwind.assignors.protocol import canonical_json
from levelwind.assignors.protocol.declared.declaration import canonical, declaration_of, written
from levelwind.assignors.protocol.declared.fields import Key
from levelwind.assignors.protocol.partition_ranges import Partitions, WireError
from levelwind.assignors.protocol.records.copied import ReplayRecord
from levelwind.assignors.protocol.records.cut import CutRecord, TextShard
from levelwind.assignors.protocol.records.member import (
    CanaryRecord,
    MemberRecord,
    MemberState,
    Nack,
)
from levelwind.assignors.protocol.records.metadata import (
    BrokerRecord,
    OffsetsRecord,
    TopicRecord,
)
from levelwind.assignors.protocol.records.operators.decision_part import DecisionPart, Outcome
from levelwind.assignors.protocol.records.operators.lever import (
    ALL_GROUPS,
    NO_SUBJECT,
    LeverKind,
    LeverRecord,
)
from levelwind.assignors.protocol.records.operators.proposal import ProposalRecord
from levelwind.assignors.protocol.records.pipeline import (
    DeadLetter,
    EndKind,
    LagRecord,
    MemberSpeed,
    SpeedRecord,
)
from levelwind.assignors.protocol.records.pipeline_progress import PipelineRecord, PipelineState
from levelwind.assignors.protocol.records.planned_group import (
    CertifiedObjective,
    GroupRecord,
    Mode,
    PlanCertificate,
    PlannedCauseCooldown,
    PlannedCooldown,
    PlannedMember,
    PlannedRacks,
    PlannedTopic,
    Score,
    SpentMoves,
)
from levelwind.assignors.protocol.records.planner import (
    Action,
    AssignmentState,
    MemberAssignment,
    OperatorRecord,
    PlannerRecord,
    ProxyRecord,
)
from levelwind.assignors.protocol.records.shards import GroupShard, MemberShard, PlanShard
from levelwind.assignors.protocol.records.trigger import (
    MemberLoad,
    RackChange,
    RacksEvidence,
    SkewEvidence,
    TriggerKind,
    TriggerRecord,
)
from levelwind.assignors.protocol.topics import partition_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.topics import TopicKind

__all__ = [
    "ALL_GROUPS",
    "CUT_AS_TEXT",
    "KINDS",
    "NO_SUBJECT",
    "Action",
    "AssignmentState",
    "BrokerRecord",
    "CanaryRecord",
    "CertifiedObjective",
    "CutRecord",
    "DeadLetter",
    "DecisionPart",
    "EndKind",
    "GroupRecord",
    "GroupShard",
    "Key",
    "LagRecord",
    "LeverKind",
    "LeverRecord",
    "MemberAssignment",
    "MemberLoad",
    "MemberRecord",
    "MemberShard",
    "MemberSpeed",
    "MemberState",
    "Mode",
    "Nack",
    "OffsetsRecord",
    "OperatorRecord",
    "Outcome",
    "Partitions",
    "PipelineRecord",
    "PipelineState",
    "PlanCertificate",
    "PlanShard",
    "PlannedCauseCooldown",
    "PlannedCooldown",
    "PlannedMember",
    "PlannedRacks",
    "PlannedTopic",
    "PlannerRecord",
    "ProposalRecord",
    "ProxyRecord",
    "RackChange",
    "RacksEvidence",
    "Record",
    "Rejection",
    "ReplayRecord",
    "Score",
    "SkewEvidence",
    "SpeedRecord",
    "SpentMoves",
    "TextShard",
    "Tombstone",
    "TopicRecord",
    "TriggerKind",
    "TriggerRecord",
    "WireError",
    "decode",
    "encode",
    "encode_key",
    "epoch_of",
    "headers",
    "partition_key",
    "partitions_for",
]

Record: TypeAlias = (
    BrokerRecord
    | TopicRecord
    | OffsetsRecord
    | LagRecord
    | SpeedRecord
    | TriggerRecord
    | PipelineRecord
    | CutRecord
    | TextShard
    | DeadLetter
    | ReplayRecord
    | MemberRecord
    | CanaryRecord
    | PlannerRecord
    | ProxyRecord
    | GroupRecord
    | GroupShard
    | PlanShard
    | MemberAssignment
    | MemberShard
    | OperatorRecord
    | LeverRecord
    | ProposalRecord
    | DecisionPart
)


class Tombstone(Struct, frozen=True):
    """End of whatever the key names."""

    key: Key


class Rejection(Struct, frozen=True):
    """A message that is no record by the contract, and why."""

    reason: str
    other_version: bool = False
    """Whether the record is whole, but of a version `v` that this program does not read."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of record, and the kinds of its key's parts after the first word."""

    record: type[Record]
    parts: tuple[Literal["name", "number"], ...]

    @property
    def name(self) -> str:
        """The name of the kind."""
        return self.record.KIND


def _kind(record: type[Record]) -> _Kind:
    hints = get_type_hints(record)
    return _Kind(
        record, tuple("number" if hints.get(name) is int else "name" for name in record.KEY_FIELDS)
    )


def _cut_as_text(record: type[Record], word: str | None = None) -> dict[str, _Kind]:
    """A kind of records that are cut as text where they are too large, and that of its shards."""
    word, kind = word or str(record.WORD), _kind(record)
    parts = kind.parts if record.WORD else kind.parts[1:]
    return {word: _Kind(record, parts), f"{word}s": _Kind(TextShard, (*parts, "number"))}


def _by_word(*records: type[Record]) -> dict[str, _Kind]:
    return {str(record.WORD): _kind(record) for record in records}


# Kinds of records in each topic, by the first word of the key.
KINDS: Mapping[TopicKind, Mapping[str, _Kind]] = {
    "metadata": _by_word(BrokerRecord, TopicRecord, OffsetsRecord),
    "lag": {**_cut_as_text(LagRecord), **_cut_as_text(SpeedRecord)},
    "triggers": {
        **_cut_as_text(TriggerRecord, "racks"),
        **_cut_as_text(TriggerRecord, "skew"),
        **_by_word(PipelineRecord),
    },
    "members": _by_word(MemberRecord, CanaryRecord),
    "assignments": _by_word(
        PlannerRecord,
        ProxyRecord,
        GroupRecord,
        GroupShard,
        PlanShard,
        MemberAssignment,
        MemberShard,
    ),
    "control": _by_word(OperatorRecord, LeverRecord, ProposalRecord),
    "decisions": _by_word(DecisionPart),
}
CUT_AS_TEXT: tuple[TopicKind, ...] = ("lag", "triggers")
"""Topics whose records of a group are cut as text where they are too large for a message."""
# Topics whose keys are log positions: the topic, partition and offset of a copied record.
LOG_POSITION_KINDS: Mapping[TopicKind, _Kind] = {
    "dead_letters": _Kind(DeadLetter, ("number", "number")),
    "replays": _Kind(ReplayRecord, ("number", "number")),
}


def encode(record: Record) -> tuple[bytes, bytes]:
    """The key and value of a record; raises `WireError` if a text cannot be written as UTF-8."""
    return canonical(record.key), canonical(written(record))


def encode_key(key: Key) -> bytes:
    """The bytes of a key, for a tombstone or a comparison."""
    return canonical(key)


def decode(
    topic: TopicKind, key: bytes | None, value: bytes | None
) -> Record | Tombstone | Rejection:
    """Decode a message of one of levelwind's topics; value None is a tombstone."""
    try:
        kind, parts = _read_key(topic, key)
    except WireError as error:
        return Rejection(str(error))
    if value is None:
        return Tombstone(parts)
    try:
        return declaration_of(kind.record).read(parts, value)
    except WireError as error:
        return _other_record(topic, kind, parts, value) or Rejection(str(error))


def _other_record(
    topic: TopicKind, kind: _Kind, key: Key, value: bytes
) -> CutRecord | Rejection | None:
    """The head of a cut record, or the refusal of another version; None for anything else."""
    try:
        v = _version(value).v
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if v == CutRecord.V and _may_be_cut(topic, key):
        try:
            return declaration_of(CutRecord).read(key, value)
        except WireError as error:
            return Rejection(str(error))
    return None if v == kind.record.V else Rejection(_other_version(kind, v), other_version=True)


class _Versioned(Struct):
    """The field that every record has."""

    v: Annotated[int, msgspec.Meta(ge=0, le=canonical_json.MAX_INT64)]


_version = msgspec.json.Decoder(_Versioned).decode


def _may_be_cut(topic: TopicKind, key: Key) -> bool:
    """Whether the record with a key is cut as text where it is too large for a message."""
    return topic in CUT_AS_TEXT and f"{key[0]}s" in KINDS[topic]


def _other_version(kind: _Kind, v: int) -> str:
    remedy = (
        "upgrade this program"
        if v > kind.record.V
        else "upgrade the program that wrote the record; its next record replaces this one"
    )
    return f"unknown v {v} of {kind.name} records, this program reads v {kind.record.V}: {remedy}"


def _read_key(topic: TopicKind, raw: bytes | None) -> tuple[_Kind, Key]:
    if raw is None:
        raise WireError("no key")
    if (kind := LOG_POSITION_KINDS.get(topic)) is not None:
        return kind, _parse_key(topic, raw)
    key = _known_key(topic, raw)
    return KINDS[topic][str(key[0])], key


def _parse_key(topic: TopicKind, raw: bytes) -> Key:
    key: object = canonical_json.loads(raw)
    if not isinstance(key, list) or not key or type(key[0]) is not str:
        raise WireError(
            f"key: expected a list that begins with a text, got {canonical_json.show(key)}"
        )
    kind = LOG_POSITION_KINDS.get(topic) or KINDS.get(topic, {}).get(key[0])
    if kind is None:
        raise WireError(f"key: unknown kind {canonical_json.show(key[0])}")
    if len(key) != 1 + len(kind.parts):
        raise WireError(f"key: expected {1 + len(kind.parts)} parts, got {len(key)}")
    for part, expected in zip(key[1:], kind.parts, strict=True):
        fits = (
            (type(part) is str and part)
            if expected == "name"
            else (type(part) is int and part >= 0)
        )
        if not fits or (type(part) is int and part > canonical_json.MAX_INT64):
            raise WireError(f"key: expected a {expected}, got {canonical_json.show(part)}")
    return tuple(key)


_known_key = lru_cache(maxsize=65_536)(_parse_key)
"""Keys that come again and again: all but positions in a log."""


def partition_key(key: Key) -> str | None:
    """The name that decides the partition of a key's records (see `topics.partition_for`).

    None for records that every partition has, such as the planner's own. The pipeline's own record
    is in one partition alone.
    """
    if len(key) > 1:
        return str(key[1])
    return PipelineRecord.KIND if key == PipelineRecord.KEY else None


def partitions_for(topic: TopicKind, key: Key, count: int) -> tuple[int, ...]:
    """The partitions, of `count`, that the records of a key are written to.

    That is one partition, but all of them for the planner's own record and its canary, which each
    reader of a partition needs. A dead letter and a replay go by their whole key, all other records
    by their partition key.
    """
    name = encode_key(key).decode() if topic in LOG_POSITION_KINDS else partition_key(key)
    return tuple(range(count)) if name is None else (partition_for(name, count),)


def epoch_of(record: Record) -> int | None:
    """The epoch that the header of a record names: the one that grows with the record."""
    match record:
        case MemberAssignment():
            return record.member_epoch
        case GroupRecord() | PlanShard():
            return record.group_epoch
        case MemberRecord():
            return record.acked_epoch
        case PlannerRecord() | CanaryRecord():
            return record.planner_epoch
        case _:
            return None


def headers(record: Record, *, epoch: int | None = None) -> list[tuple[str, bytes]]:
    """Kafka headers of a record: its schema, its content type and its epoch, if it has one."""
    pairs = [
        ("schema", f"{record.KIND}/{record.V}".encode()),
        ("content-type", b"application/json"),
    ]
    return pairs if epoch is None else [*pairs, ("epoch", str(epoch).encode())]

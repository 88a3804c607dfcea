"""Levers: what an operator has set beside the configuration file, until it is released."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

from levelwind.assignors.protocol.json_fields import LATEST_MS, show
from levelwind.assignors.protocol.partition_ranges import WireError, parse_number

if TYPE_CHECKING:
    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key

LeverKind: TypeAlias = Literal["pause", "pin", "drain", "evacuate", "strategy"]
LEVER_KINDS: tuple[LeverKind, ...] = get_args(LeverKind)

ALL_GROUPS = "*"
"""The group of a lever that holds for every group."""
NO_SUBJECT = "*"
"""The subject of a lever that has none but its group."""


def is_partition(text: str) -> bool:
    """Whether a text is `TOPIC/N`, with the number of a partition as everybody writes it."""
    topic, _, number = text.rpartition("/")
    try:
        parse_number(number)
    except WireError:
        return False
    return bool(topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverRecord:
    """One lever in force; the tombstone of its key releases it."""

    KIND: ClassVar = "lever"
    V: ClassVar = 1

    group: str
    """The group; `ALL_GROUPS` for every group."""
    kind: LeverKind
    subject: str
    """What the lever acts on: a partition as `TOPIC/N` (pin), a member (drain), a rack (evacuate);
    else `NO_SUBJECT`."""
    at: int
    """When the operator set it, in milliseconds since the epoch."""
    by: str
    """The operator: user and host, or the name of a token."""
    reason: str
    """The operator's reason, as free text."""
    setting: str | None = None
    """The member of a pin, or the name of a strategy; None for the other kinds."""

    @property
    def key(self) -> Key:
        return ("lever", self.group, self.kind, self.subject)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "by": self.by,
            "reason": self.reason,
            "setting": self.setting,
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> LeverRecord:
        _, group, kind, subject = map(str, key)
        if kind not in LEVER_KINDS:
            raise WireError(f"key: unknown lever {show(kind)}")
        if kind == "pin" and not is_partition(subject):
            raise WireError(f"key: expected TOPIC/NUMBER, got {show(subject)}")
        return cls(
            group=group,
            kind=kind,
            subject=subject,
            at=fields.integer("at", high=LATEST_MS),
            by=fields.text("by", empty=True),
            reason=fields.text("reason", empty=True),
            setting=fields.text("setting")
            if kind in {"pin", "strategy"}
            else fields.optional_text("setting"),
        )

    def as_json(self) -> dict[str, object]:
        """What an operator reads of the lever."""
        return {
            "group": self.group,
            "kind": self.kind,
            "subject": None if self.subject == NO_SUBJECT else self.subject,
            "setting": self.setting,
            "at": self.at,
            "by": self.by,
            "reason": self.reason,
        }

"""Levers: what an operator has set beside the configuration file, until it is released."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Name, Time
from levelwind.assignors.protocol.partition_ranges import WireError, parse_partition

LeverKind: TypeAlias = Literal["pause", "pin", "drain", "evacuate", "strategy"]

ALL_GROUPS = "*"
"""The group of a lever that holds for every group."""
NO_SUBJECT = "*"
"""The subject of a lever that has none but its group."""


class LeverRecord(Declared, frozen=True, kw_only=True):
    """One lever in force; the tombstone of its key releases it."""

    KIND: ClassVar = "lever"
    KEY_FIELDS: ClassVar = ("group", "kind", "subject")

    group: Name
    """The group; `ALL_GROUPS` for every group."""
    kind: LeverKind
    subject: Name
    """What the lever acts on: a partition as `TOPIC/N` (pin), a member (drain), a rack (evacuate);
    else `NO_SUBJECT`."""
    at: Time
    """When the operator set it, in milliseconds since the epoch."""
    by: str
    """The operator: user and host, or the name of a token."""
    reason: str
    """The operator's reason, as free text."""
    setting: Name | None
    """The member of a pin, or the name of a strategy; None for the other kinds."""

    def check(self) -> None:
        """Raise `WireError` unless the lever has what its kind needs."""
        if self.kind == "pin":
            parse_partition(self.subject)
        if self.kind in {"pin", "strategy"} and self.setting is None:
            raise WireError(f"setting: a {self.kind} needs a name")

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

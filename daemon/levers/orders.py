"""Orders: what an operator asks for, by one name for each, and who asks.

Guarantees: an order that was made is whole; whether it fits the cluster is for
`levelwind.daemon.levers.acting` to find out.
"""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records import ALL_GROUPS, NO_SUBJECT, LeverRecord, Tombstone
from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records import LeverKind, Record
    from levelwind.assignors.protocol.topics import TopicKind

    Records: TypeAlias = Sequence[tuple[TopicKind, Record | Tombstone]]
    """Records of levelwind's topics, in the order of each partition's log."""

OrderAction: TypeAlias = Literal[
    "pause",
    "resume",
    "pin",
    "unpin",
    "drain",
    "undrain",
    "evacuate",
    "return",
    "strategy",
    "rebalance",
    "apply",
    "rollback",
    "approve",
]
ORDER_ACTIONS: tuple[OrderAction, ...] = get_args(OrderAction)

OPTION_OF = {"pin": "pins", "drain": "drain", "evacuate": "evacuate"}
"""The option of a strategy that a lever sets, by its kind; `strategy` and `pause` set none."""
RELEASES: Mapping[str, LeverKind] = {
    "resume": "pause",
    "unpin": "pin",
    "undrain": "drain",
    "return": "evacuate",
}
"""The lever that an order releases, by action; `strategy` without a value releases its own."""
WITH_SUBJECT = frozenset(
    {"pin", "unpin", "drain", "undrain", "evacuate", "return", "rollback", "approve"}
)
FOR_ALL = frozenset({"pause", "resume", "drain", "undrain", "evacuate", "return"})
"""Actions that may be about all groups at once."""


class OrderError(ConfigurationError):
    """An order is not whole, or does not fit the group; the text says how to correct it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Who gives an order."""

    name: str
    """User and host, or the name of a token of the API."""

    @classmethod
    def of_command_line(cls) -> Operator:
        """The user of this process, and its host."""
        name = f"{user_name()}@{socket.gethostname()}"
        return cls(name=name.encode(errors="backslashreplace").decode())  # may be no UTF-8


def user_name() -> str:
    """Name of the user that runs the command; the user id in a container without user names."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOrder:
    """One order; raises `OrderError` if it is not whole."""

    action: OrderAction
    group: str
    """The group; `*` for all of them, where the action allows it."""
    subject: str = ""
    """What the order is about: `TOPIC/N` (pin, unpin), a member (drain, undrain), a rack
    (evacuate, return), a plan (rollback, approve); else empty."""
    value: str = ""
    """The member of a pin; the name of a strategy, empty for the one of the file; else empty."""
    target: Mapping[str, Partitions] | None = field(default=None, hash=False)
    """The assignment to apply: by member and topic; None for every other action."""

    def __post_init__(self) -> None:
        if self.action not in ORDER_ACTIONS:
            raise OrderError(
                f"action {self.action!r} is unknown; there are {', '.join(ORDER_ACTIONS)}"
            )
        if not self.group:
            raise OrderError(f"{self.action}: name a group")
        if self.group == ALL_GROUPS and self.action not in FOR_ALL:
            raise OrderError(f"{self.action}: one group at a time, not {ALL_GROUPS}")
        if bool(self.subject) is not (self.action in WITH_SUBJECT):
            needs = "name what it is about" if not self.subject else "it has no subject"
            raise OrderError(f"{self.action}: {needs}")
        if self.action in {"pin", "unpin"}:
            try:
                ranges.parse_partition(self.subject)
            except WireError as error:
                raise OrderError(str(error)) from None
        if bool(self.value) is not (self.action == "pin") and self.action != "strategy":
            raise OrderError(
                f"{self.action}: {'name the member' if not self.value else 'it takes no value'}"
            )
        if (self.target is not None) is not (self.action == "apply"):
            raise OrderError(
                f"{self.action}: {'it takes no target' if self.target else 'give the assignment'}"
            )

    def lever(self, operator: Operator, at: int, reason: str) -> LeverRecord | Tombstone | None:
        """Return the record that sets or releases the order's lever; None if it has none."""
        if self.action in RELEASES or (self.action == "strategy" and not self.value):
            kind = RELEASES.get(self.action, "strategy")
            return Tombstone((LeverRecord.KIND, self.group, kind, self.subject or NO_SUBJECT))
        match self.action:
            case "pause" | "pin" | "drain" | "evacuate" | "strategy" as kind:
                return LeverRecord(
                    group=self.group,
                    kind=kind,
                    subject=self.subject or NO_SUBJECT,
                    at=at,
                    by=operator.name,
                    reason=reason,
                    setting=self.value or None,
                )
            case _:
                return None

    def as_json(self) -> dict[str, Any]:
        """Return the order as the API takes it."""
        return {
            "action": self.action,
            "group": self.group,
            "subject": self.subject,
            "value": self.value,
            "target": None
            if self.target is None
            else {member: ranges.texts(share) for member, share in self.target.items()},
        }


def parse_target(fields: Any) -> dict[str, Partitions]:
    """Read `{member: {topic: ranges}}`; raises `OrderError` if it is none."""
    if not isinstance(fields, dict) or not fields:
        raise OrderError("target: give the partitions of each member, by topic, as ranges")
    target: dict[str, Partitions] = {}
    for member, share in fields.items():
        if not isinstance(share, dict) or not all(isinstance(t, str) for t in share.values()):
            raise OrderError(f"target: member {member!r} needs ranges by topic, as in 0-3,7")
        try:
            target[member] = {topic: ranges.parse(text) for topic, text in share.items()}
        except WireError as error:
            raise OrderError(f"target: member {member!r}: {error}") from error
    return target

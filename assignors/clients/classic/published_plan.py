"""Published plan of a group, as a leader applies it, and the source that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.assignors.protocol.partition_ranges import Partitions


class PlanEpoch(NamedTuple):
    """Order of plans: a later plan has a higher pair."""

    planner_epoch: int
    group_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPlan:
    """The assignment of a plan, whole."""

    epoch: PlanEpoch
    assignments: Mapping[str, Partitions]
    """Partitions by member: its `group.instance.id`, or its member id if it has none."""


class PlanSource(Protocol):
    """Source of a group's newest plan, for one member."""

    def follow(self, notify: Callable[[], None]) -> None:
        """Begin to read; call a function, from any thread, when the newest plan has changed.

        The source holds the function weakly where it is a method.
        """

    def newest(self, timeout: float) -> PublishedPlan | None:
        """The newest plan; None without any.

        Args:
            timeout: seconds to wait for the source to have read everything once.
        """

"""Messages between the application's thread and the follower's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from levelwind.assignors.clients.confluent.committing.deadline import Deadline
    from levelwind.assignors.handover import member_events as ev


class Order(NamedTuple):
    """Something that the application's thread has to do."""

    effect: ev.Grant | ev.Revoke | ev.Lose
    epochs: tuple[int, int]
    """(planner_epoch, member_epoch) of the record that is being applied."""


class UndecidedRevocation(NamedTuple):
    """A revocation that ends for the member once its commit can no longer arrive."""

    incarnation: str
    until: Deadline

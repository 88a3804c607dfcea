"""Mutants for a chaos run: the real code with a rule left out, which the check must find."""

from collections.abc import Callable

from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
from levelwind.assignors.handover.holding import Holding
from levelwind.assignors.handover.lease import NEVER, Lease
from levelwind.assignors.handover.timers import Timers


def _go_on_without_lease() -> None:
    Lease.valid = Lease.deliverable = lambda lease, _: lease.until > NEVER  # type: ignore[method-assign, assignment]
    Lease.remaining = lambda lease, _: lease.hold  # type: ignore[method-assign, assignment]


def _deliver_without_lease() -> None:
    owning = property(lambda follower: not follower.lost.is_set())
    AssignmentFollower.may_deliver = owning  # type: ignore[method-assign, assignment]
    AssignmentFollower.lease_is_valid = owning  # type: ignore[method-assign, assignment]


def _grant_at_once() -> None:
    Timers.grant_for = lambda *_, **__: 0.0  # type: ignore[method-assign, assignment]
    Holding.silence_confirmed = lambda *_: True  # type: ignore[method-assign, assignment]


MUTANTS: dict[str, Callable[[], None]] = {
    "no lease": _go_on_without_lease,
    "no lease asked before a delivery": _deliver_without_lease,
    "no wait before a grant": _grant_at_once,
}
"""Rules that are left out, by name: a lease never ends; the application's thread leaves it to the
member's thread to look at the clock; the planner grants an evicted member's partitions as soon as
it reads the eviction."""


def mutate(name: str) -> None:
    """Leave a rule out, in this process."""
    MUTANTS[name]()

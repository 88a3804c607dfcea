"""Work budget: how much more a plan may be refined.

Guarantees: seconds are converted into work that is counted alike on every machine, so a plan does
not depend on how busy a machine is; the clock only matters where a machine takes several times as
long. In either case `exhausted` reports it. What a complete plan needs is always done: the budget
limits refinement alone.
"""

from dataclasses import dataclass
from time import perf_counter

PAIRS_PER_SECOND = 60_000_000
"""Pairs of candidates that one second of the budget stands for."""
WALL_CLOCK_FACTOR = 5
"""Multiple of the budget's seconds that may really pass."""
CALL_PAIRS = 5_000
"""Cost of one call in pairs, however few pairs it compares."""


@dataclass(slots=True)
class WorkBudget:
    """The remaining work and time."""

    seconds: float
    """Seconds that may pass from the first call on."""
    remaining_pairs: int
    """Pairs that may still be compared; below 0 once the budget is overdrawn."""
    exhausted: bool = False
    """Something was left untried, by this budget or by a part of it."""
    deadline: float = 0.0
    """Performance counter, in seconds, at which time is up; 0 before the first call."""
    parent: "WorkBudget | None" = None
    """The budget of which this one is a part; None if it is whole."""

    @classmethod
    def of_seconds(cls, seconds: float) -> "WorkBudget":
        """The work that corresponds to a time."""
        return cls(
            seconds=seconds * WALL_CLOCK_FACTOR, remaining_pairs=int(seconds * PAIRS_PER_SECOND)
        )

    def spend(self, pairs: int) -> bool:
        """Take some pairs from the budget; return False if none was left."""
        now = perf_counter()
        self.deadline = self.deadline or now + self.seconds
        more = self.remaining_pairs > 0 and now <= self.deadline
        self.remaining_pairs -= pairs + CALL_PAIRS
        if self.parent is not None:
            more = self.parent.spend(pairs) and more
        whole: WorkBudget | None = self
        while whole is not None and not more:
            whole.exhausted = True
            whole = whole.parent
        return more

    def half(self) -> "WorkBudget":
        """At most half of what is left, for a first step.

        What that step leaves stays available to the rest.
        """
        return WorkBudget(self.seconds / 2, self.remaining_pairs // 2, parent=self)

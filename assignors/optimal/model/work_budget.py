"""How much more a plan may be refined.

Law: seconds are turned into work, counted the same on every machine, so that a plan does not depend on how busy one is; the
clock only comes in where a machine takes several times as long. Either way it is said. What must be done for a whole plan is
never cut: the time is that of refinement alone.
"""

from dataclasses import dataclass
from time import perf_counter

WORK = 60_000_000  # pairs looked at in a second
PATIENCE = 5  # times the seconds that this may really take
STEP = 5_000  # what one look costs however little it looks at


@dataclass(slots=True)
class WorkBudget:
    """What is left of the work and of the time."""

    seconds: float
    left: int
    spent: bool = False  # something was left untried, by it or by a part of it
    until: float = 0.0  # from the first look on
    whole: "WorkBudget | None" = None

    @classmethod
    def of(cls, seconds: float) -> "WorkBudget":
        """The work of so much time."""
        return cls(seconds=seconds * PATIENCE, left=int(seconds * WORK))

    def spend(self, pairs: int) -> bool:
        """Take so much of it; False: there is none left."""
        now = perf_counter()
        self.until = self.until or now + self.seconds
        more = self.left > 0 and now <= self.until
        self.left -= pairs + STEP
        if self.whole is not None:
            more = self.whole.spend(pairs) and more
            self.whole.spent |= not more
        self.spent |= not more
        return more

    def half(self) -> "WorkBudget":
        """At most a half of what is left, for what comes first; what that leaves is there for the rest."""
        return WorkBudget(self.seconds / 2, self.left // 2, whole=self)

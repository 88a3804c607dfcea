"""How much more a plan may be refined.

Law: the limit is work, counted the same on every machine; the clock only comes in where a machine is so slow that its time is
up first. Either way it is said. What must be done for a whole plan is never cut, so the time is that of refinement alone.
"""

from dataclasses import dataclass, field
from time import perf_counter

WORK = 30_000_000  # pairs looked at; about a second
STEP = 3_000  # what one look costs however little it looks at


@dataclass(slots=True)
class Effort:
    """What is left of the work and of the time."""

    seconds: float
    left: int = WORK
    spent: bool = False  # something was left untried
    until: float = field(default=0.0)

    def spend(self, pairs: int) -> bool:
        """Take so much of it; False: there is none left."""
        now = perf_counter()
        if not self.until:
            self.until = now + self.seconds
        self.spent = self.spent or self.left <= 0 or now > self.until
        self.left -= pairs + STEP
        return not self.spent

    def shared(self) -> tuple["Effort", "Effort"]:
        """The half of it for what comes first, and the other half."""
        return Effort(self.seconds / 2, self.left // 2), Effort(self.seconds / 2, self.left // 2)

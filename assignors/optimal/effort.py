"""How much more a plan may be refined.

Law: the limit is work, counted the same on every machine; the clock only comes in where a machine is so slow that its time is
up first, and then it is said.
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
    late: bool = False  # the time was up before the work was done
    begun: float = field(default_factory=perf_counter)

    def spend(self, pairs: int) -> bool:
        """Take so much of it; False: there is none left."""
        if self.left <= 0 or self.late:
            return False
        self.left -= pairs + STEP
        self.late = perf_counter() - self.begun > self.seconds
        return not self.late

"""Work budget: how much more a plan may be refined.

Guarantees: seconds are converted into work that is counted alike on every machine, so a plan does
not depend on how busy a machine is; the clock only matters where a machine takes several times as
long. In either case `exhausted` reports it. Where the clock cut is counted, too, so that a plan can
be made again with the same cuts. What a complete plan needs is always done: the budget limits
refinement alone.
"""

from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeAlias

PAIRS_PER_SECOND = 60_000_000
"""Pairs of candidates that one second of the budget stands for."""
WALL_CLOCK_FACTOR = 5
"""Multiple of the budget's seconds that may really pass."""
CALL_PAIRS = 5_000
"""Cost of one call in pairs, however few pairs it compares."""

ClockCuts: TypeAlias = tuple[tuple[int, int], ...]
"""Where the clock cut a search: the number of a budget, in the order in which they were made, and
that of its first call that found time up while work was left."""


@dataclass(slots=True)
class CountedCuts:
    """The cuts of a whole budget and its parts: noted as the clock makes them, or repeated."""

    repeated: dict[int, int] | None = None
    """First call of each budget that finds time up, whatever the clock shows; None: the clock
    decides."""
    noted: dict[int, int] = field(default_factory=dict)
    """First call of each budget that found time up while work was left."""
    budgets: int = 0
    """Number of budgets made so far."""


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
    calls: int = 0
    """Calls of `spend` so far."""
    cuts: CountedCuts = field(default_factory=CountedCuts)
    """The cuts of the whole budget, which its parts share."""
    number: int = field(init=False)
    """Number of this budget among the whole one and its parts: 0 is the whole one."""

    def __post_init__(self) -> None:
        """Count this budget."""
        self.number = self.cuts.budgets
        self.cuts.budgets += 1

    @classmethod
    def of_seconds(cls, seconds: float, *, clock_cuts: ClockCuts | None = None) -> "WorkBudget":
        """The work that corresponds to a time.

        Args:
            seconds: the time.
            clock_cuts: where an earlier run was cut, for this one to be cut there and nowhere else;
                empty: it may take any time. None: the clock cuts.
        """
        return cls(
            seconds=seconds * WALL_CLOCK_FACTOR,
            remaining_pairs=int(seconds * PAIRS_PER_SECOND),
            cuts=CountedCuts(repeated=None if clock_cuts is None else dict(clock_cuts)),
        )

    @property
    def clock_cuts(self) -> ClockCuts:
        """Where the clock cut this budget and its parts; empty: runs do not differ."""
        return tuple(sorted(self.cuts.noted.items()))

    def spend(self, pairs: int) -> bool:
        """Take some pairs from the budget; return False if none was left."""
        late = self._is_late()
        more = self.remaining_pairs > 0 and not late
        if late and self.remaining_pairs > 0:
            self.cuts.noted.setdefault(self.number, self.calls)
        self.calls += 1
        self.remaining_pairs -= pairs + CALL_PAIRS
        if self.parent is not None:
            more = self.parent.spend(pairs) and more
        whole: WorkBudget | None = self
        while whole is not None and not more:
            whole.exhausted = True
            whole = whole.parent
        return more

    def _is_late(self) -> bool:
        repeated = self.cuts.repeated
        if repeated is not None:
            return self.number in repeated and self.calls >= repeated[self.number]
        now = perf_counter()
        self.deadline = self.deadline or now + self.seconds
        return now > self.deadline

    def half(self) -> "WorkBudget":
        """At most half of what is left, for a first step.

        What that step leaves stays available to the rest.
        """
        return WorkBudget(self.seconds / 2, self.remaining_pairs // 2, parent=self, cuts=self.cuts)

"""Goals of levelwind by default, beside Kafka's best candidate of the same rounds. Pure.

A goal is judged where its rounds were played; Kafka's best is the least median of its candidates,
or the least figure of a seed where the goal is one of each seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from levelwind_testing.drain.drain_candidates import CANDIDATES

if TYPE_CHECKING:
    from levelwind_testing.drain.drain_report import ReplayFigures
    from levelwind_testing.drain.drain_round import RoundResult

OURS = "levelwind"
KAFKA = tuple(name for name, candidate in CANDIDATES.items() if candidate.mode is None)
FOLLOWERS = tuple(
    name for name, candidate in CANDIDATES.items() if candidate.mode not in (None, "managed")
)
"""Candidates whose members subscribe and follow plans all the same."""
STEADY_GROWTH = 5.0
"""Records a second by which a backlog may seem to grow, by the chance of the arrivals."""
SAME_SECONDS = 0.02
"""Difference of two delays that is none, whatever their ratio: the time of a few records."""

Figure: TypeAlias = Callable[["RoundResult"], "float | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalVerdict:
    """Whether a goal was reached."""

    scenario: str
    text: str
    reached: bool

    def __str__(self) -> str:
        return f"{self.scenario}: {self.text}: {'reached' if self.reached else 'MISSED'}"


def verdicts(results: Sequence[RoundResult]) -> list[GoalVerdict]:
    """Judge the goals of all scenarios that were played; rounds that do not count are left out."""
    valid = [result for result in results if result.load.bottleneck is None]
    found: list[GoalVerdict] = []
    for scenario, judge in JUDGES.items():
        rounds = [result for result in valid if result.key.scenario == scenario]
        if any(result.key.candidate == OURS for result in rounds):
            found += [
                GoalVerdict(scenario=scenario, text=text, reached=reached)
                for text, reached in judge(rounds)
            ]
    return found


def replay_verdicts(figures: ReplayFigures) -> list[GoalVerdict]:
    """Judge the replay of ten times the backlog."""
    drain = figures.drain_over_ideal or float("inf")
    return [
        GoalVerdict(
            scenario="S1x10", text=f"replayed drain {drain:.3f} <= 1.05", reached=drain <= 1.05
        ),
        GoalVerdict(
            scenario="S1x10",
            text=f"replayed plans {figures.plans} <= 3",
            reached=figures.plans <= 3,
        ),
    ]


def _of(rounds: Sequence[RoundResult], candidate: str, figure: Figure) -> float:
    """The median of a candidate; infinite if it has none."""
    values = [figure(r) for r in rounds if r.key.candidate == candidate]
    present = [value for value in values if value is not None]
    return median(present) if present else float("inf")


def _best_of_kafka(rounds: Sequence[RoundResult], figure: Figure) -> float:
    return min((_of(rounds, name, figure) for name in KAFKA), default=float("inf"))


def _by_seed(rounds: Sequence[RoundResult]) -> list[list[RoundResult]]:
    seeds = sorted({r.key.seed for r in rounds})
    return [[r for r in rounds if r.key.seed == seed] for seed in seeds]


def _drain(result: RoundResult) -> float | None:
    return result.figures.drain_over_ideal


def _p99(result: RoundResult) -> float:
    return result.figures.p99


def _s1(rounds: Sequence[RoundResult]) -> list[tuple[str, bool]]:
    ours, best = _of(rounds, OURS, _drain), _best_of_kafka(rounds, _drain)
    first = _of(rounds, OURS, lambda result: result.figures.first_move)
    played = {result.key.candidate for result in rounds}
    others = [(name, _of(rounds, name, _drain)) for name in FOLLOWERS if name in played]
    return [
        (f"drain {ours:.2f} <= 1.15 x ideal", ours <= 1.15),
        (f"drain {ours:.2f} <= half of Kafka's best {best:.2f}", ours <= best / 2),
        (f"first moves after {first:.1f} s <= 8 s", first <= 8),
        *(
            (f"{name} drain {drain:.2f} within 10 % of {ours:.2f}", drain <= 1.1 * ours)
            for name, drain in others
        ),
    ]


def _s1n(rounds: Sequence[RoundResult]) -> list[tuple[str, bool]]:
    ours = _of(rounds, OURS, _drain)
    ratios = [_of(r, OURS, _drain) / _best_of_kafka(r, _drain) for r in _by_seed(rounds)]
    worst = max(ratios)
    return [
        (f"drain {ours:.2f} <= 1.10 x ideal", ours <= 1.10),
        (f"at most {worst:.2f} of Kafka's best in any seed, <= 1.03", worst <= 1.03),
    ]


def _s2(rounds: Sequence[RoundResult]) -> list[tuple[str, bool]]:
    most = max(r.figures.utilisation for r in rounds if r.key.candidate == OURS)
    pairs = [(_of(r, OURS, _p99), _best_of_kafka(r, _p99)) for r in _by_seed(rounds)]
    ours, best = median(a for a, _ in pairs), median(b for _, b in pairs)
    worst = max(a / b for a, b in pairs)
    return [
        (f"utilisation {most:.2f} <= 0.8 of every member", most <= 0.8),
        (f"p99 at most {worst:.2f} of Kafka's best in any seed", worst <= 1),
        (f"p99 {ours:.2f} s <= half of Kafka's best {best:.2f} s", ours <= best / 2),
    ]


def _s3(rounds: Sequence[RoundResult]) -> list[tuple[str, bool]]:
    plans = max(r.plans or 0 for r in rounds if r.key.candidate == OURS)
    ours, kafka = _of(rounds, OURS, _p99), _of(rounds, "cooperative-sticky", _p99)
    return [
        (f"{plans} plans after the first", plans == 0),
        (
            f"p99 {ours:.3f} s within 5 % of cooperative-sticky's {kafka:.3f} s",
            ours <= max(1.05 * kafka, kafka + SAME_SECONDS),
        ),
    ]


def _s4(rounds: Sequence[RoundResult]) -> list[tuple[str, bool]]:
    growth = _of(rounds, OURS, lambda result: result.figures.growth)
    return [(f"backlog grows by {growth:+.0f}/s in the end", growth <= STEADY_GROWTH)]


def _s5(rounds: Sequence[RoundResult]) -> list[tuple[str, bool]]:
    ours = [r for r in rounds if r.key.candidate == OURS]
    plans, reports = max(r.plans or 0 for r in ours), min(r.unsplittable for r in ours)
    return [
        (f"{plans} plans <= 1", plans <= 1),
        (f"partition.unsplittable logged {reports} times", reports >= 1),
    ]


def _s6(rounds: Sequence[RoundResult]) -> list[tuple[str, bool]]:
    ours, best = _of(rounds, OURS, _p99), _best_of_kafka(rounds, _p99)
    return [(f"p99 {ours:.2f} s <= Kafka's best {best:.2f} s", ours <= best)]


JUDGES: dict[str, Callable[[Sequence[RoundResult]], list[tuple[str, bool]]]] = {
    "S1": _s1,
    "S1n": _s1n,
    "S2": _s2,
    "S3": _s3,
    "S4": _s4,
    "S5": _s5,
    "S6": _s6,
}

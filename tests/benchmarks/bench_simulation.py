"""A simulated day under `optimal` and under each baseline, with the same triggers.

    python tests/benchmarks/bench_simulation.py [--hours 24] [--others 4]
                                                [--scenarios day,steady,...] [--seeds 1,2]
                                                [--results FILE]

The scenario `day` runs in full, the others in part. `levelwind simulate` prints the same figures;
all but `plan ms` are the same on every machine. Below each table are the baselines that beat
`optimal` in a figure, with their values: the price of what `optimal` wins.

The goal is that no strategy has a shorter mean wait than `optimal` in any scenario and seed. Each
run ends with a verdict on it, and all runs with a summary. Waits that differ by less than a
millisecond are a tie: a hand-over's pause is a guess in whole seconds, and one partition of 100
records a second that pauses for one tick adds that much to the mean wait of a million records.

Beside a difference stand two standard errors of it, from the differences of the single hours: all
strategies get the same records, so what is left is by chance as much as by plan where one hour
outweighs the rest. They are there to judge a difference by, and make no tie of it.

With `--results`, runs are added to a file and those that it holds are not repeated, so that the
whole can run in parts, also at once: by scenario, seed or strategy. Such a file holds for the code
that wrote it. `--check` ends with status 1 if the goal is missed.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from levelwind.daemon.config.settings import load
from levelwind.daemon.console import bytes_text
from levelwind.daemon.simulation.command import SimulationRequest, run
from levelwind.daemon.simulation.results import StrategyFigures
from levelwind.daemon.simulation.scenario import SCENARIOS, Size

BASELINES = ("lag", "lag-global", "range", "sticky", "cooperative-sticky", "uniform", "roundrobin")
SUBJECT = "optimal"

TIE_SECONDS = 0.001
"""Difference of two mean waits that is a tie, whatever their ratio."""
HOUR_SECONDS = 3600.0
LEAST_HOURS = 4
"""Hours of a run from which they tell how much of a difference is chance."""

FIGURES: Mapping[str, tuple[Callable[[StrategyFigures], float], Callable[[float], str]]] = {
    "time above": (lambda row: row.above, lambda value: f"{value:.3%}"),
    "mean wait": (lambda row: row.wait, lambda value: f"{value:.2f} s"),
    "p99 lag": (lambda row: row.lag["p99"], lambda value: f"{value:,.0f}"),
    "cross-rack": (lambda row: row.cross_bytes, bytes_text),
    "moves": (lambda row: row.moves, lambda value: f"{value:,.0f}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchWorld:
    """What was played: one world."""

    scenario: str
    seed: int
    partitions: int
    members: int
    hours: float
    utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsByHour:
    """Waits of the records under one strategy."""

    mean: float
    """Mean seconds that a record waited."""
    by_hour: tuple[float, ...]
    """Its parts: what each hour adds to the mean."""

    @classmethod
    def of(cls, row: StrategyFigures, tick: float) -> "WaitsByHour":
        """The waits of one strategy's figures; `tick` in seconds."""
        ticks = round(HOUR_SECONDS / tick)
        hours = np.add.reduceat(row.course, np.arange(0, len(row.course), ticks))
        parts = hours * tick / max(row.processed, 1)
        return cls(mean=row.wait, by_hour=tuple(round(part, 9) for part in parts.tolist()))


Results = dict[BenchWorld, dict[str, WaitsByHour]]
"""Waits by strategy of each world that was played."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--hours", type=float, default=24.0, help="hours of the scenario `day`")
    parser.add_argument("--others", type=float, default=4.0, help="hours of each other scenario")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--utilisation", type=float, default=0.6)
    parser.add_argument("--strategies", default=",".join((SUBJECT, *BASELINES)))
    parser.add_argument("--results", type=Path, help="file to add runs to, a JSON object a line")
    parser.add_argument("--check", action="store_true", help="status 1 if the goal is missed")
    arguments = parser.parse_args()
    asked = tuple(arguments.strategies.split(","))
    results: Results = {}
    for scenario in arguments.scenarios.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            play = BenchWorld(
                scenario=scenario,
                seed=seed,
                partitions=arguments.partitions,
                members=arguments.members,
                hours=arguments.hours if scenario == "day" else arguments.others,
                utilisation=arguments.utilisation,
            )
            known = saved(arguments.results).get(play, {})
            missing = tuple(name for name in asked if name not in known)
            played = simulated(play, missing, arguments.results) if missing else {}
            results[play] = {**known, **played}
            print(verdict(play, results[play]), end="\n\n", flush=True)
    print(summary(results))
    if arguments.check and goal_missed(results):
        sys.exit(1)


def simulated(
    play: BenchWorld, strategies: Sequence[str], file: Path | None
) -> Mapping[str, WaitsByHour]:
    """Play one world with some strategies, print their figures, and add them to a file."""
    begun = perf_counter()
    size = Size(
        partitions=play.partitions,
        members=play.members,
        hours=play.hours,
        utilisation=play.utilisation,
    )
    asked = SimulationRequest(
        strategies=tuple(strategies), scenario=play.scenario, seed=play.seed, size=size
    )
    result = run(asked, load(), lambda _: None)
    waits = {row.strategy: WaitsByHour.of(row, result.world.tick) for row in result.rows}
    print(result.as_text(), end="")
    print(comparison(result.rows))
    print(f"({perf_counter() - begun:.0f} s)")
    if file is not None:
        lines = (
            json.dumps({**asdict(play), "strategy": name, **asdict(found)}) + "\n"
            for name, found in waits.items()
        )
        with file.open("a") as output:
            output.write("".join(lines))
    return waits


def saved(file: Path | None) -> Results:
    """The runs that a file holds; none if it does not exist yet."""
    results: Results = {}
    if file is None or not file.exists():
        return results
    for line in file.read_text().splitlines():
        fields = json.loads(line)
        name, mean, by_hour = (fields.pop(key) for key in ("strategy", "mean", "by_hour"))
        results.setdefault(BenchWorld(**fields), {})[name] = WaitsByHour(
            mean=mean, by_hour=tuple(by_hour)
        )
    return results


def lead(waits: Mapping[str, WaitsByHour]) -> tuple[str, float] | None:
    """Name the best of the others, and the seconds by which the mean wait of `optimal` is shorter.

    Negative where a strategy is better; None unless `optimal` and others ran.
    """
    others = {name: found.mean for name, found in waits.items() if name != SUBJECT}
    if SUBJECT not in waits or not others:
        return None
    best = min(others, key=others.__getitem__)
    return best, others[best] - waits[SUBJECT].mean


def chance(first: WaitsByHour, second: WaitsByHour) -> float | None:
    """Two standard errors of the difference of two mean waits; None where hours are too few."""
    if len(first.by_hour) < LEAST_HOURS:
        return None
    differences = np.subtract(first.by_hour, second.by_hour)
    return float(2 * differences.std(ddof=1) * np.sqrt(len(differences)))


def outcome(seconds: float) -> str:
    """Word for the seconds by which `optimal` leads."""
    if abs(seconds) < TIE_SECONDS:
        return "tie"
    return "ahead" if seconds > 0 else "BEHIND"


def verdict(play: BenchWorld, waits: Mapping[str, WaitsByHour]) -> str:
    """One line on the goal in one run, with the two shortest waits."""
    found = lead(waits)
    if found is None:
        return f"verdict {play.scenario} {play.seed}: nothing to compare {SUBJECT} with"
    best, seconds = found
    by_chance = chance(waits[SUBJECT], waits[best])
    return (
        f"verdict {play.scenario} {play.seed}: mean wait of {SUBJECT} {waits[SUBJECT].mean:.4f} s, "
        f"best of the others {waits[best].mean:.4f} s ({best}): {outcome(seconds)}"
        + ("" if by_chance is None else f", by {abs(seconds):.4f} ± {by_chance:.4f} s")
    )


def goal_missed(results: Results) -> bool:
    """Whether `optimal` is behind in any run."""
    return any(
        found is not None and outcome(found[1]) == "BEHIND" for found in map(lead, results.values())
    )


def summary(results: Results) -> str:
    """The mean wait in seconds of every run, and a summary of the verdicts."""
    names = tuple(dict.fromkeys(name for waits in results.values() for name in waits))
    lines = ["  ".join(["scenario", "seed", *(f"{name:>9}" for name in names), "best of others"])]
    for play, waits in results.items():
        cells = (
            f"{waits[name].mean:,.4f}".rjust(max(len(name), 9)) if name in waits else "-"
            for name in names
        )
        found = lead(waits)
        ending = "" if found is None else f"{found[0]}: {outcome(found[1])}"
        lines.append("  ".join([f"{play.scenario:8}", f"{play.seed:4}", *cells, ending]))
    return "\n".join([*lines, *scenarios_won(results), totals(results)])


def scenarios_won(results: Results) -> Iterable[str]:
    """Of each scenario and strategy, the mean lead of `optimal` over the seeds."""
    for scenario in dict.fromkeys(play.scenario for play in results):
        runs = [waits for play, waits in results.items() if play.scenario == scenario]
        names = dict.fromkeys(name for waits in runs for name in waits if name != SUBJECT)
        leads = {
            name: [
                waits[name].mean - waits[SUBJECT].mean
                for waits in runs
                if name in waits and SUBJECT in waits
            ]
            for name in names
        }
        compared = [name for name, seconds in leads.items() if seconds]
        if not compared:
            continue
        closest = min(compared, key=lambda name: sum(leads[name]) / len(leads[name]))
        seconds = np.array(leads[closest])
        spread = 2 * seconds.std(ddof=1) / np.sqrt(len(seconds)) if len(seconds) > 1 else np.nan
        yield (
            f"{scenario}: {closest} comes closest to {SUBJECT}, which leads it by"
            f" {seconds.mean():.4f} ± {spread:.4f} s (mean of {len(seconds)} runs)"
        )


def totals(results: Results) -> str:
    """How often `optimal` is ahead, and whether the goal is reached."""
    outcomes = {
        f"{play.scenario} {play.seed}": outcome(found[1])
        for play, waits in results.items()
        if (found := lead(waits)) is not None
    }
    behind = [name for name, word in outcomes.items() if word == "BEHIND"]
    ahead = list(outcomes.values()).count("ahead")
    return (
        f"{SUBJECT} is ahead in {ahead} of {len(outcomes)} runs, behind in {len(behind)}"
        + (f" ({', '.join(behind)})" if behind else "")
        + f", within {TIE_SECONDS * 1000:g} ms of the best in the others: "
        + ("goal MISSED" if behind else "goal reached")
    )


def comparison(rows: Sequence[StrategyFigures]) -> str:
    """The figures in which `optimal` is not the least, and the baselines that are nowhere worse."""
    subject = next((row for row in rows if row.strategy == SUBJECT), None)
    if subject is None:
        return f"{SUBJECT} did not run"
    others = [row for row in rows if row is not subject]
    lines = []
    for name, (of, shown) in FIGURES.items():
        better = [row for row in others if of(row) < of(subject)]
        if better:
            values = ", ".join(f"{row.strategy} {shown(of(row))}" for row in sorted(better, key=of))
            lines.append(f"{name}: {SUBJECT} {shown(of(subject))}, less under {values}")
    nowhere_worse = [
        row.strategy for row in others if all(of(row) <= of(subject) for of, _ in FIGURES.values())
    ]
    lines.append(f"no worse in all of these than {SUBJECT}: {', '.join(nowhere_worse) or 'none'}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

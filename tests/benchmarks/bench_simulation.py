"""A simulated day under `optimal` and under each baseline, with the same triggers.

    python tests/benchmarks/bench_simulation.py [--hours 24] [--others 4]
                                                [--scenarios day,steady,...] [--seeds 1,2]

The scenario `day` runs in full, the others in part. `levelwind simulate` prints the same figures;
all but `plan ms` are the same on every machine. Below each table are the baselines that beat
`optimal` in a figure, with their values: the price of what `optimal` wins.

The goal is that no strategy has a shorter mean wait than `optimal` in any scenario and seed. Each
run ends with a verdict on it, and all runs with a summary. Waits that differ by less than a
millisecond are a tie: a hand-over's pause is a guess in whole seconds, and one partition of 100
records a second that pauses for one tick adds that much to the mean wait of a million records.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from daemon.config.settings import load
from daemon.simulation.command import SimulationRequest, run
from daemon.simulation.results import StrategyFigures, in_bytes
from daemon.simulation.scenario import SCENARIOS, Size

BASELINES = ("lag", "lag-global", "range", "sticky", "cooperative-sticky", "uniform", "roundrobin")
SUBJECT = "optimal"

TIE_SECONDS = 0.001
"""Difference of two mean waits that is a tie, whatever their ratio."""

FIGURES: Mapping[str, tuple[Callable[[StrategyFigures], float], Callable[[float], str]]] = {
    "time above": (lambda row: row.above, lambda value: f"{value:.3%}"),
    "mean wait": (lambda row: row.wait, lambda value: f"{value:.2f} s"),
    "p99 lag": (lambda row: row.lag["p99"], lambda value: f"{value:,.0f}"),
    "cross-rack": (lambda row: row.cross_bytes, in_bytes),
    "moves": (lambda row: row.moves, lambda value: f"{value:,.0f}"),
}


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
    arguments = parser.parse_args()
    settings = load()
    waits: dict[tuple[str, int], Sequence[StrategyFigures]] = {}
    for scenario in arguments.scenarios.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            begun = perf_counter()
            size = Size(
                partitions=arguments.partitions,
                members=arguments.members,
                hours=arguments.hours if scenario == "day" else arguments.others,
                utilisation=arguments.utilisation,
            )
            asked = SimulationRequest(
                strategies=tuple(arguments.strategies.split(",")),
                scenario=scenario,
                seed=seed,
                size=size,
            )
            simulated = run(asked, settings, lambda _: None)
            waits[scenario, seed] = simulated.rows
            print(simulated.as_text(), end="")
            print(comparison(simulated.rows))
            print(verdict(scenario, seed, simulated.rows))
            print(f"({perf_counter() - begun:.0f} s)\n", flush=True)
    print(mean_waits(waits))


def lead(rows: Sequence[StrategyFigures]) -> float | None:
    """Seconds by which the mean wait of `optimal` is shorter than the shortest of the others.

    Negative where a strategy is better; None unless `optimal` and others ran.
    """
    wait = {row.strategy: row.wait for row in rows}
    subject = wait.pop(SUBJECT, None)
    return None if subject is None or not wait else min(wait.values()) - subject


def verdict(scenario: str, seed: int, rows: Sequence[StrategyFigures]) -> str:
    """One line on the goal in one run, with the two shortest waits."""
    ahead = lead(rows)
    if ahead is None:
        return f"verdict {scenario} {seed}: nothing to compare {SUBJECT} with"
    best = min((row for row in rows if row.strategy != SUBJECT), key=lambda row: row.wait)
    outcome = "tie" if abs(ahead) < TIE_SECONDS else "ahead" if ahead > 0 else "BEHIND"
    subject = best.wait - ahead
    return (
        f"verdict {scenario} {seed}: mean wait of {SUBJECT} {subject:.4f} s, "
        f"best of the others {best.wait:.4f} s ({best.strategy}): {outcome}"
    )


def mean_waits(waits: Mapping[tuple[str, int], Sequence[StrategyFigures]]) -> str:
    """The mean wait in seconds of every run, and a summary of the verdicts."""
    lines, ahead, behind = [], 0, []
    for (scenario, seed), rows in waits.items():
        lines.append(
            f"{scenario:8} {seed:4}  "
            + "  ".join(f"{row.strategy} {row.wait:,.4f}" for row in rows)
        )
        led = lead(rows) or 0.0
        ahead += led >= TIE_SECONDS
        if led <= -TIE_SECONDS:
            behind.append(f"{scenario} {seed}")
    lines.append(
        f"{SUBJECT} is ahead in {ahead} of {len(waits)} runs, behind in {len(behind)}"
        + (f" ({', '.join(behind)})" if behind else "")
        + f", within {TIE_SECONDS * 1000:g} ms of the best in the others: "
        + ("goal MISSED" if behind else "goal reached")
    )
    return "\n".join(lines)


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

"""A simulated day under `optimal` and under each baseline, with the same triggers.

    python tests/benchmarks/bench_simulation.py [--hours 24] [--others 4]
                                                [--scenarios day,steady,...] [--seeds 1,2]

The scenario `day` runs in full, the others in part. `levelwind simulate` prints the same figures;
all but `plan ms` are the same on every machine. Below each table are the baselines that beat
`optimal` in a figure, with their values: the price of what `optimal` wins. The last table has the
mean wait of every scenario and seed.
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
            print(f"({perf_counter() - begun:.0f} s)\n", flush=True)
    print(mean_waits(waits))


def mean_waits(waits: Mapping[tuple[str, int], Sequence[StrategyFigures]]) -> str:
    """The mean wait in seconds of every run, and where that of `optimal` is not the least.

    Waits are compared to the hundredth of a second.
    """
    lines, lost = [], []
    for (scenario, seed), rows in waits.items():
        shown = {row.strategy: round(row.wait, 2) for row in rows}
        lines.append(
            f"{scenario:8} {seed:4}  "
            + "  ".join(f"{strategy} {wait:,.2f}" for strategy, wait in shown.items())
        )
        if SUBJECT in shown and shown[SUBJECT] > min(shown.values()):
            lost.append(f"{scenario} {seed}")
    lines.append(f"less than {SUBJECT} in: {', '.join(lost) or 'none'}")
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

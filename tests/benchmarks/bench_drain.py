"""How soon a group is level again: Kafka's own assignors beside levelwind, on real brokers.

    python tests/benchmarks/bench_drain.py --replayed S7,S8 [--seeds 3]
    python tests/benchmarks/bench_drain.py [--scenario S1,S2] [--candidates range,levelwind]
        [--seeds 3] [--repeats 1] [--scale 0.5] [--together 2] [--minutes 8] [--results FILE]
        [--chart FILE.svg]

Three brokers in racks a, b and c, and the daemon with its pipeline under its default settings, run
for the whole time. Every round has topics and a group of its own, and six members; the rounds of
the candidates take turns. A round in which the machine was the bottleneck does not count, and is
played once more. With `--results` each round is added to a file, and what the file holds already
is not played again, so that a long run can be divided: `--minutes` ends it early. Shapes of the
scenarios: `tests/support/levelwind_testing/drain/drain_scenarios.py`. The simulation replays every
scenario, and its figures stand beside the measured ones. `--replayed` plays no round: it prints
what the simulation says of scenarios that are only replayed, for Kafka's `cooperative-sticky`,
levelwind, and levelwind with true rates, the ideal of what it learns from samples.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

from levelwind.daemon.cli.options import SettingsSource
from levelwind.deploy.cluster import Cluster
from levelwind.deploy.coordinator import assignor_jar

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.drain.drain_candidates import CANDIDATES
from levelwind_testing.drain.drain_chart import draw_rounds
from levelwind_testing.drain.drain_goals import OURS, replay_verdicts
from levelwind_testing.drain.drain_replay import replay
from levelwind_testing.drain.drain_report import ReplayFigures, replayed_table, report
from levelwind_testing.drain.drain_round import DrainRound, RoundKey, RoundResult
from levelwind_testing.drain.drain_scenarios import (
    ALL_SCENARIOS,
    CHANGING,
    LARGE_BURST,
    RACKS,
    SCENARIOS,
    DrainScenario,
)
from levelwind_testing.drain.machine_load import CpuSampler
from levelwind_testing.processes.daemon_process import DaemonProcess

LEAD_SECONDS = 120.0
BROKERS = {"group.consumer.assignors": "uniform,levelwind.coordinator.PlannedAssignor"}
"""Settings of the brokers; all else is as Kafka has it."""


def main() -> None:
    options = parsed()
    if options.replayed:
        chosen = {name: CHANGING[name] for name in names(options.replayed, CHANGING)}
        print(*replayed_table(chosen, only_replayed(chosen, options)), sep="\n")
        return
    scenarios = {
        name: ALL_SCENARIOS[name].scaled(options.scale)
        for name in names(options.scenario, ALL_SCENARIOS)
    }
    keys = round_keys(
        list(scenarios), names(options.candidates, CANDIDATES), options.seeds, options.repeats
    )
    results = read_results(options.results)
    if not options.report_only:
        played = {replace(r.key, attempt=0) for r in results}
        left = [key for key in keys if key not in played]
        results += play(left, scenarios, options)
    asked = set(keys)
    shown = [result for result in results if replace(result.key, attempt=0) in asked]
    replayed = replays(scenarios, shown, options.set)
    print(report(shown, replayed), end="")
    large = replay(
        LARGE_BURST, CANDIDATES[OURS], 1, SettingsSource(pairs=tuple(options.set)).read()
    )
    print(*replay_verdicts(large), sep="\n")
    if options.chart:
        draw_rounds(shown, replayed, options.chart)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--scenario", default=",".join(SCENARIOS), help=f"of {', '.join(ALL_SCENARIOS)}"
    )
    parser.add_argument("--replayed", help=f"of {', '.join(CHANGING)}; plays no round")
    parser.add_argument("--candidates", default="all", help=f"of {', '.join(CANDIDATES)}")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from 1 on")
    parser.add_argument("--repeats", type=int, default=1, help="rounds of each seed")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of bursts and times")
    parser.add_argument(
        "--attempts", type=int, default=2, help="plays of a round with a busy machine, at most"
    )
    parser.add_argument("--together", type=int, default=1, help="candidates that run at once")
    parser.add_argument("--minutes", type=float, help="begin no round after this time")
    parser.add_argument("--results", type=Path, help="file of the rounds, a JSON object a line")
    parser.add_argument("--chart", type=Path, help="draws the figures as FILE.svg or FILE.png")
    parser.add_argument("--report-only", action="store_true", help="play nothing")
    parser.add_argument("--set", action="append", default=[], help="a setting of the daemon")
    return parser.parse_args()


def names(text: str, known: Sequence[str]) -> list[str]:
    """The names of a list with commas, in the order in which they are known."""
    if text == "all":
        return list(known)
    listed = [name.strip() for name in text.split(",")]
    if wrong := set(listed) - set(known):
        sys.exit(f"unknown: {', '.join(sorted(wrong))}; there are {', '.join(known)}")
    return [name for name in known if name in listed]


def round_keys(
    scenarios: Sequence[str], candidates: Sequence[str], seeds: int, repeats: int
) -> list[RoundKey]:
    """All rounds; the candidates take turns."""
    return [
        RoundKey(scenario=scenario, candidate=candidate, seed=seed, repeat=repeat)
        for repeat, seed, scenario, candidate in product(
            range(1, repeats + 1), range(1, seeds + 1), scenarios, candidates
        )
    ]


def play(
    keys: Sequence[RoundKey], scenarios: dict[str, DrainScenario], options: argparse.Namespace
) -> list[RoundResult]:
    """Play rounds on brokers and a daemon that live as long."""
    results: list[RoundResult] = []
    if not keys:
        return results
    settings = [
        setting
        for key in keys
        for attempt in range(options.attempts)
        for setting in group_settings(replace(key, attempt=attempt))
    ]
    begun, writing = time.monotonic(), threading.Lock()
    with (
        tempfile.TemporaryDirectory() as directory,
        Cluster.start(racks=RACKS, settings=BROKERS, libraries=[jar(Path(directory))]) as cluster,
        CpuSampler() as sampler,
        ThreadPoolExecutor(options.together) as pool,
    ):
        daemon = DaemonProcess(cluster.bootstrap, Path(directory), *settings, *options.set)
        try:
            daemon.wait_for("lead", lambda: daemon.logged("daemon.leading"), LEAD_SECONDS)
            daemon.wait_for("pipeline", lambda: daemon.logged("pipeline.caught_up"), LEAD_SECONDS)

            def one(key: RoundKey) -> Iterator[RoundResult]:
                scenario = scenarios[key.scenario]
                for attempt in range(options.attempts):
                    this = replace(key, attempt=attempt)
                    result = DrainRound(
                        cluster.bootstrap, this, scenario, Path(directory), lambda: daemon.events
                    ).run(sampler)
                    with writing:  # at once: what is played survives the end of the run
                        write_results(options.results, [result])
                    yield result
                    if result.load.bottleneck is None:
                        return

            for begin in range(0, len(keys), options.together):
                if options.minutes and time.monotonic() - begun > 60 * options.minutes:
                    print("the time is over; run again for the other rounds", file=sys.stderr)
                    break
                for played in pool.map(
                    lambda key: list(one(key)), keys[begin : begin + options.together]
                ):
                    results += played
        finally:
            daemon.stop()
            if options.results:
                log = options.results.with_suffix(".daemon.log")
                with log.open("a") as file:
                    file.writelines(json.dumps(event) + "\n" for event in daemon.events)
    return results


def jar(directory: Path) -> Path:
    """The jar for the brokers, which groups of KIP-848 follow plans by."""
    return assignor_jar.build(directory, assignor_jar.own_version())


def group_settings(key: RoundKey) -> list[str]:
    """The daemon's settings of a round's group, as for `--set`."""
    candidate = CANDIDATES[key.candidate]
    if candidate.mode is None:
        return []
    return [
        f"groups.{key.group}.strategy={candidate.strategy}",
        f"groups.{key.group}.mode={candidate.mode}",
    ]


def only_replayed(
    scenarios: dict[str, DrainScenario], options: argparse.Namespace
) -> dict[tuple[str, str], list[ReplayFigures]]:
    """The simulation's figures of scenarios for Kafka, levelwind and the ideal, by seed."""
    settings = SettingsSource(pairs=tuple(options.set)).read()
    return {
        (name, label): [
            replay(scenario, CANDIDATES[candidate], seed, settings, true_rates=true_rates)
            for seed in range(1, options.seeds + 1)
        ]
        for name, scenario in scenarios.items()
        for label, candidate, true_rates in (
            ("cooperative-sticky", "cooperative-sticky", False),
            (OURS, OURS, False),
            (f"{OURS}, true rates", OURS, True),
        )
    }


def replays(
    scenarios: dict[str, DrainScenario], results: Sequence[RoundResult], pairs: Sequence[str]
) -> dict[tuple[str, str], list[ReplayFigures]]:
    """The simulation's figures, by scenario and candidate, of each seed that was played."""
    settings = SettingsSource(pairs=tuple(pairs)).read()
    played = sorted({(r.key.scenario, r.key.candidate, r.key.seed) for r in results})
    found: dict[tuple[str, str], list[ReplayFigures]] = {}
    for scenario, candidate, seed in played:
        figures = replay(scenarios[scenario], CANDIDATES[candidate], seed, settings)
        found.setdefault((scenario, candidate), []).append(figures)
    return found


def read_results(path: Path | None) -> list[RoundResult]:
    """Rounds of earlier runs."""
    if path is None or not path.exists():
        return []
    return [RoundResult.from_json(json.loads(line)) for line in path.read_text().splitlines()]


def write_results(path: Path | None, results: Sequence[RoundResult]) -> None:
    """Add rounds to the file, and show them in short."""
    for result in results:
        figures = result.figures
        drain = figures.drain_over_ideal
        print(
            f"{result.key.group}: "
            + (f"{drain:.2f} x ideal, " if drain is not None else "")
            + f"p99 {figures.p99:.2f} s, {figures.moves} moves; "
            + (result.load.bottleneck or f"CPU {result.load.cpu:.0%}"),
            file=sys.stderr,
            flush=True,
        )
    if path is not None:
        with path.open("a") as file:
            file.writelines(json.dumps(result.as_json()) + "\n" for result in results)


if __name__ == "__main__":
    main()

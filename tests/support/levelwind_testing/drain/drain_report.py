"""Tables of the rounds of `make bench-drain`: medians and spread, beside the replay's figures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from levelwind_testing.drain.drain_candidates import CANDIDATES
from levelwind_testing.drain.drain_goals import verdicts
from levelwind_testing.drain.drain_scenarios import ALL_SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from levelwind_testing.drain.drain_round import RoundResult
    from levelwind_testing.drain.drain_scenarios import DrainScenario

DIFFERS = 0.15
"""Share of the measured figure by which the replay's may differ before the report remarks it."""
LEAST_SECONDS = 1.0
"""Difference of two delays below which nothing is remarked: the replay knows no polling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFigures:
    """What the simulation says of a scenario and a candidate; None where it has no such figure."""

    drain_over_ideal: float | None
    first_move: float | None
    p99: float
    moves: int
    plans: int
    mean: float
    """Seconds that a record waits on average."""
    most_lag: int
    """The most records behind in the measured time."""
    others_drained: float
    """Seconds of the measured time from which less than a second of arrivals is behind, the first
    partition of the burst left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure of the table."""

    name: str
    value: Callable[[RoundResult], float | None]
    text: Callable[[float], str]


def _seconds(value: float) -> str:
    return "never" if value == float("inf") else f"{value:.2f}"


COLUMNS: Sequence[Column] = (
    Column(
        name="drain/ideal",
        value=lambda r: r.figures.drain_over_ideal,
        text=lambda value: "not" if value == float("inf") else f"{value:.2f}",
    ),
    Column(name="1st move", value=lambda r: r.figures.first_move, text=_seconds),
    Column(name="idle", value=lambda r: r.figures.idle, text="{:.0%}".format),
    Column(name="mean s", value=lambda r: r.figures.mean, text=_seconds),
    Column(name="p50 s", value=lambda r: r.figures.p50, text=_seconds),
    Column(name="p99 s", value=lambda r: r.figures.p99, text=_seconds),
    Column(name="max s", value=lambda r: r.figures.max, text=_seconds),
    Column(name="util", value=lambda r: r.figures.utilisation, text="{:.2f}".format),
    Column(name="most lag", value=lambda r: r.figures.most_lag, text="{:,.0f}".format),
    Column(name="others drained", value=lambda r: r.figures.others_drained, text="{:.0f}".format),
    Column(name="growth/s", value=lambda r: r.figures.growth, text="{:+.0f}".format),
    Column(
        name="other racks",  # kafka-python does not tell
        value=lambda r: r.remote_bytes / 1e6 if r.remote_bytes or r.local_bytes else None,
        text="{:.1f} MB".format,
    ),
    Column(name="moves", value=lambda r: r.figures.moves, text="{:.0f}".format),
    Column(name="plans", value=lambda r: r.plans, text="{:.0f}".format),
    Column(name="unsplit", value=lambda r: r.unsplittable, text="{:.0f}".format),
    Column(name="dup", value=lambda r: r.figures.duplicates, text="{:.0f}".format),
    Column(name="lost", value=lambda r: r.figures.lost, text="{:.0f}".format),
)


def spread_text(values: Sequence[float | None], text: Callable[[float], str]) -> str:
    """The median, and with several values the least and the largest; "-" without values."""
    present = [value for value in values if value is not None]
    if not present:
        return "-"
    middle = text(median(present))
    if len(present) == 1 or text(min(present)) == text(max(present)):
        return middle
    return f"{middle} ({text(min(present))} to {text(max(present))})"


def counted(results: Sequence[RoundResult]) -> list[RoundResult]:
    """The rounds in which the machine was not the bottleneck."""
    return [result for result in results if result.load.bottleneck is None]


def report(
    results: Sequence[RoundResult],
    replayed: Mapping[tuple[str, str], Sequence[ReplayFigures]],
) -> str:
    """The tables of all scenarios, with the replay's figures and the rounds that do not count."""
    by_scenario: dict[str, list[RoundResult]] = defaultdict(list)
    for result in counted(results):
        by_scenario[result.key.scenario].append(result)
    lines = []
    for name, scenario in ALL_SCENARIOS.items():
        if name in by_scenario:
            lines += [f"{name}: {scenario.title}", *_table(name, by_scenario[name], replayed), ""]
    dropped = [result for result in results if result.load.bottleneck is not None]
    lines += [
        f"{len(dropped)} of {len(results)} rounds do not count: the machine was the bottleneck",
        *(f"  {result.key.group}: {result.load.bottleneck}" for result in dropped),
    ]
    loads = [result.load for result in counted(results)]
    if loads:
        lines.append(
            f"machine in the others: CPU up to {max(load.cpu for load in loads):.0%}, members late"
            f" up to {max(load.late for load in loads):.2%}, arrivals behind up to"
            f" {max(load.behind for load in loads):.2f} s"
        )
    lines += ["", "goals, beside Kafka's best of these rounds", *map(str, verdicts(results))]
    return "\n".join(lines) + "\n"


def _table(
    scenario: str,
    results: Sequence[RoundResult],
    replayed: Mapping[tuple[str, str], Sequence[ReplayFigures]],
) -> list[str]:
    rows = [["candidate", "rounds", *(column.name for column in COLUMNS), "replay"]]
    remarks = []
    for candidate in CANDIDATES:
        of_candidate = [r for r in results if r.key.candidate == candidate]
        if not of_candidate:
            continue
        cells = [spread_text([c.value(r) for r in of_candidate], c.text) for c in COLUMNS]
        figures = replayed.get((scenario, candidate), ())
        rows.append([candidate, str(len(of_candidate)), *cells, replay_text(figures)])
        remarks += [f"  {candidate}: {text}" for text in differences(of_candidate, figures)]
    return [*aligned(rows), *remarks]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with columns of equal width; the first is to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def replay_text(figures: Sequence[ReplayFigures]) -> str:
    """Drain or p99 of the replay with moves and plans."""
    if not figures:
        return "-"
    drain = spread_text([f.drain_over_ideal for f in figures], lambda value: f"{value:.2f}")
    p99 = spread_text([f.p99 for f in figures], "{:.1f}".format)
    moves = spread_text([f.moves for f in figures], "{:.0f}".format)
    plans = spread_text([f.plans for f in figures], "{:.0f}".format)
    first = f"{drain} x ideal, " if drain != "-" else ""
    return f"{first}p99 {p99} s, {moves} moves, {plans} plans"


def replayed_table(
    scenarios: Mapping[str, DrainScenario],
    replayed: Mapping[tuple[str, str], Sequence[ReplayFigures]],
) -> list[str]:
    """The table of the replays of scenarios, by scenario and candidate."""
    rows = [["", "mean s", "p99 s", "most lag", "moves/min", "plans", "others drained s"]]
    for (name, candidate), figures in replayed.items():
        minutes = scenarios[name].measured / 60
        rows.append(
            [
                f"{name} {candidate}",
                spread_text([f.mean for f in figures], _seconds),
                spread_text([f.p99 for f in figures], _seconds),
                spread_text([f.most_lag for f in figures], "{:,.0f}".format),
                spread_text([f.moves / minutes for f in figures], "{:.1f}".format),
                spread_text([f.plans for f in figures], "{:.0f}".format),
                spread_text([f.others_drained for f in figures], "{:.0f}".format),
            ]
        )
    return aligned(rows)


def differences(results: Sequence[RoundResult], figures: Sequence[ReplayFigures]) -> list[str]:
    """Remarks on figures of the replay that are further than `DIFFERS` from the measured ones."""
    if not figures:
        return []
    remarks = []
    for name, measured, replayed, least in (
        (
            "drain/ideal",
            [r.figures.drain_over_ideal for r in results],
            [f.drain_over_ideal for f in figures],
            0.0,
        ),
        ("p99", [r.figures.p99 for r in results], [f.p99 for f in figures], LEAST_SECONDS),
    ):
        if None in measured or None in replayed or not measured:
            continue
        real, model = median(measured), median(replayed)  # type: ignore[type-var]
        if real == model:
            continue
        if abs(real - model) > max(DIFFERS * real, least):
            share = (model - real) / real if real else float("inf")
            remarks.append(
                f"{name}: the replay says {model:.2f} where {real:.2f} was measured ({share:+.0%})"
            )
    return remarks

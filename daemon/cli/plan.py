"""Commands that try strategies: on problems of a file, on a live group, on a simulated day."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from levelwind.daemon.cli.options import (
    Figure,
    SettingsSource,
    config_option,
    format_option,
    set_option,
    with_settings,
)
from levelwind.daemon.console import echo
from levelwind.daemon.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from levelwind.assignors.problem.group import Group
    from levelwind.daemon.config.settings import Settings

Command = TypeVar("Command", bound="Callable[..., Any]")
Result = TypeVar("Result")

chart_option = partial(click.option, "--chart", type=click.Path(path_type=Path, dir_okay=False))


def _check_chart(path: Path | None) -> None:
    """Check the path of a chart, if one is wanted, before anything is computed for it."""
    if path:
        from levelwind.daemon.charts import chart_format  # noqa: PLC0415 - Matplotlib takes half a second

        chart_format(path)


def problems_or_group(command: Command) -> Command:
    """Add the argument PROBLEMS and the option --group, of which a command needs exactly one."""
    argument = click.argument("problems", type=click.File("rb"), required=False)
    option = click.option(
        "--group", metavar="NAME", help="Use a live group of the cluster instead of a file."
    )
    return argument(option(command))


def results(
    problems: BinaryIO | None,
    group: str | None,
    settings: Callable[[], Settings],
    *,
    of_lines: Callable[[BinaryIO], Iterator[Result]],
    of_group: Callable[[str, Group, Mapping[str, Any]], Result],
) -> Iterator[Result]:
    """A command's results: one for each problem of a file, or the one for a live group.

    Args:
        problems: the file, if one was given.
        group: the group's name, if one was given.
        settings: reads the settings; called for a group only.
        of_lines: computes the results for the lines of the file.
        of_group: computes the result for a group, from its name, its problem and its strategy's
            options.

    Raises:
        click.UsageError: both were given, or neither.
    """
    if problems is not None and group is None:
        return of_lines(problems)
    if problems is not None or group is None:
        raise click.UsageError("name either a file of PROBLEMS or a --group, not both")
    from levelwind.daemon.control.planning import options_of  # noqa: PLC0415 - see the package
    from levelwind.daemon.inspection.live_group import read_group  # noqa: PLC0415 - see the package

    loaded = settings()
    options = options_of(loaded.planning_of(group))
    return iter([of_group(group, read_group(loaded, group), options)])


@click.command()
@click.argument("problems", type=click.File("rb"), default="-")
def assign(problems: BinaryIO) -> None:
    """Solve assignment problems, one JSON object a line, from a file or standard input."""
    from levelwind.assignors.json_problems import solve_lines  # noqa: PLC0415 - see the package

    for line in solve_lines(problems):
        echo(line)


@click.command()
@problems_or_group
@click.option(
    "--strategy",
    "names",
    metavar="A,B,…",
    help="Strategies to compare; by default those that the problem names, else all.",
)
@chart_option(help="Draw the scores into FILE.svg or FILE.png.")
@with_settings
@format_option
def compare(
    problems: BinaryIO | None,
    group: str | None,
    names: str | None,
    chart: Path | None,
    source: SettingsSource,
    form: str,
) -> None:
    """Compare strategies on each problem of a file (- is standard input), or on a live group."""
    from levelwind.daemon.inspection import compare as comparing  # noqa: PLC0415 - see the package

    strategies = comparing.parse_strategies(names)
    _check_chart(chart)
    comparisons = results(
        problems,
        group,
        source.read,
        of_lines=lambda lines: comparing.compare_lines(lines, strategies),
        of_group=lambda name, live, options: comparing.compare_group(
            name, live, strategies, options
        ),
    )
    shown = []
    for comparison in comparisons:
        echo(
            json.dumps(comparison.as_json(), sort_keys=True)
            if form == "json"
            else comparison.as_text()
        )
        if chart:
            shown.append(comparison)
    if chart:
        comparing.draw_chart(shown, chart)


@click.command()
@problems_or_group
@click.option("--partition", metavar="TOPIC/N", required=True, help="The partition to explain.")
@with_settings
@format_option
def explain(
    problems: BinaryIO | None,
    group: str | None,
    partition: str,
    source: SettingsSource,
    form: str,
) -> None:
    """Explain why a member owns a partition, and what the next best owners would cost."""
    from levelwind.daemon.inspection import explain as explaining  # noqa: PLC0415 - see the package

    topic_partition = explaining.parse_partition(partition)
    explanations = results(
        problems,
        group,
        source.read,
        of_lines=lambda lines: explaining.explain_lines(lines, topic_partition),
        of_group=lambda _, live, options: (
            explaining.explain_group(live, topic_partition, options),
            None,
        ),
    )
    for explanation, certificate in explanations:
        if form == "json":
            whole = explanation.as_json() | {
                "certificate": certificate.as_json() if certificate else None
            }
            click.echo(json.dumps(whole, sort_keys=True))
        else:
            for line in (*explanation.lines(), *(certificate.lines() if certificate else ())):
                echo(one_line(line))


@click.command()
@click.option(
    "--scenario",
    default="day",
    show_default=True,
    metavar="NAME",
    help="day, steady, drift, bursts, hot, slow, churn or racks.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@click.option("--partitions", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@click.option("--members", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--hours", type=Figure(0, 10 * 366 * 24, above=True), default=24.0, show_default=True)
@click.option(
    "--utilisation",
    type=Figure(1e-4, 10),
    default=0.6,
    show_default=True,
    help="Arrival rate as a share of the rate that all members can read.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Lag samples to replay instead of a scenario: the output of `record`, JSON lines or CSV.",
)
@click.option("--group", metavar="NAME", help="Group of the trace, if the trace holds several.")
@click.option(
    "--problem",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Members that read the trace, as a problem of `assign`; by default --members equal ones.",
)
@click.option(
    "--speed",
    type=Figure(1e-9, 1e9),
    help="Records a second read by a member of capacity 1; with --trace, replaces --utilisation.",
)
@click.option(
    "--strategy",
    "names",
    metavar="A,B,…",
    help="Strategies, or `all`; by default a few. With options: optimal,optimal:count_slack=2.",
)
@click.option(
    "--lag-target",
    "target",
    type=Figure(1, 86_400),
    default=60.0,
    show_default=True,
    help="Longest time, in seconds, that a record should wait.",
)
@click.option(
    "--tick",
    type=Figure(0.1, 600),
    default=5.0,
    show_default=True,
    help="Seconds of a simulated step.",
)
@click.option(
    "--pause",
    type=Figure(0, 3600),
    default=5.0,
    show_default=True,
    help="Seconds for which nobody reads a partition while it changes its owner.",
)
@click.option(
    "--rebalance",
    type=click.Choice(["levelwind", "classic"]),
    default="levelwind",
    show_default=True,
    help="classic: eager strategies stop the whole group, as without levelwind.",
)
@chart_option(help="Draw the comparison into FILE.svg or FILE.png.")
@config_option(help="TOML file with the settings of the triggers.")
@set_option
@format_option
def simulate(
    names: str | None,
    rebalance: str,
    chart: Path | None,
    config: Path | None,
    pairs: tuple[str, ...],
    form: str,
    **options: Any,
) -> None:
    """Simulate a day under several strategies: a scenario, or a recorded trace."""
    from levelwind.daemon.simulation import command  # noqa: PLC0415 - see the package
    from levelwind.daemon.simulation.scenario import Size  # noqa: PLC0415 - see the package

    _check_chart(chart)
    # The other options are fields of a size or of a request, and named after them.
    size = {field.name: options.pop(field.name) for field in fields(Size) if field.name in options}
    request = command.SimulationRequest(
        strategies=command.parse_strategies(names),
        size=Size(**size),
        classic=rebalance == "classic",
        **options,
    )
    settings = SettingsSource(config, pairs=pairs).read()
    with click.progressbar(length=1000, label="simulating", file=sys.stderr) as bar:
        simulated = command.run(
            request, settings, lambda share: bar.update(round(share * 1000) - bar.pos)
        )
    echo(json.dumps(simulated.as_json(), sort_keys=True) if form == "json" else simulated.as_text())
    if chart:
        from levelwind.daemon.simulation.day_chart import draw_simulation  # noqa: PLC0415 - Matplotlib takes half a second

        draw_simulation(simulated.title, simulated.rows, simulated.world.seconds, chart)

"""The command line. Results go to standard output, logs and progress to standard error.

Exit codes: 0 done · 1 a bug · 2 wrong usage or settings · 3 the cluster is not available · 4 another planner took over ·
5 the pipeline gave up · 6 not found · 130 interrupted.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from daemon import logs
from daemon.errors import LevelwindError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.settings import Settings

# What a command needs is imported when it runs: `levelwind assign` must not wait for Spark's or Kafka's libraries.

_Command = TypeVar("_Command", bound="Callable[..., Any]")


class Interruptible(click.Group):
    """Ends with the exit code of a `LevelwindError` and its text, and with 130 on Ctrl-C."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except LevelwindError as error:
            click.echo(f"levelwind: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(130)


def with_settings(command: _Command) -> _Command:
    """Add the options that every command that talks to a cluster has."""
    for option in (
        click.option(
            "--config", type=click.Path(path_type=Path, dir_okay=False), help="The settings, a TOML file."
        ),
        click.option("--bootstrap", metavar="HOST:PORT[,…]", help="The Kafka cluster (setting `bootstrap`)."),
        click.option(
            "--set",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            help="Any setting, e.g. control.min_gain=0.2.",
        ),
    ):
        command = option(command)
    return command


def format_option(command: _Command) -> _Command:
    """Add `--format`."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Output form.",
    )(command)


def read_settings(
    config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], **more: Any
) -> Settings:
    """Load the settings from the options of a command."""
    from daemon.settings import PASSED_THROUGH, load  # noqa: PLC0415 - see above

    overrides: dict[str, Any] = {key: value for key, value in more.items() if value is not None}
    if bootstrap:
        overrides["bootstrap"] = bootstrap
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} has no '='", param_hint="--set")
        table = PASSED_THROUGH.match(key)
        whole = [*table[1].split("."), key[table.end() :]] if table else key.split(".")
        *path, last = whole
        tree = overrides
        for name in path:
            tree = tree.setdefault(name, {})
        tree[last] = value
    return load(config, overrides)


@click.group(cls=Interruptible, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("levelwind"), prog_name="levelwind")
def main() -> None:
    """Plan Kafka consumer groups by lag and rack, from outside."""


@main.command()
@with_settings
@click.option("--log-format", type=click.Choice(["auto", "json", "console"]), help="Form of the log lines.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Least severe level."
)
def run(
    config: Path | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    log_format: str | None,
    log_level: str | None,
) -> None:
    """Run the daemon: observer, pipeline and control."""
    from daemon.runtime import run as run_daemon  # noqa: PLC0415 - see above

    log = {k: v for k, v in (("format", log_format), ("level", log_level)) if v}
    settings = read_settings(config, bootstrap, pairs, log=log or None)
    logs.configure(level=settings.log.level, form=settings.log.format)
    run_daemon(settings)


@main.command()
@click.option("--brokers", type=click.IntRange(1, 9), default=3, show_default=True)
@click.option(
    "--racks", default="a,b,c", show_default=True, help="Comma-separated, dealt to the brokers in turn."
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".levelwind/cluster"),
    show_default=True,
    help="Where the brokers keep their data; a later start recovers it.",
)
@format_option
def cluster(brokers: int, racks: str, directory: Path, form: str) -> None:
    """Run an embedded Kafka cluster on loopback until Ctrl-C."""
    from daemon.standing import stand_cluster  # noqa: PLC0415 - see above

    stand_cluster(brokers, tuple(racks.split(",")), directory, as_json=form == "json")


@main.command()
@with_settings
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".levelwind/demo"),
    show_default=True,
    help="Where brokers, pipeline and log keep their files.",
)
@click.option("--seconds", type=click.FloatRange(min=1), help="Stop by itself after so long.")
@format_option
def demo(
    config: Path | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    directory: Path,
    seconds: float | None,
    form: str,
) -> None:
    """Show it all: brokers in three racks, a skewed workload, and the daemon that levels it."""
    from daemon.demo import TUNING, run_demo  # noqa: PLC0415 - see above

    logs.configure(
        level="error"
    )  # the daemon's own log is in a file of its own; this process tells the story
    pairs = (*TUNING, f"state_dir={directory / 'state'}", *pairs)
    run_demo(
        read_settings(config, bootstrap, pairs),
        [
            *(["--config", str(config)] if config else []),
            *(word for pair in pairs for word in ("--set", pair)),
        ],
        directory=directory,
        embedded=bootstrap is None,
        seconds=seconds,
        as_json=form == "json",
    )


@main.command()
@click.argument("problems", type=click.File("rb"), default="-")
def assign(problems: Any) -> None:
    """Solve assignment problems, one JSON object a line, from a file or standard input."""
    from assignors.problems import solve_lines  # noqa: PLC0415 - see above

    for line in solve_lines(problems):
        click.echo(line)


@main.command()
@click.argument("problems", type=click.File("rb"), required=False)
@click.option("--group", metavar="NAME", help="A group of the cluster, as it stands, instead of a file.")
@click.option(
    "--strategy", "names", metavar="A,B,…", help="Strategies; those that the problem names, or all."
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the scores: FILE.svg or FILE.png.",
)
@with_settings
@format_option
def compare(
    problems: Any,
    group: str | None,
    names: str | None,
    picture: Path | None,
    config: Path | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    form: str,
) -> None:
    """Score several strategies side by side: on each problem of a file (- is standard input), or on a live group."""
    from daemon import compare as comparing  # noqa: PLC0415 - see above

    if (problems is None) == (group is None):
        raise click.UsageError("name either a file of PROBLEMS or a --group, and not both")
    strategies = comparing.wanted(names)
    if picture:
        comparing.check_picture(picture)
    if group is None:
        compared = comparing.compare_lines(problems, strategies)
    else:
        from daemon.live_group import read_group  # noqa: PLC0415 - see above

        settings = read_settings(config, bootstrap, pairs)
        compared = iter([comparing.compare_group(group, read_group(settings, group), strategies)])
    shown = []
    for one in compared:
        click.echo(json.dumps(one.as_json(), sort_keys=True) if form == "json" else one.as_text())
        if picture:
            shown.append(one)
    if picture:
        comparing.draw(shown, picture)


@main.command()
@click.argument("problems", type=click.File("rb"), required=False)
@click.option("--group", metavar="NAME", help="A group of the cluster, as it stands, instead of a file.")
@click.option("--partition", "place", metavar="TOPIC/N", required=True, help="Which partition.")
@with_settings
@format_option
def explain(
    problems: Any,
    group: str | None,
    place: str,
    config: Path | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    form: str,
) -> None:
    """Say why a partition is where it is, and what the next best places would cost."""
    from daemon import explaining  # noqa: PLC0415 - see above

    if (problems is None) == (group is None):
        raise click.UsageError("name either a file of PROBLEMS or a --group, and not both")
    partition = explaining.place_of(place)
    if group is None:
        told = explaining.explain_lines(problems, partition)
    else:
        from daemon.live_group import read_group  # noqa: PLC0415 - see above

        stands = read_group(read_settings(config, bootstrap, pairs), group)
        told = iter([(explaining.explain_group(stands, partition), None)])
    for explanation, certificate in told:
        if form == "json":
            whole = explanation.as_json() | {"certificate": certificate.as_json() if certificate else None}
            click.echo(json.dumps(whole, sort_keys=True))
        else:
            click.echo("\n".join((*explanation.lines(), *(certificate.lines() if certificate else ()))))


@main.command()
@click.argument("file", type=click.File("wb"), default="-")
@click.option("--group", metavar="NAME", help="Only the lag of this group.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Go on for so long, 0: only what the topic still holds; else until Ctrl-C.",
)
@with_settings
def record(
    file: BinaryIO,
    group: str | None,
    seconds: float | None,
    config: Path | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Record samples of lag to a file, or standard output: a trace for `levelwind simulate --trace`."""
    from rich.console import Console  # noqa: PLC0415 - see above

    from daemon.recording import record_lag  # noqa: PLC0415 - see above
    from daemon.runtime import signals  # noqa: PLC0415 - see above

    settings = read_settings(config, bootstrap, pairs)
    with signals() as stop, Console(stderr=True).status("recording") as status:
        stop.heeded = True  # Ctrl-C is how a recording ends
        done = record_lag(
            settings,
            group,
            file,
            seconds=seconds,
            stop=stop,
            tell=lambda so_far: status.update(f"recording: {so_far.text}"),
        )
    click.echo(done.text, err=True)
    if not done.samples:
        raise NotFoundError(f"{settings.topics.lag} holds no lag{f' of group {group!r}' if group else ''}")


@main.command()
@click.option(
    "--scenario",
    default="day",
    show_default=True,
    metavar="NAME",
    help="day, steady, drift, bursts, hot, slow, churn or racks.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--partitions", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@click.option("--members", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), default=24.0, show_default=True)
@click.option(
    "--utilisation",
    type=click.FloatRange(0, 10, min_open=True),
    default=0.6,
    show_default=True,
    help="What arrives over what all members can read.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Samples of lag to replay instead of a scenario: records of levelwind.lag, JSON lines, or CSV.",
)
@click.option("--group", metavar="NAME", help="The group of the trace, where it has several.")
@click.option(
    "--problem",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Who reads the trace: a problem of `assign`; else --members alike.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    help="Records a second that a member of capacity 1 reads of the trace, instead of --utilisation.",
)
@click.option(
    "--strategy",
    "names",
    metavar="A,B,…",
    help="Strategies, or all; a usual few where none is named. With options: optimal,optimal:count_slack=2.",
)
@click.option(
    "--lag-target",
    "target",
    type=click.FloatRange(1, 86_400),
    default=60.0,
    show_default=True,
    help="Seconds for which no record should wait.",
)
@click.option(
    "--tick", type=click.FloatRange(0.1, 600), default=5.0, show_default=True, help="Seconds a step."
)
@click.option(
    "--pause",
    type=click.FloatRange(0, 3600),
    default=5.0,
    show_default=True,
    help="Seconds for which nobody reads a partition that changes hands.",
)
@click.option(
    "--rebalance",
    type=click.Choice(["levelwind", "classic"]),
    default="levelwind",
    show_default=True,
    help="classic: eager strategies stop the whole group, as they do without levelwind.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the comparison: FILE.svg or FILE.png.",
)
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="The settings whose triggers count."
)
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Any setting, e.g. control.min_gain=0.2."
)
@format_option
def simulate(
    scenario: str,
    seed: int,
    partitions: int,
    members: int,
    hours: float,
    utilisation: float,
    trace: Path | None,
    group: str | None,
    problem: Path | None,
    speed: float | None,
    names: str | None,
    target: float,
    tick: float,
    pause: float,
    rebalance: str,
    picture: Path | None,
    config: Path | None,
    pairs: tuple[str, ...],
    form: str,
) -> None:
    """Play a day under several strategies: a made-up one, or a trace of your own."""
    from daemon.compare import check_picture  # noqa: PLC0415 - see above
    from daemon.simulation import command  # noqa: PLC0415 - see above
    from daemon.simulation.scenario import Size  # noqa: PLC0415 - see above

    if picture:
        check_picture(picture)
    asked = command.Asked(
        strategies=command.wanted(names),
        scenario=scenario,
        seed=seed,
        size=Size(partitions=partitions, members=members, hours=hours, tick=tick, utilisation=utilisation),
        trace=trace,
        problem=problem,
        group=group,
        speed=speed,
        target=target,
        pause=pause,
        classic=rebalance == "classic",
    )
    settings = read_settings(config, None, pairs)
    with click.progressbar(length=1000, label="simulating", file=sys.stderr) as bar:
        simulated = command.run(asked, settings, lambda share: bar.update(round(share * 1000) - bar.pos))
    click.echo(json.dumps(simulated.as_json(), sort_keys=True) if form == "json" else simulated.as_text())
    if picture:
        from daemon.simulation.picture import draw_simulation  # noqa: PLC0415 - Matplotlib takes half a second

        draw_simulation(simulated.title, simulated.rows, simulated.world.seconds, picture)


@main.command()
@with_settings
@format_option
def groups(config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], form: str) -> None:
    """List the groups with their members, lag and skew."""
    from daemon.view import groups_table, read_views  # noqa: PLC0415 - see above

    views = read_views(read_settings(config, bootstrap, pairs))
    if form == "json":
        for view in views.values():
            click.echo(json.dumps(view.summary(), sort_keys=True))
    else:
        groups_table(views.values())


@main.command()
@click.argument("group")
@with_settings
@format_option
def describe(
    group: str, config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], form: str
) -> None:
    """Show one group: plan, members, and lag and racks of each partition."""
    from daemon.view import describe_group, read_views  # noqa: PLC0415 - see above

    views = read_views(read_settings(config, bootstrap, pairs))
    if group not in views:
        known = ", ".join(sorted(views)) or "none yet"
        raise NotFoundError(f"no group {group!r} is known here; known: {known}")
    if form == "json":
        click.echo(json.dumps(views[group].as_json(), sort_keys=True))
    else:
        describe_group(views[group])


@main.command()
@click.argument("group")
@click.option("--reason", default="asked for by an operator", show_default=True)
@with_settings
def rebalance(
    group: str, reason: str, config: Path | None, bootstrap: str | None, pairs: tuple[str, ...]
) -> None:
    """Ask the daemon to plan a group anew now, whatever its cool-down."""
    from daemon.operator_word import ask_for_rebalance  # noqa: PLC0415 - see above

    ask_for_rebalance(read_settings(config, bootstrap, pairs), group, reason)
    click.echo(f"asked for a plan for {group}; the daemon logs what it decides", err=True)


@main.command("dead-letters")
@click.option("--retry", is_flag=True, help="Give the pipeline what the installed version can read now.")
@click.option("--topic", metavar="NAME", help="Only the letters of records of this topic.")
@with_settings
@format_option
def dead_letters(
    retry: bool,
    topic: str | None,
    config: Path | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    form: str,
) -> None:
    """List the records that the pipeline could not read."""
    from daemon import dead_letters as letters  # noqa: PLC0415 - see above

    settings = read_settings(config, bootstrap, pairs)
    judged = letters.look_up(settings, letters.read_letters(settings, topic))
    if form == "json":
        now = time.time_ns() // 1_000_000
        for one in judged:
            click.echo(json.dumps(one.as_json(now), sort_keys=True))
    else:
        letters.show(judged)
    if retry:
        letters.retry(settings, judged)
    click.echo(letters.summary(judged, retried=retry), err=True)


@main.command(hidden=True)
@click.argument("settings_file", type=click.Path(path_type=Path, dir_okay=False))
def pipeline(settings_file: Path) -> None:
    """Run the pipeline; started by `levelwind run` as its child."""
    from daemon.pipeline_process import main as run_pipeline  # noqa: PLC0415 - see above

    sys.exit(run_pipeline(settings_file))


if __name__ == "__main__":
    main()

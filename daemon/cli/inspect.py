"""Commands that read levelwind's topics, and requests of an operator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from levelwind.daemon.cli.options import format_option, read_settings, with_settings
from levelwind.daemon.console import echo
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Command = TypeVar("Command", bound="Callable[..., Any]")


def table_options(command: Command) -> Command:
    """Add the options of commands that show groups: format, order, and repetition."""
    for option in (
        click.option(
            "--watch",
            type=click.FloatRange(min=0.5),
            metavar="SECONDS",
            help="Show it again every so many seconds, until Ctrl-C.",
        ),
        click.option(
            "--sort",
            type=click.Choice(["name", "lag"]),
            default="name",
            show_default=True,
            help="Order of the partitions: by topic and number, or the largest lag first.",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(["table", "json", "csv", "text"]),
            default="table",
            show_default=True,
            help="Format of the output; csv has a line for each partition, text is table.",
        ),
    ):
        command = option(command)
    return with_settings(command)


@click.command(short_help="List the groups.")
@click.option(
    "--partitions",
    is_flag=True,
    help="Show the partitions of all groups, with the columns of kafka-consumer-groups.",
)
@table_options
def groups(
    partitions: bool,
    config: Path | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    **shown: Any,
) -> None:
    """List the groups with their members, lag and skew, or the partitions of all of them."""
    from levelwind.daemon.inspection.show import show_groups, watching  # noqa: PLC0415 - see the package

    settings = read_settings(config, bootstrap, pairs)
    for _ in watching(shown.pop("watch"), clear=shown["form"] == "table"):
        show_groups(settings, partitions=partitions, **shown)


@click.command(short_help="Show one group.")
@click.argument("group")
@table_options
def describe(
    group: str, config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], **shown: Any
) -> None:
    """Show one group: plan, levers, members, and partitions as kafka-consumer-groups does."""
    from levelwind.daemon.inspection.show import show_group, watching  # noqa: PLC0415 - see the package

    settings = read_settings(config, bootstrap, pairs)
    for _ in watching(shown.pop("watch"), clear=shown["form"] == "table"):
        show_group(settings, group, **shown)


@click.command(short_help="Request a new plan for a group.")
@click.argument("group")
@click.option(
    "--reason",
    default="requested by an operator",
    show_default=True,
    help="Reason that the daemon logs with the plan.",
)
@with_settings
def rebalance(
    group: str, reason: str, config: Path | None, bootstrap: str | None, pairs: tuple[str, ...]
) -> None:
    """Ask the daemon to compute a new plan for a group now, regardless of the cooldown."""
    from levelwind.daemon.inspection.rebalance import request_rebalance  # noqa: PLC0415 - see the package

    request_rebalance(read_settings(config, bootstrap, pairs), group, reason)
    echo(f"requested a plan for {group}; the daemon logs its decision", err=True)


@click.command("dead-letters", short_help="List records that could not be read.")
@click.option(
    "--retry", is_flag=True, help="Replay the records that the installed version can read now."
)
@click.option("--topic", metavar="NAME", help="List only records of this topic.")
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
    from levelwind.daemon.inspection import dead_letters as inspection  # noqa: PLC0415 - see the package

    settings = read_settings(config, bootstrap, pairs)
    letters = inspection.classify_letters(settings, inspection.read_letters(settings, topic))
    if form == "json":
        now = now_ms()
        for letter in letters:
            click.echo(json.dumps(letter.as_json(now), sort_keys=True))
    else:
        inspection.print_letters(letters)
    if retry:
        inspection.retry(settings, letters)
    echo(inspection.summary(letters, retried=retry), err=True)


@click.command(short_help="Record lag samples for a simulation.")
@click.argument("file", type=click.File("ab", lazy=False), default="-")
@click.option("--group", metavar="NAME", help="Record only the lag of this group.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Stop this long after the topic's end was reached (0: at its end); by default on Ctrl-C.",
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
    """Record samples of lag: a trace for `levelwind simulate --trace`.

    Appends to FILE, or writes to standard output: first the samples that levelwind.lag still
    holds, then each new sample as it is published.
    """
    from levelwind.daemon.console import status  # noqa: PLC0415 - see the package
    from levelwind.daemon.inspection.record_lag import record_lag  # noqa: PLC0415 - see the package
    from levelwind.daemon.shutdown import stop_on_signals  # noqa: PLC0415 - see the package

    settings = read_settings(config, bootstrap, pairs)
    with stop_on_signals() as stop, status("recording") as show:
        stop.polled = True  # Ctrl-C ends a recording
        done = record_lag(
            settings,
            group,
            file,
            seconds=seconds,
            stop=stop,
            on_progress=lambda so_far: show(f"recording: {so_far.text}"),
        )
    echo(done.text, err=True)
    if not done.samples:
        raise NotFoundError(
            f"{settings.topics.lag} holds no lag{f' of group {group!r}' if group else ''}"
        )

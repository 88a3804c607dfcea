"""Commands that read levelwind's topics, and requests of an operator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

import click

from daemon.cli.options import format_option, read_settings, with_settings
from daemon.errors import NotFoundError
from daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="List the groups.")
@with_settings
@format_option
def groups(config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], form: str) -> None:
    """List the groups with their members, lag and skew."""
    from daemon.inspection.group_view import read_views  # noqa: PLC0415 - see the package
    from daemon.inspection.tables import print_groups  # noqa: PLC0415 - see the package

    settings = read_settings(config, bootstrap, pairs)
    views = read_views(settings)
    if form == "json":
        for view in views.values():
            click.echo(json.dumps(view.summary(), sort_keys=True))
    elif views:
        print_groups(views.values())
    if not any(view.lags for view in views.values()):
        click.echo(
            f"{settings.topics.lag} holds no lag yet: the pipeline has published nothing. "
            "Groups are listed once `levelwind run` has read their commits.",
            err=True,
        )


@click.command(short_help="Show one group.")
@click.argument("group")
@with_settings
@format_option
def describe(
    group: str, config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], form: str
) -> None:
    """Show one group: plan, members, and lag and racks of each partition."""
    from daemon.inspection.group_view import find_group, read_views  # noqa: PLC0415 - see the package
    from daemon.inspection.tables import print_group  # noqa: PLC0415 - see the package

    view = find_group(read_views(read_settings(config, bootstrap, pairs)), group)
    if form == "json":
        click.echo(json.dumps(view.as_json(), sort_keys=True))
    else:
        print_group(view, now=now_ms())


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
    from daemon.inspection.rebalance import request_rebalance  # noqa: PLC0415 - see the package

    request_rebalance(read_settings(config, bootstrap, pairs), group, reason)
    click.echo(f"requested a plan for {group}; the daemon logs its decision", err=True)


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
    from daemon.inspection import dead_letters as inspection  # noqa: PLC0415 - see the package

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
    click.echo(inspection.summary(letters, retried=retry), err=True)


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
    from daemon.console import status  # noqa: PLC0415 - see the package
    from daemon.inspection.record_lag import record_lag  # noqa: PLC0415 - see the package
    from daemon.shutdown import stop_on_signals  # noqa: PLC0415 - see the package

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
    click.echo(done.text, err=True)
    if not done.samples:
        raise NotFoundError(
            f"{settings.topics.lag} holds no lag{f' of group {group!r}' if group else ''}"
        )

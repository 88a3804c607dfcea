"""Commands that read levelwind's topics, and requests of an operator."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from levelwind.assignors.handover.timers import MAX_TIMER_SECONDS
from levelwind.daemon.cli.options import Duration, Figure, format_option, with_settings
from levelwind.daemon.console import echo
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.daemon.assessment.assessment import Assessment
    from levelwind.daemon.cli.options import SettingsSource


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that show groups: format, order, and repetition."""
    for option in (
        click.option(
            "--watch",
            type=Figure(0.5, MAX_TIMER_SECONDS),
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
            callback=lambda _context, _option, form: "table" if form == "text" else form,
            default="table",
            show_default=True,
            help="Format of the output; csv has a line for each partition, text is table.",
        ),
    ):
        command = option(command)
    return with_settings(command)


@click.command()
@click.option(
    "--partitions",
    is_flag=True,
    help="Show the partitions of all groups, with the columns of kafka-consumer-groups.",
)
@table_options
def groups(partitions: bool, source: SettingsSource, **shown: Any) -> None:
    """List the groups with their members, lag and skew, or the partitions of all of them."""
    from levelwind.daemon.inspection.show import show_groups, watching  # noqa: PLC0415 - see the package

    settings = source.read()
    for _ in watching(settings, shown.pop("watch"), clear=shown["form"] == "table"):
        show_groups(settings, partitions=partitions, **shown)


@click.command()
@click.argument("group")
@table_options
def describe(group: str, source: SettingsSource, **shown: Any) -> None:
    """Show one group: plan, levers, members, and partitions as kafka-consumer-groups does."""
    from levelwind.daemon.inspection.show import show_group, watching  # noqa: PLC0415 - see the package

    settings = source.read()
    for _ in watching(settings, shown.pop("watch"), clear=shown["form"] == "table"):
        show_group(settings, group, **shown)


@click.command()
@click.argument("group")
@click.option(
    "--reason",
    default="requested by an operator",
    show_default=True,
    help="Reason that the daemon logs with the plan.",
)
@with_settings
def rebalance(group: str, reason: str, source: SettingsSource) -> None:
    """Ask the daemon to compute a new plan for a group now, regardless of the cooldown."""
    from levelwind.daemon.inspection.rebalance import request_rebalance  # noqa: PLC0415 - see the package

    request_rebalance(source.read(), group, reason)
    echo(f"requested a plan for {group}; the daemon logs its decision", err=True)


@click.command()
@click.option(
    "--retry", is_flag=True, help="Replay the records that the installed version can read now."
)
@click.option("--topic", metavar="NAME", help="List only records of this topic.")
@with_settings
@format_option
def dead_letters(retry: bool, topic: str | None, source: SettingsSource, form: str) -> None:
    """List the records that the pipeline could not read."""
    from levelwind.daemon.inspection import dead_letters as inspection  # noqa: PLC0415 - see the package

    settings = source.read()
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


@click.command()
@click.argument("file", type=click.File("ab", lazy=False), default="-")
@click.option("--group", metavar="NAME", help="Record only the lag of this group.")
@click.option(
    "--seconds",
    type=Figure(0, MAX_TIMER_SECONDS),
    help="Stop this long after the topic's end was reached (0: at its end); by default on Ctrl-C.",
)
@with_settings
def record(
    file: BinaryIO, group: str | None, seconds: float | None, source: SettingsSource
) -> None:
    """Record samples of lag: a trace for `levelwind simulate --trace`.

    Appends to FILE, or writes to standard output: first the samples that levelwind.lag still
    holds, then each new sample as it is published.
    """
    from levelwind.daemon.console import status  # noqa: PLC0415 - see the package
    from levelwind.daemon.inspection.record_lag import record_lag  # noqa: PLC0415 - see the package
    from levelwind.daemon.shutdown import stop_on_signals  # noqa: PLC0415 - see the package

    settings = source.read()
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


@click.command()
@click.option(
    "--for",
    "seconds",
    type=Duration(),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Time to observe, as in 90s, 5m or 1h; 0: one sample, without rates.",
)
@click.option(
    "--group",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Assess the groups that fit, with * for any characters and ? for one; may be repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="Format of the page; json is one object, html one file that needs no other.",
)
@with_settings
def assess(seconds: float, patterns: tuple[str, ...], form: str, source: SettingsSource) -> None:
    """Say what each group would gain, what is at risk, and what following would need.

    Nothing is written and no group is joined: it needs neither levelwind's topics nor a daemon,
    only the rights of `levelwind acls --role assess`. On a terminal the first page comes after ten
    seconds, and the last one at the end, or on Ctrl-C.
    """
    from levelwind.daemon.assessment.observing import observe  # noqa: PLC0415 - see the package
    from levelwind.daemon.assessment.pages.html_page import html_page  # noqa: PLC0415 - see the package
    from levelwind.daemon.assessment.pages.text_page import print_assessment  # noqa: PLC0415 - see the package
    from levelwind.daemon.console import status  # noqa: PLC0415 - see the package
    from levelwind.daemon.shutdown import stop_on_signals  # noqa: PLC0415 - see the package

    settings = source.read()
    with stop_on_signals() as stop, ExitStack() as shown:
        stop.polled = True  # Ctrl-C ends the observation
        progress = shown.enter_context(status("asking the brokers"))

        def show_first(assessment: Assessment) -> None:
            shown.close()  # the spinner
            print_assessment(assessment)
            echo("\nThe page is made again at the end, or on Ctrl-C.\n", err=True)

        assessment = observe(
            settings,
            patterns,
            seconds,
            stop,
            on_progress=progress,
            on_first=show_first if form == "text" and sys.stdout.isatty() else None,
        )
    if form == "json":
        click.echo(json.dumps(assessment.as_json(), sort_keys=True))
    elif form == "html":
        # In bytes: the page says that it is UTF-8, whatever the output's encoding is.
        click.echo(html_page(assessment).encode(), nl=False)
    else:
        print_assessment(assessment)

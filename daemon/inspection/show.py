"""`levelwind groups` and `levelwind describe`: what is read, and how it is shown."""

from __future__ import annotations

import json
import sys
import time
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

import click

from levelwind.daemon.console import echo, stdout_console
from levelwind.daemon.inspection.live_members import described_members
from levelwind.daemon.inspection.printed_groups import printed_group, printed_summary
from levelwind.daemon.inspection.shown_orders.order_text import lever_text
from levelwind.daemon.inspection.tables import print_group, print_groups
from levelwind.daemon.levers.acting import read_control
from levelwind.daemon.levers.preview import levers_in_force
from levelwind.daemon.shown_groups.group_view import find_group, read_views
from levelwind.daemon.shown_groups.offset_rows import (
    largest_lag_first,
    offset_rows,
    print_offset_rows,
    write_csv,
)
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind.daemon.wall_clock import now_ms
from levelwind.daemon.watch_mark import WatchMark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.wire.describe_requests import DescribedMember

CLEAR_SCREEN = "\x1b[2J\x1b[H"
"""Terminal control: clear the screen, and go to its first line."""

Form = Literal["table", "json", "csv"]


def watching(settings: Settings, seconds: float | None, *, clear: bool) -> Iterator[None]:
    """Yield once, or again and again until Ctrl-C.

    Args:
        settings: the settings of the installation that is watched.
        seconds: pause between two times; None: once.
        clear: whether to clear a terminal before each time but the first.
    """
    yield
    mark = WatchMark(settings.state_dir)
    while seconds is not None:
        mark.renew()
        time.sleep(seconds)
        if clear and sys.stdout.isatty():
            click.echo(CLEAR_SCREEN, nl=False)
        yield


def show_groups(settings: Settings, *, partitions: bool, form: Form, sort: str) -> None:
    """Show all groups: a line for each, or for each of their partitions."""
    shown = [ShownGroup(view) for view in read_views(settings).values()]
    if partitions or form == "csv":
        described = _described(settings, *shown)
        rows = [
            row
            for group in sorted(shown, key=attrgetter("name"))
            for row in offset_rows(group, described.get(group.name))
        ]
        if sort == "lag":
            rows = largest_lag_first(rows)
        if form == "csv":
            write_csv(rows)
        elif form == "json":
            for row in rows:
                click.echo(json.dumps(row._asdict(), sort_keys=True))
        else:
            print_offset_rows(rows)
    elif form == "json":
        for group in shown:
            click.echo(json.dumps(printed_summary(group), sort_keys=True))
    elif shown:
        print_groups(shown)
    if not any(group.records.lags for group in shown):
        echo(
            f"{settings.topics.lag} holds no lag yet: the pipeline has published nothing. "
            "Groups are listed once `levelwind run` has read their commits.",
            err=True,
        )


def show_group(settings: Settings, name: str, *, form: Form, sort: str) -> None:
    """Show one group."""
    shown = ShownGroup(find_group(read_views(settings), name))
    described = _described(settings, shown).get(name)
    if form == "csv":
        write_csv(offset_rows(shown, described, by_lag=sort == "lag"))
        return
    levers = levers_in_force(read_control(settings), name)
    if form == "json":
        overridden = [lever.as_json() for lever in levers]
        document = printed_group(shown, described) | {"levers": overridden}
        click.echo(json.dumps(document, sort_keys=True))
        return
    print_group(shown, now_ms(), described, by_lag=sort == "lag")
    for lever in levers:
        stdout_console().print(f"lever: {lever_text(lever)}", soft_wrap=True)


def _described(settings: Settings, *shown: ShownGroup) -> dict[str, dict[str, DescribedMember]]:
    """Return the members of the groups that the brokers know; managed ones have none for them."""
    return described_members(settings, [group.name for group in shown if group.records.watched])

"""Levers of operators: each says what it would change, and acts with --execute."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from levelwind.daemon.cli.options import format_option, with_settings
from levelwind.daemon.console import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.daemon.cli.options import SettingsSource

ALL = "*"


def lever_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every command that may act."""
    for option in (
        click.option("--execute", is_flag=True, help="Act; otherwise only say what would change."),
        click.option("--reason", default="", help="Reason, for the audit trail."),
    ):
        command = option(command)
    return with_settings(format_option(command))


group_argument = click.argument("group", required=False)
all_option = click.option("--all", "everyone", is_flag=True, help="Act on all groups.")


def _group(group: str | None, everyone: bool) -> str:
    if (group is None) is not everyone:
        raise click.UsageError("name one group, or give --all")
    return ALL if group is None else group


def _act(source: SettingsSource, form: str, execute: bool, reason: str, **fields: Any) -> None:
    """Act on an order, and print what it changes."""
    from levelwind.daemon.inspection.shown_orders.order_text import print_outcome  # noqa: PLC0415 - see the package
    from levelwind.daemon.levers.acting import act  # noqa: PLC0415 - see the package
    from levelwind.daemon.levers.orders import Operator, OperatorOrder  # noqa: PLC0415 - see the package

    order = OperatorOrder(**fields)
    settings = source.read()
    outcome = act(settings, order, Operator.of_command_line(), reason=reason, execute=execute)
    if form == "json":
        click.echo(json.dumps(outcome.as_json(), sort_keys=True))
    else:
        print_outcome(outcome)


@click.command()
@click.argument("group")
@lever_options
def plan(group: str, **options: Any) -> None:
    """Compute a plan of GROUP from levelwind's topics: what changes, scores and proven bounds.

    No daemon need run. With --execute the daemon that leads is asked for a plan, which it computes
    from what it knows then; save the output of --format json for `apply` to have this very plan.
    """
    _act(action="rebalance", group=group, **options)


@click.command()
@click.argument("group")
@click.option("--from", "before", metavar="PLAN", help="A recorded plan; by default what is owned.")
@click.option("--to", "after", metavar="PLAN", help="A recorded plan; by default one made now.")
@with_settings
@format_option
def diff(
    group: str, before: str | None, after: str | None, source: SettingsSource, form: str
) -> None:
    """List each partition that is with another member in one plan of GROUP than in the other."""
    from levelwind.daemon.inspection.shown_orders.order_text import print_moves  # noqa: PLC0415 - see the package
    from levelwind.daemon.levers.differences import moves_between  # noqa: PLC0415 - see the package

    moves = moves_between(source.read(), group, before, after)
    if form == "json":
        for move in moves:
            click.echo(json.dumps(move, sort_keys=True))
    else:
        print_moves(moves)
        echo(f"{len(moves)} partitions differ", err=True)


@click.command()
@click.argument("group")
@click.argument("file", type=click.File("rb"))
@lever_options
def apply(group: str, file: Any, **options: Any) -> None:
    """Give GROUP exactly the assignment of FILE, the output of `plan --format json`.

    FILE needs only `target`: by member and topic, ranges of partitions. A plan of other members or
    topics than the group has is refused.
    """
    from levelwind.daemon.levers.orders import OrderError, parse_target  # noqa: PLC0415 - see the package

    try:
        fields = json.load(file)
    except (ValueError, RecursionError) as error:  # no JSON, or nested too deeply
        raise OrderError(f"{file.name}: is no JSON: {error}") from error
    if isinstance(fields, dict) and isinstance(fields.get("preview"), dict):
        fields = fields["preview"]
    target = parse_target(fields.get("target") if isinstance(fields, dict) else None)
    _act(action="apply", group=group, target=target, **options)


@click.command()
@click.argument("group")
@click.argument("partition", metavar="TOPIC/N")
@click.argument("member")
@lever_options
def pin(group: str, partition: str, member: str, **options: Any) -> None:
    """Keep a partition with a member while that member reads its topic."""
    _act(action="pin", group=group, subject=partition, value=member, **options)


@click.command()
@click.argument("group")
@click.argument("partition", metavar="TOPIC/N")
@lever_options
def unpin(group: str, partition: str, **options: Any) -> None:
    """Release the pin of a partition."""
    _act(action="unpin", group=group, subject=partition, **options)


def _drain(
    group: str | None, member: str | None, rack: str | None, everyone: bool, *, back: bool
) -> dict[str, Any]:
    if everyone and group is not None and member is None:
        group, member = None, group  # `drain --all MEMBER`
    if (member is None) is (rack is None):
        raise click.UsageError("name one member, or one rack by --rack")
    if rack is not None:
        action = "return" if back else "evacuate"
        return {"action": action, "group": _group(group, everyone), "subject": rack}
    action = "undrain" if back else "drain"
    return {"action": action, "group": _group(group, everyone), "subject": member or ""}


rack_option = click.option("--rack", help="A rack instead of a member.")
member_argument = click.argument("member", required=False)


@click.command()
@group_argument
@member_argument
@rack_option
@all_option
@lever_options
def drain(
    group: str | None, member: str | None, rack: str | None, everyone: bool, **options: Any
) -> None:
    """Take everything from MEMBER, or from the members in a rack, that another member can read."""
    _act(**_drain(group, member, rack, everyone, back=False), **options)


@click.command()
@group_argument
@member_argument
@rack_option
@all_option
@lever_options
def undrain(
    group: str | None, member: str | None, rack: str | None, everyone: bool, **options: Any
) -> None:
    """Let MEMBER, or the members in a rack, have partitions again."""
    _act(**_drain(group, member, rack, everyone, back=True), **options)


@click.command()
@group_argument
@all_option
@lever_options
def pause(group: str | None, everyone: bool, **options: Any) -> None:
    """Make no plan for racks or skew, and move only what must move, until `resume`."""
    _act(action="pause", group=_group(group, everyone), **options)


@click.command()
@group_argument
@all_option
@lever_options
def resume(group: str | None, everyone: bool, **options: Any) -> None:
    """End a pause."""
    _act(action="resume", group=_group(group, everyone), **options)


@click.command()
@click.argument("group")
@click.argument("name", required=False, default="")
@lever_options
def strategy(group: str, name: str, **options: Any) -> None:
    """Plan GROUP by the strategy NAME; without NAME by that of the configuration again."""
    _act(action="strategy", group=group, value=name, **options)


@click.command()
@click.argument("group")
@click.argument("name", metavar="PLAN")
@lever_options
def approve(group: str, name: str, **options: Any) -> None:
    """Publish the plan of GROUP that waits for approval."""
    _act(action="approve", group=group, subject=name, **options)


@click.command()
@click.argument("group")
@click.option("--to", "name", metavar="PLAN", required=True, help="A plan of `decisions`.")
@lever_options
def rollback(group: str, name: str, **options: Any) -> None:
    """Give GROUP the assignment of an earlier plan again, and pause it."""
    _act(action="rollback", group=group, subject=name, **options)


@click.command()
@click.argument("group", required=False)
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True)
@click.option("--inputs", is_flag=True, help="With --format json, also what plans were made from.")
@with_settings
@format_option
def decisions(
    group: str | None, limit: int, inputs: bool, source: SettingsSource, form: str
) -> None:
    """List the newest decisions about GROUP, or about all groups, and the orders of operators."""
    from levelwind.daemon.decisions.reading import read_decisions  # noqa: PLC0415 - see the package
    from levelwind.daemon.inspection.shown_orders.order_text import print_decisions  # noqa: PLC0415 - see the package

    entries = read_decisions(source.read(), group, limit=limit)
    if form == "json":
        for entry in entries:
            click.echo(json.dumps(entry.as_json(inputs=inputs), sort_keys=True))
    else:
        print_decisions(entries)


@click.command()
@click.argument("name", metavar="DECISION")
@click.option("--group", metavar="NAME", help="The group, where several have such a plan.")
@with_settings
@format_option
def replay(name: str, group: str | None, source: SettingsSource, form: str) -> None:
    """Compute the plan of a decision again from its recorded inputs, and compare the two.

    DECISION is a decision's name or its plan's. Ends with 1 where they differ.
    """
    from levelwind.daemon.decisions.reading import find_decision  # noqa: PLC0415 - see the package
    from levelwind.daemon.decisions.replay import replay as compute  # noqa: PLC0415 - see the package
    from levelwind.daemon.inspection.shown_orders.order_text import print_replay  # noqa: PLC0415 - see the package

    result = compute(find_decision(source.read(), name, group))
    if form == "json":
        click.echo(json.dumps(result.as_json(), sort_keys=True))
    else:
        print_replay(result)
    if not result.identical:
        raise SystemExit(1)

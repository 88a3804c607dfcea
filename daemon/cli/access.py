"""The command that prints the rights of each role."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from levelwind.daemon.cli.options import format_option, with_settings
from levelwind.daemon.console import echo

if TYPE_CHECKING:
    from levelwind.daemon.cli.options import SettingsSource

ROLES = ("daemon", "pipeline", "consumer", "subscriber", "operator", "assess")


@click.command()
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="daemon",
    show_default=True,
    help="Whose rights: daemon (with a pipeline that is its child and uses the same user); "
    "pipeline (one with a user of its own); consumer (ManagedConsumer); subscriber "
    "(PublishedAssignor); operator (the commands that show groups and act on them); assess "
    "(`levelwind assess`).",
)
@click.option(
    "--principal",
    default="User:levelwind",
    show_default=True,
    help="The principal to grant the rights to.",
)
@click.option("--group", metavar="NAME", help="The group of a consumer or subscriber.")
@click.option(
    "--topic",
    "names",
    multiple=True,
    metavar="NAME",
    help="A topic that the daemon or `assess` observes, or the consumer reads; NAME* is a prefix. "
    "May be repeated; by default all are observed.",
)
@click.option(
    "--fencing",
    type=click.Choice(["none", "broker"]),
    default="none",
    show_default=True,
    help="The consumer's `fencing`.",
)
@with_settings
@format_option
def acls(
    role: str,
    principal: str,
    group: str | None,
    names: tuple[str, ...],
    fencing: str,
    source: SettingsSource,
    form: str,
) -> None:
    """Print the commands that grant one role exactly the rights that it needs."""
    from levelwind.daemon.access import role_rights as rights  # noqa: PLC0415 - see the package

    settings = source.read()
    if role in {"consumer", "subscriber"} and not (group and names):
        raise click.UsageError(f"--role {role} needs --group and at least one --topic")
    match role:
        case "daemon":
            found = rights.daemon_rights(
                settings.topics,
                observed=names or (rights.EVERY,),
                proxied=settings.proxied_groups(),
                polled=settings.commits.polled,
            )
        case "pipeline":
            found = rights.pipeline_rights(settings.topics, polled=settings.commits.polled)
        case "consumer":
            found = rights.consumer_rights(settings.topics, group or "", names, fencing=fencing)
        case "subscriber":
            found = rights.subscriber_rights(settings.topics, group or "", names)
        case "assess":
            found = rights.assessment_rights(names or (rights.EVERY,))
        case _:
            found = rights.operator_rights(settings.topics)
    if form == "json":
        for right in found:
            click.echo(json.dumps({"principal": principal, **asdict(right)}, sort_keys=True))
        return
    tool = (
        f"kafka-acls.sh --bootstrap-server {settings.bootstrap} --command-config admin.properties"
    )
    for line in rights.commands(found, principal, tool=tool):
        echo(line)

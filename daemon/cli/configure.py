"""`levelwind config`: the settings checked, and shown with their sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from levelwind.daemon.cli.options import format_option, with_settings
from levelwind.daemon.config.listen import listen_address
from levelwind.daemon.console import echo

if TYPE_CHECKING:
    from levelwind.daemon.cli.options import SettingsSource


@click.group()
def config() -> None:
    """Check the settings, or show them with their sources."""


@config.command(short_help="Check the settings.")
@with_settings
def check(source: SettingsSource) -> None:
    """Check all settings, the files that hold secrets, and the Java client's settings.

    Nothing is started, and no cluster is asked. Ends with 2 where something is wrong.
    """
    settings = source.read()
    settings.client()
    if settings.pipeline.run == "child":
        settings.java_client()
    for name, listen in (
        ("metrics.listen", settings.metrics.listen),
        ("http.listen", settings.http.listen),
    ):
        if listen:
            listen_address(name, listen)
    click.echo("the settings are valid", err=True)


@config.command(short_help="Show the settings.")
@click.option("--defaults", is_flag=True, help="Show settings, too, that no source names.")
@click.option("--java", is_flag=True, help="Show, too, what the Java client is given.")
@click.option("--levers", is_flag=True, help="Show, too, the levers in force; asks the cluster.")
@with_settings
@format_option
def show(defaults: bool, java: bool, levers: bool, source: SettingsSource, form: str) -> None:
    """Show the effective settings and the source of each; secrets are masked."""
    from levelwind.daemon.config.secrets import masked  # noqa: PLC0415 - see the package
    from levelwind.daemon.config.shown import shown_settings  # noqa: PLC0415 - see the package

    rows: list[dict[str, Any]] = [
        setting._asdict()
        for setting in shown_settings(source.config, source.tree(), defaults=defaults)
    ]
    settings = source.read()
    if java:
        rows += [
            {"path": f"java.{name}", "value": masked(name, value), "origin": "derived or given"}
            for name, value in sorted(settings.java_client().items())
        ]
    if levers:
        from levelwind.daemon.levers.acting import read_control  # noqa: PLC0415 - see the package
        from levelwind.daemon.levers.preview import levers_in_force, override  # noqa: PLC0415 - as above

        rows += [override(settings, lever) for lever in levers_in_force(read_control(settings))]
    for row in rows:
        if form == "json":
            click.echo(json.dumps(row, sort_keys=True, default=str))
        else:
            value = json.dumps(row["value"], default=str, ensure_ascii=False)
            echo(f"{row['path']} = {value}  # {row['origin']}")

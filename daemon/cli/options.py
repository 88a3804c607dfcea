"""Options that several commands share, and what they come to."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.config.settings import Settings

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def with_settings(command: _Command) -> _Command:
    """Add the options that every command that talks to a cluster has."""
    # The last one that is added is listed first.
    for option in (
        click.option(
            "--set",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            help="Any setting, e.g. control.min_gain=0.2.",
        ),
        click.option(
            "--bootstrap", metavar="HOST:PORT[,…]", help="The Kafka cluster (setting `bootstrap`)."
        ),
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The settings, a TOML file.",
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
    config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], **options: Any
) -> Settings:
    """Load the settings from the options of a command.

    Raises:
        ConfigurationError: they are wrong; says which and why.
        click.BadParameter: a pair is no `KEY=VALUE`, or contradicts one before it.
    """
    from daemon.config.settings import load  # noqa: PLC0415 - see the package

    overrides: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if bootstrap is not None:
        overrides["bootstrap"] = bootstrap
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} has no '='", param_hint="--set")
        *tables, name = _path(key)
        if not all((*tables, name)):
            raise click.BadParameter(f"{pair!r} names no setting", param_hint="--set")
        tree = overrides
        for table in tables:
            tree = tree.setdefault(table, {})
            if not isinstance(tree, dict):
                raise click.BadParameter(
                    f"{pair!r} contradicts a value of {table}", param_hint="--set"
                )
        if isinstance(tree.get(name), dict):
            raise click.BadParameter(
                f"{pair!r} contradicts a setting within {name}", param_hint="--set"
            )
        tree[name] = value
    return load(config, overrides)


def _path(key: str) -> list[str]:
    """The names on the way to a setting; those of clients' settings and of groups may have dots themselves."""
    from daemon.config.groups import GroupSection  # noqa: PLC0415 - see the package
    from daemon.config.settings import PASSED_THROUGH  # noqa: PLC0415 - see the package

    if table := PASSED_THROUGH.match(key):
        return [*table[1].split("."), key[table.end() :]]
    names = key.split(".")
    settings = {setting.name for setting in fields(GroupSection)}
    index = max((i for i, name in enumerate(names) if name in settings), default=0)
    if names[0] == "groups" and index > 1:
        return ["groups", ".".join(names[1:index]), *names[index:]]
    return names

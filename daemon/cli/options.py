"""Options that several commands share, and the settings that they result in."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import click

from levelwind.assignors.handover.timers import MAX_TIMER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.daemon.config.settings import Settings

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_Result = TypeVar("_Result")

DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class SettingsSource(NamedTuple):
    """The options of a command that name settings, as `with_settings` adds them."""

    config: Path | None = None
    """The file of `--config`."""
    bootstrap: str | None = None
    """The address of `--bootstrap`."""
    pairs: tuple[str, ...] = ()
    """Each `--set`."""

    def naming(self, values: Mapping[str, str | None]) -> SettingsSource:
        """Add settings that a command's own options name; they win over each `--set`.

        Args:
            values: the values by the settings' keys; None: the option is not given.
        """
        pairs = (f"{key}={value}" for key, value in values.items() if value is not None)
        return self._replace(pairs=(*self.pairs, *pairs))

    def read(self) -> Settings:
        """Load the settings.

        Raises:
            ConfigurationError: a setting is wrong; the message names the setting and the reason.
            click.BadParameter: a pair is not `KEY=VALUE`, or contradicts an earlier pair.
        """
        from levelwind.daemon.config.settings import load  # noqa: PLC0415 - see the package

        return load(self.config, self.tree())

    def tree(self) -> dict[str, Any]:
        """Return the settings that the options name, as a tree.

        The last that names a setting counts, and `--bootstrap` wins over each `--set`.

        Raises:
            click.BadParameter: a pair is not `KEY=VALUE`, or contradicts an earlier pair.
        """
        overrides: dict[str, Any] = {}
        address = () if self.bootstrap is None else (f"bootstrap={self.bootstrap}",)
        for pair in (*self.pairs, *address):
            check_utf8(pair, param_hint="--set")
            key, equals, value = pair.partition("=")
            if not equals:
                raise click.BadParameter(f"{pair!r} must be KEY=VALUE", param_hint="--set")
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
        return overrides


config_option = partial(click.option, "--config", type=click.Path(path_type=Path, dir_okay=False))
set_option = click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override one setting, e.g. control.min_gain=0.2; may be repeated.",
)


def with_settings(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Add the options of every command that talks to a cluster, and pass them as its `source`.

    A text of the command line that is no UTF-8 is refused, since no record and no request has it;
    the name of a file may be any.
    """

    @wraps(command)
    def with_source(
        config: Path | None, bootstrap: str | None, pairs: tuple[str, ...], **options: Any
    ) -> _Result:
        context = click.get_current_context()
        for parameter in context.command.params:
            given = context.params.get(parameter.name or "")
            for text in given if isinstance(given, tuple) else (given,):
                if isinstance(text, str):
                    check_utf8(text, param=parameter)
        return command(source=SettingsSource(config, bootstrap, pairs), **options)

    # Click lists the option that was added last first.
    for option in (
        set_option,
        click.option(
            "--bootstrap",
            metavar="HOST:PORT[,…]",
            help="Address of the Kafka cluster; overrides the setting `bootstrap`.",
        ),
        config_option(help="TOML file with the settings."),
    ):
        with_source = option(with_source)
    return with_source


def check_utf8(text: str, **parameter: Any) -> None:
    """Raise `click.BadParameter` if a text has bytes of the command line that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{text!r} is no UTF-8", **parameter) from None


class Figure(click.FloatRange):
    """A number within two bounds: a range of click's lets nan pass, and inf where it has one."""

    def __init__(self, least: float, most: float, *, above: bool = False) -> None:
        """Begin.

        Args:
            least: the lower bound.
            most: the upper bound.
            above: whether the lower bound itself is refused.
        """
        super().__init__(least, most, min_open=above)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number", param, ctx)
        return number


class Duration(click.ParamType[float]):
    """A time as in 90, 90s, 5m or 1h, in seconds; at most a century."""

    name = "duration"
    UNITS: ClassVar = {"s": 1.0, "m": 60.0, "h": 3600.0}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the time."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        unit = self.UNITS.get(text[-1:])
        digits = text if unit is None else text[:-1]
        if not DECIMAL.fullmatch(digits):
            self.fail(f"{value!r} is no time such as 90s, 5m or 1h", param, ctx)
        seconds = float(digits) * (unit or 1.0)
        if seconds > MAX_TIMER_SECONDS:
            self.fail(f"{value!r} is more than a century", param, ctx)
        return seconds


def format_option(command: _Command) -> _Command:
    """Add `--format`."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of the output; json prints one object a line.",
    )(command)


def _path(key: str) -> list[str]:
    """Split a key into the names of its tables and of the setting.

    Names of client settings and of groups may contain dots themselves.
    """
    from levelwind.daemon.config.groups import GroupSection  # noqa: PLC0415 - see the package
    from levelwind.daemon.config.settings import PASSED_THROUGH  # noqa: PLC0415 - see the package

    if (table := PASSED_THROUGH.match(key)) and table[2]:
        return [*table[1].split("."), key[table.end() :]]
    names = key.split(".")
    settings = {setting.name for setting in fields(GroupSection)}
    index = max((i for i, name in enumerate(names) if name in settings), default=0)
    if names[0] == "groups" and index > 1:
        return ["groups", ".".join(names[1:index]), *names[index:]]
    return names

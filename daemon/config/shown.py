"""The effective settings, where each comes from, and what a reload of them can change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from levelwind.daemon.config.secrets import masked
from levelwind.daemon.config.settings import PASSED_THROUGH, Settings, layers, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from levelwind.daemon.config.groups import GroupSection

DEFAULT = "default"
"""Origin of a setting that no source names."""

RELOADED = ("groups", "control", "log.level")
"""Settings that a reload changes in a running daemon; all others need a restart."""

RESTARTED_GROUP_SETTINGS = frozenset({"mode", "reset_policy", "scaling"})
"""Settings of a group that need a restart: who applies its plans, what the pipeline is told, and
what the metrics go by."""


class ShownSetting(NamedTuple):
    """One effective setting."""

    path: str
    value: Any
    """The value as JSON has it; a secret is masked."""
    origin: str
    """The file, `environment`, `command line` or `default`."""


def shown_settings(
    path: Path | None, overrides: Mapping[str, Any], *, defaults: bool = False
) -> list[ShownSetting]:
    """Return the effective settings, by their paths.

    Args:
        path: the TOML file; None for none.
        overrides: a tree of settings that win over all others (the command line's options).
        defaults: whether to return settings, too, that no source names.

    Raises:
        ConfigurationError: as `load`.
    """
    settings = load(path, overrides)
    origins = {name: origin for origin, layer in layers(path, overrides) for name in _leaves(layer)}
    found = []
    for name, value in flattened(settings):
        origin = _origin(name, origins)
        if defaults or origin != DEFAULT:
            found.append(ShownSetting(name, masked_setting(name, value), origin))
    return found


def _origin(name: str, origins: Mapping[str, str]) -> str:
    if name in origins:
        return origins[name]
    within = [origin for path, origin in origins.items() if path.startswith(f"{name}.")]
    return within[-1] if within else DEFAULT


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield path + key


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of a settings object with their paths; an empty table is no setting."""
    if isinstance(value, BaseModel):
        inner: Mapping[str, Any] = {name: getattr(value, name) for name in type(value).model_fields}
    elif is_dataclass(value):
        inner = {setting.name: getattr(value, setting.name) for setting in fields(value)}
    elif isinstance(value, Mapping):
        inner = {str(key): item for key, item in value.items()}
    else:
        yield path, str(value) if isinstance(value, PurePath) else value
        return
    for name, item in inner.items():
        yield from flattened(item, f"{path}.{name}" if path else name)


def masked_setting(name: str, value: Any) -> Any:
    """Return the value of a setting, masked where it is a secret."""
    table = PASSED_THROUGH.match(name)
    return masked(name[table.end() :], value) if table else value


class ReloadedSettings(NamedTuple):
    """What a reload changes, and what it cannot change."""

    settings: Settings
    """The settings in force after it."""
    changed: list[str]
    """Paths of the settings that have changed."""
    restart_needed: list[str]
    """Paths of those that keep their old value until a restart."""


def reloaded(before: Settings, read: Settings) -> ReloadedSettings:
    """Take over from the settings that were read what can change in a running daemon.

    Args:
        before: the settings in force.
        read: the settings as they were read again.
    """
    named = dict.fromkeys([*read.groups, *before.groups])
    old, new = (dict(flattened(_with_tables(it, named))) for it in (before, read))
    differing = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    can = [name for name in differing if _can_reload(name)]
    groups = {}
    for name in named:
        section = read.section_of(name)
        kept = _with_old_identity(before.section_of(name), section)
        if name in read.groups or kept != section:
            groups[name] = kept
    settings = before.model_copy(
        update={
            "groups": groups,
            "control": read.control,
            "log": type(before.log)(level=read.log.level, format=before.log.format),
        }
    )
    return ReloadedSettings(settings, can, [name for name in differing if name not in can])


def _with_tables(settings: Settings, groups: Iterable[str]) -> Settings:
    """Return settings with a table for each group, so that what holds for it is compared."""
    tables = {name: settings.section_of(name) for name in groups}
    return settings.model_copy(update={"groups": tables})


def _can_reload(name: str) -> bool:
    if name.startswith("groups."):
        last = name.rpartition(".")[2]
        return last not in RESTARTED_GROUP_SETTINGS and ".scaling." not in name
    return any(name == path or name.startswith(f"{path}.") for path in RELOADED)


def _with_old_identity(old: GroupSection, section: GroupSection) -> GroupSection:
    """Return a group's new section with the settings of the old one that need a restart."""
    return replace(section, **{name: getattr(old, name) for name in RESTARTED_GROUP_SETTINGS})

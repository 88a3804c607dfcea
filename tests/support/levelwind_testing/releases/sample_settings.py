"""The settings file of a corpus: what it says, by path and as variables, and what it lacks."""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from levelwind.daemon.config import reference
from levelwind.daemon.config.settings import PASSED_THROUGH, Settings

NAMES = ("groups.", "control.cooldown.moves_per_hour.")
"""Tables with names of their own in them, which no variable gives."""


def values(text: str) -> dict[str, Any]:
    """Return what a settings file says, by the path of each setting."""
    return dict(_leaves(tomllib.loads(text)))


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield path + name, value


def variables(said: Mapping[str, Any]) -> dict[str, str]:
    """Return the path of each variable that says the same, where one has one plain value.

    Args:
        said: values by path.
    """
    return {
        "LEVELWIND_" + path.upper().replace(".", "__"): path
        for path, value in said.items()
        if not path.startswith(NAMES)
        and not PASSED_THROUGH.match(path)
        and not isinstance(value, list)
    }


def without(paths: Collection[str], text: str) -> str:
    """Return a settings file without some settings, each of which has a line of its own."""
    section, kept = "", []
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            section = line.strip("[]\n") + "."
        if section + line.partition(" = ")[0] not in paths:
            kept.append(line)
    return "".join(kept)


def unnamed(text: str) -> list[str]:
    """Return the settings that a settings file does not name."""
    named = [path.split(".") for path in values(text)]
    return [
        setting.path
        for setting in reference.settings_of(Settings)
        if not any(_is_of(path, setting.path.split(".")) for path in named)
    ]


def _is_of(path: list[str], setting: list[str]) -> bool:
    """Whether a path is that of a setting, or of an entry of a setting that is a table."""
    return len(path) >= len(setting) and all(
        wanted in (part, "NAME") for part, wanted in zip(path, setting, strict=False)
    )

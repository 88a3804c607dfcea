"""What deploy/ holds for containers, Kubernetes and systemd, read for tests."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import click

from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import ENVIRONMENT

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DOCKER = DEPLOY / "docker"
CHART = DEPLOY / "helm" / "levelwind"
SYSTEMD = DEPLOY / "systemd"


@dataclass(slots=True)
class Stage:
    """A stage of a Dockerfile: its name, its base and its instructions in their order."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def values(self, keyword: str) -> list[str]:
        """Arguments of each instruction of a kind."""
        return [value for word, value in self.instructions if word == keyword]


def dockerfile_stages(text: str) -> dict[str, Stage]:
    """The stages of a Dockerfile by name."""
    joined = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    stages: dict[str, Stage] = {}
    current: Stage | None = None
    for line in filter(None, map(str.strip, joined.splitlines())):
        keyword, _, rest = line.partition(" ")
        if keyword == "FROM":
            base, _, name = rest.partition(" AS ")
            current = stages[name] = Stage(name, base)
        elif current is not None:
            current.instructions.append((keyword, rest.strip()))
    return stages


def inherited(stages: dict[str, Stage], name: str, keyword: str) -> str | None:
    """The last instruction of a kind in a stage, or in the stages that it is based on."""
    stage = stages[name]
    if values := stage.values(keyword):
        return values[-1]
    return inherited(stages, stage.base, keyword) if stage.base in stages else None


def unit_options(text: str) -> dict[str, list[str]]:
    """The options of a systemd unit, each with its values in their order."""
    options: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            options.setdefault(name, []).append(value)
    return options


def parsed_command(words: list[str]) -> str:
    """Parse the arguments of `levelwind` as the command line does; return the command's name.

    Raises:
        click.ClickException: there is no such command or option.
    """
    with click.Context(main) as context:
        name, command, rest = main.resolve_command(context, list(words))
        assert command is not None
        command.make_context(str(name), rest, parent=context)
    return str(name)


def levelwind_variables(environment: dict[str, str]) -> dict[str, str]:
    """The variables that are settings."""
    return {name: value for name, value in environment.items() if name.startswith(ENVIRONMENT)}


def words_of(command: str) -> list[str]:
    """The words of a command line."""
    return shlex.split(command)

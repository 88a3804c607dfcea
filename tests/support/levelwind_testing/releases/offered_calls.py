"""What people and programs call: commands with their options, and the libraries."""

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any

import click

from levelwind import assignors
from levelwind.clients import classic, confluent
from levelwind.daemon.cli.main import main
from levelwind.daemon.errors import LevelwindError
from levelwind_testing.source_tree import syntax_tree

CLASSIC_SHELLS = ("kafka_python", "aiokafka")


def commands() -> Iterator[str]:
    """Yield each command, its arguments and options, and what these may be."""
    for words, command in _commands("levelwind", main):
        yield words
        for parameter in command.params:
            named = [f"{words} {spelling}" for spelling in _spellings(parameter)]
            yield from named
            if isinstance(parameter.type, click.Choice):
                yield from (f"{each}={value}" for each in named for value in parameter.type.choices)


def needed_arguments() -> Iterator[str]:
    """Yield the arguments and options that a command cannot do without."""
    for words, command in _commands("levelwind", main):
        for parameter in command.params:
            if parameter.required:
                yield f"{words} {_spellings(parameter)[0]}"


def _commands(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(f"{words} {name}", inner)


def _spellings(parameter: click.Parameter) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [parameter.human_readable_name]
    return [*parameter.opts, *parameter.secondary_opts]


def exit_codes() -> Iterator[str]:
    """Yield the exit code of each error that ends a command."""
    kinds = [LevelwindError]
    for kind in kinds:
        kinds += [each for each in kind.__subclasses__() if not each.__name__.startswith("_")]
        yield f"{kind.__name__} {kind.exit_code}"


def calls() -> Iterator[str]:
    """Yield the public names of the libraries, and the arguments of their calls."""
    yield from (f"{assignors.__name__}.{name}" for name in assignors.__all__)
    for client in CLASSIC_SHELLS:  # their clients alone call the methods
        yield from (f"levelwind.clients.{client}.{name}" for name in _exported(client))
    for module in (confluent, classic):
        for name in module.__all__:
            yield from _calls(module, name)


def _exported(client: str) -> list[str]:
    """Return `__all__` of a client's module, without the import of the client that it adapts."""
    for node in syntax_tree(f"levelwind.assignors.clients.public.{client}").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def _calls(module: ModuleType, name: str) -> Iterator[str]:
    public = getattr(module, name)
    yield (whole := f"{module.__name__}.{name}")
    if not inspect.isclass(public):
        yield from _arguments(whole, public)
        return
    if not issubclass(public, Exception | Enum):
        yield from _arguments(whole, public)
    own = [base for base in public.__mro__ if base.__module__.startswith("levelwind.")]
    for inner, member in {name: each for base in own for name, each in vars(base).items()}.items():
        if not inner.startswith("_"):
            yield f"{whole}.{inner}"
            if inspect.isfunction(member):
                yield from _arguments(f"{whole}.{inner}", member)


def _arguments(path: str, call: Any) -> Iterator[str]:
    for name, parameter in inspect.signature(call).parameters.items():
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            yield f"{path} ({name})"

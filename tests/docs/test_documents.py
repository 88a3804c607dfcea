"""The documents' links, paths, commands, settings, events, metrics and examples exist and work."""

import ast
import json
import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import click
import pytest
from prometheus_client.core import Metric

from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import Settings, load
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.service.metrics import Metrics, families
from levelwind.daemon.telemetry.log_events import EVENTS
from levelwind_testing.control.play import Play
from levelwind_testing.source_tree import NAME, ROOT, package_folders

README = ROOT / "README.md"
CHANGELOG = ROOT / "CHANGELOG.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
OPERATIONS = ROOT / "docs" / "operations.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", CHANGELOG, *sorted((ROOT / "docs").glob("*.md")))
ARCHITECTURE = ROOT / "docs" / "architecture.md"
README_LINES = 150
MOST_STOPS = 12
TOP_FOLDERS = "assignors|streaming|daemon|deploy|tests|docs"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PATH = re.compile(rf"(?<![\w./-])(?:{TOP_FOLDERS})/[\w./-]+")
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)")
MODULE = re.compile("|".join(rf"{name}\b" for name in package_folders()))
DOTTED = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
KAFKAS_UNITS = (".ms", ".minutes", ".bytes", ".size")
"""Ends of names that are Kafka's: levelwind's own settings are in seconds, and name no unit so."""
DEFINED = re.compile(r"[A-Z][A-Za-z]+|[A-Za-z_.]+\(\)")
STOP = re.compile(r"^\d+\. .*?(?=^\d+\. |\n\n|\Z)", re.MULTILINE | re.DOTALL)
METRIC = re.compile(r"^levelwind_[a-z_]+")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*match.groups()) for match in FENCE.finditer(page.read_text())]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def spans(page: Path) -> list[str]:
    return SPAN.findall(prose(page))


def code(page: Path) -> list[str]:
    """Code spans and the lines of fenced blocks."""
    return [*spans(page), *chain.from_iterable(block.text.splitlines() for block in blocks(page))]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in HEADING.findall(prose(page))}


def paths(text: str) -> list[str]:
    """What looks like a path of the repository."""
    return [path.rstrip(".") for path in PATH.findall(text)]


def command_lines(texts: Iterable[str]) -> Iterator[list[str]]:
    """The words of each `levelwind ...` command, without a prompt and what is piped into it."""
    for text in texts:
        line = text.strip().removeprefix("$ ").rpartition(" | ")[2]
        if line.startswith("levelwind "):
            yield shlex.split(line, comments=True)[1:]


def command_tree() -> dict[str, click.Command]:
    """Every subcommand by name, imported."""
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in commands.items() if command is not None}


def options_of(command: click.Command) -> set[str]:
    names = chain.from_iterable([*each.opts, *each.secondary_opts] for each in command.params)
    return {*names, "--help", "-h"}


def wrong_words(words: list[str]) -> list[str]:
    """The subcommand and options of a command line that the command tree lacks."""
    if words[0].startswith("-"):
        known = options_of(main) | {"--version"}
        return [word for word in words if word.startswith("-") and word not in known]
    command = command_tree().get(words[0])
    if command is None:
        return [words[0]]
    given = (word.partition("=")[0] for word in words[1:] if word.startswith("-") and word != "-")
    return [word for word in given if word not in options_of(command)]


def setting_paths(shape: Any, path: str = "") -> Iterator[str]:
    """Every setting of a settings class, and every table on the way to it."""
    model = getattr(shape, "model_fields", None)
    names = model or [each.name for each in fields(shape)]
    hints = get_type_hints(shape)
    for name in names:
        yield path + name
        inner = hints[name]
        section = next((each for each in (inner, *get_args(inner)) if is_section(each)), None)
        if section is not None:
            each = f"{path}{name}." if section is inner else f"{path}{name}.NAME."
            yield from setting_paths(section, each)


def is_section(shape: Any) -> bool:
    return isinstance(shape, type) and is_dataclass(shape)


def is_module(dotted: str) -> bool:
    for name, folder in package_folders().items():
        if f"{dotted}.".startswith(f"{name}."):
            dotted = f"{folder}{dotted.removeprefix(name)}"
            break
    path = ROOT / dotted.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def definitions(path: str) -> set[str]:
    """The functions, methods and classes of a module of the repository."""
    file = ROOT / path
    tree = ast.parse(file.read_text() if file.suffix == ".py" and file.is_file() else "")
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def client_events() -> set[str]:
    """Every string of the clients' code that looks like an event."""
    trees = (ast.parse(file.read_text()) for file in (ROOT / "assignors" / "clients").rglob("*.py"))
    nodes = chain.from_iterable(map(ast.walk, trees))
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    texts = (text.split(" ")[0] for text in constants if isinstance(text, str))
    return {text for text in texts if DOTTED.fullmatch(text)}


def exported_metrics() -> set[str]:
    def name(family: Metric) -> str:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        return family.name + suffix

    metrics = Metrics("0", now=time.time)
    play = Play()
    play.start()
    facts = facts_about(play.state)
    exported = chain(metrics.registry.collect(), families(facts, 0.0))
    return {name(family) for family in exported if family.name.startswith("levelwind")}


def examples(language: str) -> list[Any]:
    every = ((page, block) for page in PAGES for block in blocks(page))
    found = ((page, block.text) for page, block in every if block.language == language)
    return [pytest.param(text, id=f"{page.name}-{n}") for n, (page, text) in enumerate(found)]


def of_pages(*left_out: Path) -> Any:
    pages = [page for page in PAGES if page not in left_out]
    return pytest.mark.parametrize("page", pages, ids=[page.name for page in pages])


SETTINGS = set(setting_paths(Settings))
EVENT_AREAS = {name.partition(".")[0] for name in (*EVENTS, *client_events())} - {NAME}


@of_pages()
def test_links_and_anchors_resolve(page):
    broken = []
    for link in LINK.findall(prose(page)):
        file, _, anchor = link.partition("#")
        if file.startswith(("http://", "https://")):
            continue
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@of_pages()
def test_paths_exist(page):
    named = chain.from_iterable(map(paths, code(page)))
    assert [path for path in named if not (ROOT / path).exists()] == []


@of_pages()
def test_make_targets_exist(page):
    rules = re.findall(r"^([a-z][a-z -]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = set(chain.from_iterable(map(str.split, rules)))
    named = chain.from_iterable(map(TARGET.findall, code(page)))
    assert [target for target in named if target not in targets] == []


@of_pages()
def test_commands_and_their_options_exist(page):
    wrong = {" ".join(words): wrong_words(words) for words in command_lines(code(page))}
    assert {line: words for line, words in wrong.items() if words} == {}


@of_pages(CHANGELOG)  # it names options that are no more
def test_options_that_stand_alone_exist(page):
    known = options_of(main).union(*map(options_of, command_tree().values()))
    named = (span.partition(" ")[0] for span in spans(page) if span.startswith("--"))
    assert [option for option in named if option not in known] == []


@of_pages(CHANGELOG)  # it names settings and events that are no more
def test_dotted_names_are_settings_events_or_modules(page):
    known = SETTINGS | EVENTS.keys() | client_events()
    areas = EVENT_AREAS | {name.partition(".")[0] for name in SETTINGS}
    dotted = filter(DOTTED.fullmatch, spans(page))
    named = [
        span
        for span in dotted
        if (span.partition(".")[0] in areas and not span.endswith(KAFKAS_UNITS))
        or MODULE.match(span)
    ]
    assert [name for name in named if name not in known and not is_module(name)] == []


def test_the_way_of_one_commit_names_what_its_files_define():
    _, _, section = prose(ARCHITECTURE).partition("## The way of one commit\n")
    stops = STOP.findall(section.partition("\n## ")[0])
    missing = []
    for stop in stops:
        defined = set(chain.from_iterable(map(definitions, paths(stop))))
        named = (span.removesuffix("()") for span in SPAN.findall(stop) if DEFINED.fullmatch(span))
        missing += [name for name in named if not set(name.split(".")) <= defined]
    assert missing == []
    assert 5 < len(stops) <= MOST_STOPS


def test_the_configuration_page_has_every_setting():
    text = prose(CONFIGURATION)
    leaves = [n for n in SETTINGS if not any(other.startswith(f"{n}.") for other in SETTINGS)]
    # A group's settings stand without the group; a pass-through table stands in brackets.
    shown = {name: name.removeprefix("groups.NAME.") for name in leaves}
    missing = [n for n, as_shown in shown.items() if not re.search(rf"[`\[]{as_shown}[`\]]", text)]
    assert missing == []


def test_the_operations_page_has_every_metric():
    lines = prose(OPERATIONS).splitlines()
    rows = [line for line in lines if line.startswith("| `levelwind_")]
    cells = chain.from_iterable(SPAN.findall(row.split(" | ")[0]) for row in rows)
    documented = {match[0] for match in map(METRIC.match, cells) if match}
    assert exported_metrics() - documented == set()
    assert documented - exported_metrics() == set()


def test_the_operations_page_has_every_event_of_consumers():
    members = {name for name in client_events() if name.startswith("member.")}
    assert members - set(spans(OPERATIONS)) == set()


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= README_LINES


@pytest.mark.parametrize("text", examples("toml"))
def test_toml_examples_are_settings(text, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("LEVELWIND_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "levelwind.toml"
    file.write_text(text)
    assert load(file).bootstrap


@pytest.mark.parametrize("text", examples("json"))
def test_json_examples_parse(text):
    assert json.loads(text)


@pytest.mark.parametrize("text", examples("python"))
def test_python_examples_are_python(text):
    assert ast.parse(text).body


# The test itself: what it looks for is found.


def test_what_is_checked_is_there_to_be_checked():
    texts = list(chain.from_iterable(map(code, PAGES)))
    assert len(PAGES) >= 14
    assert sum(len(LINK.findall(prose(page))) for page in PAGES) >= 20
    assert len(set(chain.from_iterable(map(paths, texts)))) >= 40
    shown = {name for name, command in main.commands.items() if not command.hidden}
    assert {words[0] for words in command_lines(texts)} >= shown
    assert len(examples("toml")) >= 2
    assert len(examples("json")) >= 2


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("levelwind run --config levelwind.toml", []),
        ("levelwind run --confg levelwind.toml", ["--confg"]),
        ("echo {} | levelwind assign", []),
        ("$ levelwind walk", ["walk"]),
        ("levelwind simulate --trace=day.jsonl --no-such=1", ["--no-such"]),
    ],
)
def test_a_wrong_command_is_found(line, wrong):
    (words,) = command_lines([line])
    assert wrong_words(words) == wrong


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("python tests/benchmarks/bench_rest.py --set a=b", ["tests/benchmarks/bench_rest.py"]),
        ("daemon/control", ["daemon/control"]),
        ("orders.placed/1", []),
        ("/var/lib/daemon/levelwind", []),
        ("application/json", []),
    ],
)
def test_a_path_is_what_begins_with_a_folder_of_the_repository(text, found):
    assert paths(text) == found


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Exit codes", "exit-codes"),
        ("levelwind.lag and levelwind.triggers", "levelwindlag-and-levelwindtriggers"),
        ("Rights (ACLs)", "rights-acls"),
        ("groups.NAME", "groupsname"),
    ],
)
def test_an_anchor_is_made_as_github_makes_it(heading, anchor):
    assert slug(heading) == anchor

"""The vocabulary of the log, the log calls in the code and the page of log events agree."""

import ast
import re
from pathlib import Path

import pytest

from levelwind.daemon.telemetry.log_events import EVENTS, VOCABULARY, table

ROOT = Path(__file__).parents[3]
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
NAME = re.compile(r"[a-z_]+\.[a-z_]+")


def calls():
    """Log calls of the daemon with a literal name: where, name, level or None, and fields."""
    for file in sorted((ROOT / "daemon").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (
                isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
            ):
                continue
            name = node.args[0].value
            if not (isinstance(name, str) and NAME.fullmatch(name)):
                continue
            fields = {keyword.arg for keyword in node.keywords if keyword.arg}
            where = f"{file.name}:{node.lineno}"
            if isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                yield where, name, node.func.attr, fields - {"exc_info"}
            elif isinstance(node.func, ast.Name) and node.func.id == "LogEvent":
                yield where, name, None, fields


CALLS = list(calls())


def test_the_calls_of_all_packages_are_looked_at():
    """A search that finds nothing would let every other test here pass."""
    assert len(CALLS) >= 71


@pytest.mark.parametrize(
    ("where", "name", "level", "fields"), CALLS, ids=[f"{c[0]}-{c[1]}" for c in CALLS]
)
def test_every_event_that_is_written_is_in_the_vocabulary(where, name, level, fields):
    event = EVENTS[name]
    assert level in {None, event.level}
    assert fields <= set(event.fields)


def test_every_word_of_the_vocabulary_is_written_somewhere():
    written = {name for _, name, _, _ in CALLS}
    source = "".join(
        file.read_text() for file in (ROOT / "daemon").rglob("*.py") if file.name != "log_events.py"
    )
    assert [
        event.name
        for event in VOCABULARY
        if event.name not in written and f'"{event.name}"' not in source
    ] == []


def test_the_vocabulary_names_each_event_once():
    assert len(EVENTS) == len(VOCABULARY)


def test_the_page_of_log_events_shows_the_vocabulary_and_nothing_else():
    page = (ROOT / "docs" / "log-events.md").read_text()
    assert table() in page
    shown = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert shown == [event.name for event in VOCABULARY]


def test_the_vocabulary_is_as_large_as_it_was():
    """A page and a vocabulary that are both empty would agree with each other."""
    assert len(VOCABULARY) >= 68

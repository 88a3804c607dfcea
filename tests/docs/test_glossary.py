"""Identifiers of the source contain none of the words that docs/glossary.md retires."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
SOURCE = ("assignors", "streaming", "daemon", "deploy")
LEAST_IDENTIFIERS = 50_000
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
ROW = re.compile(r"\| `([a-z_]+)` \| (.+) \|")


def retired_words(glossary: str) -> Mapping[str, str]:
    """Each retired word of the glossary's last table, with what to use instead."""
    _, _, section = glossary.partition("\n## Retired words\n")
    return {match[1]: match[2] for match in map(ROW.fullmatch, section.splitlines()) if match}


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a module defines or uses, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.keyword(arg=str(name)):
                yield name, node.value.lineno
            case ast.alias(name=name, asname=alias):
                yield alias or name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno
            case ast.MatchClass(kwd_attrs=names):
                yield from ((name, node.lineno) for name in names)
            case _:
                pass


def retired_in(identifier: str, retired: Mapping[str, str]) -> list[str]:
    """The retired words that an identifier contains as whole words."""
    words = f"_{'_'.join(word.lower() for word in WORD.findall(identifier))}_"
    return [word for word in retired if f"_{word}_" in words]


def source_identifiers() -> list[tuple[str, str]]:
    files = [file for top in SOURCE for file in sorted((ROOT / top).rglob("*.py"))]
    return [
        (f"{file.relative_to(ROOT)}:{line}", name)
        for file in files
        for name, line in identifiers(ast.parse(file.read_text()))
    ]


RETIRED = retired_words(GLOSSARY.read_text())


def test_the_glossary_retires_words():
    assert {"told", "said", "places", "turned_down", "audience"} <= RETIRED.keys()
    assert all(word == word.lower() for word in RETIRED)


@pytest.mark.parametrize(
    ("identifier", "found"),
    [
        ("told", ["told"]),
        ("_told_at", ["told"]),
        ("ToldRecord", ["told"]),
        ("HTTPPlaces", ["places"]),
        ("OF_PLACES", ["places"]),
        ("turnedDown", ["turned_down"]),
        ("turned", []),
        ("replace", []),
        ("placement", []),
        ("whole", []),
    ],
)
def test_a_retired_word_is_found_as_a_whole_word_alone(identifier, found):
    assert retired_in(identifier, RETIRED) == found


def test_every_way_to_name_something_is_an_identifier():
    source = """
import numpy as said
class Told(Base):
    def heard(self, places, *mine, theirs=0):
        self.anew = lambda there: call(who=there)
        match places:
            case Point(turn=1) | [*deaf]:
                pass
"""
    names = [name for name, _ in identifiers(ast.parse(source))]
    expected = "said told heard places mine theirs anew there who turn deaf"
    assert {word for name in names for word in retired_in(name, RETIRED)} == set(expected.split())


@pytest.mark.slow
def test_no_identifier_contains_a_retired_word():
    names = source_identifiers()
    assert len(names) > LEAST_IDENTIFIERS  # otherwise a folder has moved and nothing was checked
    found: dict[str, list[str]] = {}
    for where, name in names:
        for word in retired_in(name, RETIRED):
            found.setdefault(f"{name}: {word} is retired, use {RETIRED[word]}", []).append(where)
    shown = [f"{what} ({lines[0]}, {len(lines)} in all)" for what, lines in sorted(found.items())]
    assert shown == []

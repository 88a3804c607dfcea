"""The corpus of a release, in tests/data/releases: what it wrote, took, offered and needed."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from levelwind_testing.source_tree import ROOT

RELEASES = ROOT / "tests" / "data" / "releases"
Texts = Mapping[str, Iterable[str]]
"""Texts by area."""


@dataclass(frozen=True)
class ReleaseCorpus:
    """The corpus of one release, read from its directory."""

    directory: Path

    @property
    def version(self) -> str:
        """The version of the release."""
        return self.directory.name

    @property
    def settings_file(self) -> Path:
        """A settings file that names every setting, written by hand."""
        return self.directory / "levelwind.toml"

    @property
    def recorded(self) -> Path:
        """The file that `make corpus` writes last."""
        return self.directory / "interface.json"

    @property
    def records_file(self) -> Path:
        """A file with a line for each record."""
        return self.directory / "records.jsonl"

    @cached_property
    def records(self) -> list[tuple[str, bytes, bytes]]:
        """Topic, key and value of records of every kind."""
        lines = self.records_file.read_text().splitlines()
        return [
            (topic, key.encode(), value.encode()) for topic, key, value in map(json.loads, lines)
        ]

    @cached_property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """JSON schemas of the records, by kind."""
        return self._json("schemas.json")

    @cached_property
    def commit(self) -> str:
        """The commit of the release."""
        return str(self._json(self.recorded.name)["commit"])

    @cached_property
    def offers(self) -> dict[str, list[str]]:
        """Everything that others rely on, by area."""
        return _ungrouped(self._json(self.recorded.name)["offers"])

    @cached_property
    def needs(self) -> dict[str, list[str]]:
        """Everything that has to be granted and given, by area."""
        return _ungrouped(self._json(self.recorded.name)["needs"])

    @cached_property
    def state(self) -> dict[str, Any]:
        """State of the pipeline."""
        return self._json("pipeline_state.json")

    def _json(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.directory / name).read_text())
        return document

    def write(
        self,
        records: Iterable[tuple[str, bytes, bytes]],
        schemas: Mapping[str, Any],
        state: Mapping[str, Any],
        interface: tuple[str, Texts, Texts],
    ) -> None:
        """Write what a release made.

        Args:
            records: topic, key and value of each record.
            schemas: JSON schemas by kind.
            state: a state of the pipeline.
            interface: the commit, what it offers, and what it needs.
        """
        lines = (json.dumps([topic, k.decode(), v.decode()]) for topic, k, v in records)
        self.records_file.write_text("".join(f"{line}\n" for line in lines))
        wordless = {kind: _without_prose(schema) for kind, schema in schemas.items()}
        commit, offers, needs = interface
        offered = {area: _grouped(_leaves(texts)) for area, texts in offers.items()}
        needed = {area: _grouped(sorted(texts)) for area, texts in needs.items()}
        interface_document = {"commit": commit, "offers": offered, "needs": needed}
        for file, document, levels in (
            (self.directory / "schemas.json", wordless, 1),
            (self.directory / "pipeline_state.json", state, 2),
            (self.recorded, interface_document, 3),
        ):
            file.write_text(_written(document, levels) + "\n")


def is_of(text: str, name: str) -> bool:
    """Whether a text is a name, or tells something of what has that name."""
    rest = text.removeprefix(name)
    return text.startswith(name) and not (rest[:1].isalnum() or rest[:1] in {"_", "-", "/"})


def _leaves(texts: Iterable[str]) -> list[str]:
    """Return the texts that no other one begins with: those say all."""
    ordered = [*sorted(texts), ""]
    return [text for text, following in pairwise(ordered) if not is_of(following, text)]


def _grouped(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return last words by the words before them."""
    parts = sorted(text.rpartition(" ")[::2] for text in texts)
    return {head: [word for _, word in of] for head, of in groupby(parts, lambda part: part[0])}


def _ungrouped(areas: Mapping[str, Mapping[str, list[str]]]) -> dict[str, list[str]]:
    return {
        area: [f"{head} {word}".lstrip() for head, words in by_head.items() for word in words]
        for area, by_head in areas.items()
    }


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, dict):
        prose = {"$schema", "$id", "title", "description"}
        return {
            name: _without_prose(inner)
            for name, inner in schema.items()
            if name not in prose or not isinstance(inner, str)
        }
    return list(map(_without_prose, schema)) if isinstance(schema, list) else schema


def _written(document: Any, levels: int) -> str:
    """Return JSON with a line for each entry of so many levels."""
    if not isinstance(document, dict) or not levels:
        return json.dumps(document)
    entries = (f"{json.dumps(name)}: {_written(document[name], levels - 1)}" for name in document)
    return "{\n" + ",\n".join(entries) + "\n}"


def version_order(version: str) -> tuple[int, ...]:
    """A version as numbers: a later release has a larger one."""
    return tuple(map(int, version.split(".")))


def corpora() -> list[ReleaseCorpus]:
    """Return the corpus of each release, the oldest first."""
    found = (ReleaseCorpus(path.parent) for path in RELEASES.glob("*/interface.json"))
    return sorted(found, key=lambda each: version_order(each.version))


def present_version() -> str:
    """Return the version that pyproject.toml names: that of the last release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])

"""What ends and what is needed besides, as the tables of docs/compatibility.md declare it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from levelwind_testing.releases.release_corpus import is_of, version_order
from levelwind_testing.source_tree import ROOT

PAGE = ROOT / "docs" / "compatibility.md"
RETIRED, NEEDED = "## Retired names", "## Needed since"
NOTHING = "nothing yet"
"""First cell of a table that declares nothing."""
Declared = Collection[tuple[str, str]]
"""Area and name; it stands for what is told of that name, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """A name that ends: the release `since` has both names, and one after it may have the new."""

    area: str
    name: str
    instead: str
    since: str

    def has_ended(self, released: Collection[str]) -> bool:
        """Whether the name may be gone: a release has had both names."""
        since = version_order(self.since)
        return any(version_order(version) >= since for version in released)


def retirements(page: str) -> list[Retirement]:
    """Return the names that end, by the text of the page."""
    return [
        Retirement(area=area, name=name, instead=instead, since=since)
        for area, name, instead, since in _rows(page, RETIRED)
    ]


def needed_since(page: str) -> set[tuple[str, str]]:
    """Return what a later release needs besides: area and name."""
    return {(area, name) for area, name, _ in _rows(page, NEEDED)}


def _rows(page: str, heading: str) -> Iterator[list[str]]:
    section = page.partition(f"{heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        cells = [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
        if cells[0] != NOTHING:
            yield cells


def undeclared(area: str, texts: Iterable[str], declared: Declared) -> list[str]:
    """Return the texts of an area that no declared name stands for."""
    names = [name for of, name in declared if of == area]
    return [text for text in texts if not any(is_of(text, name) for name in names)]


def differences(
    old: Any, new: Any, path: str, renamed: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield where a document does not say what an older one said; it may say more.

    Args:
        old: a JSON document.
        new: the later one.
        path: where they stand, as the table of retired names has it.
        renamed: the new name of a field by the path of its old one.
    """
    names = renamed or {}
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            inner = f"{path}.{key}"
            found = new.get(key, new.get(names.get(inner, ""), ...))
            if found is ...:
                yield f"{inner} is gone"
            else:
                yield from differences(value, found, inner, names)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from differences(one, other, f"{path}[]", names)
    elif old != new:
        yield f"{path} was {old!r} and is {new!r}"


def loosened(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield where a document that fits a JSON schema may not fit an older one.

    Args:
        old: the older schema.
        new: the later one; it may have further fields, require more of them, and allow less.
        path: where they stand.
    """
    old, new = _with_null_as_a_type(old), _with_null_as_a_type(new)
    for word, was in old.items():
        now = new.get(word)
        if word == "properties":
            for name in was.keys() & now.keys():
                yield from loosened(was[name], now[name], f"{path}.{name}")
        elif isinstance(was, dict) and isinstance(now, dict):
            step = {"items": "[]", "additionalProperties": ".*"}.get(word, "")
            yield from loosened(was, now, path + step)
        elif word in {"anyOf", "prefixItems"} and len(was) == len(now or ()):
            for one, other in zip(was, now, strict=True):
                yield from loosened(one, other, path)
        elif word == "exclusiveMinimum" and new.get("minimum", was) > was:
            continue
        elif not _allows_no_more(word, was, now):
            yield f"{path} {word} was {was} and is {now}"


def _with_null_as_a_type(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema that says in one way what may be null: both ways have been written."""
    match schema:
        case {"anyOf": [{"type": str(of), **one}, {"type": "null"}], **more}:
            return {**more, **one, "type": [of, "null"]}
        case _:
            return schema


def _allows_no_more(word: str, was: Any, now: Any) -> bool:
    if now is None:
        return False
    if word == "required":
        return {*was} <= {*now}
    if word in {"enum", "type"}:
        return {*_listed(now)} <= {*_listed(was)}
    if word.startswith(("max", "min")):
        return bool(now <= was if word.startswith("max") else now >= was)
    return bool(now == was)


def _listed(value: Any) -> list[Any]:
    listed = value if isinstance(value, list) else [value]
    return [*listed, "integer"] if "number" in listed else listed

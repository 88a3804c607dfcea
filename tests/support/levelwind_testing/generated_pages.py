"""What pages of docs/ say of the code, written from the code by `make docs`."""

import ast
import json
import textwrap
import tomllib
from pathlib import Path
from runpy import run_path
from typing import Any

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.records import LagRecord, MemberRecord, PipelineRecord
from levelwind.assignors.protocol.records.schemas import from_declarations
from levelwind.daemon.telemetry import log_events
from levelwind_testing.source_tree import NAME, ROOT

SUPPORT = ROOT / "tests" / "support" / "levelwind_testing"
SOURCE_MUTANTS = ROOT / "tests" / "mutants" / "source_mutants.py"
BEGIN = "<!-- {} by `make docs`. -->\n"
END = "<!-- The end. -->\n"
INDENT, LINE = 13, 128
"""Columns of the names of blocks of layers, and of their lines."""


def map_of_the_support() -> str:
    """A table for each package that tests share: its modules, and what each of them is."""
    return "\n".join(map(_package, sorted({path.parent for path in SUPPORT.rglob("*.py")})))


def table_of_the_mutants() -> str:
    """The faults of the source, each with its harm and the test that catches it."""
    rows = (
        f"| `{mutant.name}` | {mutant.harm} | `{mutant.caught_by.rpartition('::')[2]}` |\n"
        for mutant in run_path(str(SOURCE_MUTANTS))["MUTANTS"]
    )
    return _table("mutant", "what goes wrong", "caught by") + "".join(rows)


def blocks_of_layers() -> str:
    """A line for each contract that lists layers in pyproject.toml, the highest layer first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    lines = [
        line
        for contract in contracts
        if contract["type"] == "layers"
        for line in textwrap.wrap(
            _layers(contract), LINE, subsequent_indent=" " * INDENT, break_on_hyphens=False
        )
    ]
    return "```\n" + "\n".join(lines) + "\n```\n"


def _layers(contract: dict[str, Any]) -> str:
    layers = [layer.replace(f"{NAME}.", "") for layer in contract["layers"]]
    title = contract["name"].partition(":")[0]
    if len({layer.partition(".")[0] for layer in layers}) > 1:
        return f"{'all':{INDENT}}{' > '.join(layers)}"
    parents = {part.rpartition(".")[0] for layer in layers for part in layer.split(" | ")}
    (parent,) = parents
    shown = " > ".join(layer.replace(f"{parent}.", "") for layer in layers)
    return f"{title:{INDENT}}{shown}"


def fields_of(record_type: type[Declared]) -> str:
    """A table of the fields of a record's value, each with its description."""
    schema = from_declarations.schemas()[record_type.KIND]
    rows = [
        f"| `{name}` | {'' if name in schema['required'] else 'optional '}"
        f"{_type(field, optional=name not in schema['required'])} "
        f"| {field['description']}{_parts(field)} |\n"
        for name, field in schema["properties"].items()
        if name != "v"
    ]
    return _table("field", "type", "meaning") + "".join(rows)


def _parts(field: dict[str, Any]) -> str:
    """The fields of the object that a field holds, each with its docstring."""
    parts = next((part["properties"] for part in _branches(field) if "properties" in part), {})
    return "".join(f" `{name}`: {part['description']}" for name, part in parts.items())


def _branches(field: dict[str, Any]) -> list[dict[str, Any]]:
    return field.get("anyOf", [field])


def _type(field: dict[str, Any], *, optional: bool = False, many: bool = False) -> str:
    """The type of a field in words; that an optional one may be null goes without saying."""
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    names = [name for part in _branches(field) for name in _listed(part.get("type"))]
    words = []
    for name in names:
        word = WORDS[name] + ("s" if many else "")
        if name == "array":
            word += f" of {_type(field['items'], many=True)}"
        elif isinstance(values := field.get("additionalProperties"), dict):
            word = f"{'ranges' if 'pattern' in values else _type(values, many=True)} by name"
        words.append(word)
    return " or ".join(word for word in words if not (optional and word == "null"))


def _listed(names: Any) -> list[str]:
    return names if isinstance(names, list) else [names]


WORDS = {
    "array": "list",
    "boolean": "flag",
    "integer": "integer",
    "null": "null",
    "number": "number",
    "object": "object",
    "string": "text",
}


SECTIONS = {
    "records.md": {
        "The fields of lag": lambda: fields_of(LagRecord),
        "The fields of the pipeline's state": lambda: fields_of(PipelineRecord),
        "The fields of an announcement": lambda: fields_of(MemberRecord),
    },
    "testing.md": {"The map": map_of_the_support, "The mutants": table_of_the_mutants},
    "log-events.md": {"The events": lambda: log_events.table() + "\n"},
    "architecture.md": {"The layers": blocks_of_layers},
}
"""What is generated, by the page and the words of its mark there."""


def up_to_date(name: str, page: str) -> str:
    """The page of a name with what is generated today between its marks."""
    for section, generated in SECTIONS[name].items():
        before, mark, rest = page.partition(BEGIN.format(section))
        _, end, after = rest.partition(END)
        page = f"{before}{mark}\n{generated()}\n{end}{after}"
    return page


def _package(folder: Path) -> str:
    name = folder.relative_to(SUPPORT.parent).as_posix()
    modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    rows = "".join(f"| `{path.stem}` | {_sentence(path)} |\n" for path in modules)
    table = "\n" + _table("module", "is") + rows if rows else ""
    return f"**`{name}`**: {_sentence(folder / '__init__.py')}\n{table}"


def _table(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def _sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def schema_files() -> dict[Path, str]:
    """The JSON Schemas of the records by their files, as their declarations are today."""
    folder = ROOT / "assignors" / "protocol" / "records" / "schemas"
    return {
        folder / f"{kind}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for kind, schema in from_declarations.schemas().items()
    }


if __name__ == "__main__":
    for file, text in schema_files().items():
        file.write_text(text)
    for shown in SECTIONS:
        target = ROOT / "docs" / shown
        target.write_text(up_to_date(shown, target.read_text()))

"""What pages of docs/ say of the code, written from the code by `make docs`."""

import ast
import json
import textwrap
import tomllib
from pathlib import Path
from runpy import run_path
from typing import Any

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


SECTIONS = {
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

"""What docs/testing.md says of the code of the tests, written from that code by `make docs`."""

import ast
import sys
from pathlib import Path
from runpy import run_path

from levelwind_testing.source_tree import ROOT

SUPPORT = ROOT / "tests" / "support" / "levelwind_testing"
SOURCE_MUTANTS = ROOT / "tests" / "mutants" / "source_mutants.py"
BEGIN = "<!-- {} by `make docs`. -->\n"
END = "<!-- The end. -->\n"


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


SECTIONS = {"The map": map_of_the_support, "The mutants": table_of_the_mutants}
"""What is generated, by the words of its mark in the page."""


def up_to_date(page: str) -> str:
    """The page with what is generated today between its marks."""
    for name, generated in SECTIONS.items():
        before, mark, rest = page.partition(BEGIN.format(name))
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


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(up_to_date(target.read_text()))

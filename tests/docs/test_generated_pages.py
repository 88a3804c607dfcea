"""Pages say what is there: layers, events, helpers, mutants, and what `make rare` runs alone."""

import ast
import tomllib

import pytest

from levelwind_testing.generated_pages import BEGIN, SECTIONS, schema_files, up_to_date
from levelwind_testing.source_tree import NAME, ROOT

SCHEMAS = ROOT / "assignors" / "protocol" / "records" / "schemas"
PAGE = ROOT / "docs" / "testing.md"


@pytest.mark.parametrize("name", SECTIONS)
def test_what_is_generated_is_that_of_today(name):
    page = (ROOT / "docs" / name).read_text()
    assert [section for section in SECTIONS[name] if BEGIN.format(section) not in page] == []
    assert up_to_date(name, page) == page, "run `make docs`"


def test_the_schemas_are_those_of_todays_declarations():
    written = {file: file.read_text() for file in SCHEMAS.glob("*.json")}
    assert written == schema_files(), "run `make docs`"


def test_each_package_of_the_layers_has_a_paragraph():
    page = (ROOT / "docs" / "architecture.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = [
        name.removeprefix(f"{NAME}.").replace(".", "/")
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["name"].partition(":")[0] in {"daemon", "streaming"}
        for layer in contract["layers"]
        for name in layer.split(" | ")
    ]
    assert len(packages) > 20
    folders = [name for name in packages if (ROOT / name).is_dir()]
    assert [name for name in folders if f"`{name}`" not in page] == []


def is_marker(node, name):
    return isinstance(node, ast.Attribute) and ast.unparse(node) == f"pytest.mark.{name}"


def makes_rare(node):
    """Whether a node of a file marks a test as rare, or asks for seeds of which some are."""
    is_fixture = isinstance(node, ast.Call) and ast.unparse(node.func) == "fixed_and_fresh_seeds"
    return is_fixture or is_marker(node, "rare")


def test_each_file_with_a_rare_test_is_named_with_the_reason():
    page = PAGE.read_text()
    rare = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if any(map(makes_rare, ast.walk(ast.parse(path.read_text()))))
    ]
    assert len(rare) > 15
    names = [str(path.relative_to(ROOT)) for path in rare]
    assert [name for name in names if f"| `{name}`" not in page] == []

"""docs/testing.md says what is there: helpers, mutants, and what `make rare` runs alone."""

import ast

from levelwind_testing.source_tree import ROOT
from levelwind_testing.testing_page import BEGIN, SECTIONS, up_to_date

PAGE = ROOT / "docs" / "testing.md"


def test_what_is_generated_is_that_of_today():
    page = PAGE.read_text()
    assert [name for name in SECTIONS if BEGIN.format(name) not in page] == []
    assert up_to_date(page) == page, "run `make docs`"


def is_marker(node, name):
    return isinstance(node, ast.Attribute) and ast.unparse(node) == f"pytest.mark.{name}"


def test_each_file_with_a_rare_test_is_named_with_the_reason():
    page = PAGE.read_text()
    rare = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if any(is_marker(node, "rare") for node in ast.walk(ast.parse(path.read_text())))
    ]
    assert len(rare) > 3
    names = [str(path.relative_to(ROOT)) for path in rare]
    assert [name for name in names if f"| `{name}`" not in page] == []

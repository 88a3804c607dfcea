"""Packages are small and say in one sentence what they are."""

import ast
import re
from collections import defaultdict

import pytest

from levelwind_testing.source_tree import NAME, ROOT, source_files, syntax_tree

MAX_MODULES = 12

MODULES = defaultdict(list)
for _path in source_files().values():
    MODULES[str(_path.parent.relative_to(ROOT))].append(_path.name)


@pytest.mark.parametrize("package", MODULES)
def test_a_package_has_at_most_twelve_modules_and_an_init(package):
    modules = MODULES[package]
    assert "__init__.py" in modules
    assert len(modules) - 1 <= MAX_MODULES, sorted(modules)


@pytest.mark.parametrize("package", MODULES)
def test_a_package_says_in_one_sentence_what_it_is(package):
    docstring = ast.get_docstring(syntax_tree(f"{NAME}.{package.replace('/', '.')}"))
    assert docstring
    first = " ".join(docstring.split("\n\n")[0].split())
    assert re.findall(r"[.!?](?=\s|$)", first) == ["."], first
    assert first.endswith(".")

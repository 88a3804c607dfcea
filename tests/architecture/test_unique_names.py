"""One name, one thing: files and classes of the source."""

import ast
from collections import defaultdict

import pytest

from levelwind_testing.source_tree import ROOT, source_files, syntax_tree

SAME_ROLE = {
    "__init__.py": "what a package is",
    "__main__.py": "how a package is started",
    "errors.py": "the errors of a top-level package",
    "settings.py": "the settings of a part, composed by daemon/config/settings.py",
    "state.py": "a state that batches change: of a topic, of a group",
    "update.py": "the change of that state by one batch",
}
"""File names that stand in several packages, and their one role in each."""

SAME_CLASS: dict[str, str] = {}
"""Class names that stand in several modules, and why."""


def test_no_two_source_files_share_a_name_unless_they_have_one_role():
    paths = defaultdict(list)
    for path in source_files().values():
        paths[path.name].append(str(path.relative_to(ROOT)))
    repeated = {name: files for name, files in paths.items() if len(files) > 1}
    assert {name: files for name, files in repeated.items() if name not in SAME_ROLE} == {}
    assert SAME_ROLE.keys() <= repeated.keys(), "an exception that nobody needs any more"


@pytest.mark.slow
def test_no_two_classes_of_the_source_share_a_name():
    modules = defaultdict(list)
    for module in source_files():
        for node in ast.walk(syntax_tree(module)):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module)
    assert len(modules) > 300
    repeated = {name: found for name, found in modules.items() if len(found) > 1}
    assert {name: found for name, found in repeated.items() if name not in SAME_CLASS} == {}
    assert SAME_CLASS.keys() <= repeated.keys(), "an exception that nobody needs any more"

"""Text files are UTF-8 wherever levelwind runs: none is read or written by the locale."""

import ast

import pytest

from levelwind_testing.source_tree import source_files, syntax_tree

OF_BYTES = {"tarfile", "zipfile", "os", "dbm", "webbrowser"}
"""Modules whose `open` opens no text."""


def opens_text(call):
    """Whether a call reads or writes a file as text."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in {"read_text", "write_text"}:
        return True
    if name not in {"open", "fdopen"}:
        return False
    if name == "open" and isinstance(call.func, ast.Attribute):
        owner = call.func.value
        if isinstance(owner, ast.Name) and owner.id in OF_BYTES:
            return False
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    modes = [text for text in texts if isinstance(text, str) and set(text) <= set("rwaxbt+")]
    return bool(modes) and "b" not in modes[-1]


def without_encoding(tree):
    """Line of each call that reads or writes text and names no encoding."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and opens_text(node)
        and "encoding" not in {keyword.arg for keyword in node.keywords}
    ]


@pytest.mark.parametrize("module", source_files())
def test_a_text_file_is_read_and_written_as_utf_8(module):
    assert without_encoding(syntax_tree(module)) == []


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("path.read_text()", True),
        ("path.write_text(text)", True),
        ('os.fdopen(handle, "w")', True),
        ('open(name, "a")', True),
        ('path.open("r")', True),
        ('path.read_text(encoding="utf-8")', False),
        ('path.open("rb")', False),
        ('tarfile.open(file, "w")', False),
        ("os.open(path, flags)", False),
    ],
)
def test_the_search_knows_the_calls_that_open_text(call, found):
    assert bool(without_encoding(ast.parse(call))) is found

"""Caches are bounded by size where their values grow with a topic or a group.

What is as long as a topic has partitions, or a group members, is remembered by
`streaming.messages.remembered`, which bounds the length of what it keeps: 4,096 texts of owners of
1,000 partitions took hundreds of MiB.
"""

import ast
from collections.abc import Iterator

import pytest

from levelwind_testing.source_tree import source_files, syntax_tree

OF_SMALL_VALUES = {
    "levelwind.daemon.config.group_patterns": {"_expression": "the name of a table"},
    "levelwind.daemon.control.members.members_clock": {"_partition": "a name and a number"},
    "levelwind.daemon.decisions.encoding": {"_version": "one value"},
    "levelwind.streaming.messages.buckets": {
        "_group_bucket": "a name and a number",
        "topic_key": "two names",
        "bucket_keys": "the state keys of a pipeline",
    },
    "levelwind.streaming.messages.lag_json": {"_fractions": "one value"},
    "levelwind.streaming.messages.remembered": {"of_short": "bounded", "of_long": "bounded"},
    "levelwind.streaming.output": {
        "_group_partition": "a name and a number",
        "_name_text": "a name",
    },
    "levelwind.streaming.topic.lag.shared_fields": {"_id_text": "a topic id"},
}
"""By module, each function whose results are remembered by number alone, and the size of what it
takes and gives."""
UNBOUNDED_BY_SIZE = {"cache", "lru_cache"}


def is_cache(node: ast.AST) -> bool:
    """Whether an expression is a cache of `functools`, or makes one."""
    if isinstance(node, ast.Call):
        return is_cache(node.func)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in UNBOUNDED_BY_SIZE


def caches(tree: ast.AST) -> Iterator[str]:
    """The names of what a module remembers by number alone."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, decorator_list=decorators):
                yield from (name for decorator in decorators if is_cache(decorator))
            case ast.Assign(targets=[ast.Name(name)], value=value) if is_cache(value):
                yield name
            case ast.AnnAssign(target=ast.Name(name), value=ast.Call() as value):
                yield from [name] * is_cache(value)


@pytest.mark.parametrize(
    "module",
    [
        name
        for name in source_files()
        if name.startswith(("levelwind.streaming", "levelwind.daemon"))
    ],
)
def test_what_grows_with_a_topic_is_remembered_by_size(module: str) -> None:
    assert set(caches(syntax_tree(module))) == OF_SMALL_VALUES.get(module, {}).keys()


@pytest.mark.parametrize(
    "text",
    [
        "@cache\ndef f(): ...",
        "@functools.lru_cache(maxsize=4)\ndef f(): ...",
        "f = lru_cache(maxsize=4)(g)",
        "f: Callable[..., int] = lru_cache(g)",
        "def h():\n    f: Callable[..., int] = functools.cache(g)",
    ],
)
def test_the_search_knows_the_ways_to_make_a_cache(text: str) -> None:
    assert list(caches(ast.parse(text))) == ["f"]
    assert not list(caches(ast.parse("@remembered(4, 64)\ndef f(): ...")))

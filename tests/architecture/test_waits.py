"""Tests wait for events and judge no clock: their sleeps and comparisons of clocks are counted."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from levelwind_testing.source_tree import ROOT

TESTS = ROOT / "tests"
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "boot_seconds", "time"}
CALL = re.compile(rf"\b({'|'.join(CLOCKS)}|sleep)\(")


class Counts(NamedTuple):
    """What a file has of each."""

    sleeps: int
    comparisons: int


FAULTS_OF_A_RUN = "faults come at drawn times, for as long as was drawn"
BENCH = "a benchmark's load is paced, and its rounds last as long as they are asked to"

ALLOWED = {
    "end_to_end/spark_cluster/test_cluster_faults.py": (Counts(1, 0), FAULTS_OF_A_RUN),
    "end_to_end/spark_cluster/test_loaded_cluster.py": (Counts(1, 0), FAULTS_OF_A_RUN),
    "support/levelwind_testing/chaos/chaos_worker.py": (
        Counts(1, 0),
        "slow handlers are the fault",
    ),
    "support/levelwind_testing/chaos/weather.py": (Counts(6, 4), FAULTS_OF_A_RUN),
    "support/levelwind_testing/drain/drain_round.py": (Counts(4, 8), BENCH),
    "support/levelwind_testing/drain/paced_workers.py": (Counts(2, 2), BENCH),
    "support/levelwind_testing/processes/member_host.py": (Counts(0, 2), BENCH),
    "support/levelwind_testing/waiting.py": (Counts(1, 1), "the one wait of all tests"),
}
"""By file: how many, and why. A number may only fall; benchmarks measure, and judge nothing."""


UNAWAITED_TOPICS = {
    "deploy/test_cluster.py": "a broker is down meanwhile",
    "deploy/test_secure_cluster.py": "who may create topics is its subject",
    "daemon/proxy/test_secure_proxy.py": "who may create topics is its subject",
    "support/levelwind_testing/chaos/traffic.py": "partitions are added to its topics first",
    "support/levelwind_testing/kafka/each_broker.py": "the one that waits",
}
"""Who asks brokers for topics otherwise than by `each_broker.create_topics`, and why."""


def counts(text: str) -> Counts:
    if not CALL.search(text):  # most files, in little time
        return Counts(0, 0)
    tree = ast.parse(text)
    return Counts(len(list(sleeps(tree))), len(list(comparisons(tree))))


def sleeps(tree: ast.AST) -> Iterator[ast.Call]:
    """Pauses of threads and coroutines; `sleep(0)` gives way and is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "sleep":
            value = node.args[0] if node.args else None
            if not (isinstance(value, ast.Constant) and value.value == 0):
                yield node


def comparisons(tree: ast.AST) -> Iterator[ast.Compare]:
    """Comparisons with a clock, or with a name that was computed from one in the same function."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            nodes, timed = list(own_nodes(scope)), set[str]()
            for node in (*nodes, *nodes):  # twice: a loop may use a name above its assignment
                timed |= assigned_times(node, timed)
            for node in nodes:
                if isinstance(node, ast.Compare) and is_timed(node, timed):
                    yield node


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions within that have a name."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from own_nodes(child)


def assigned_times(node: ast.AST, timed: set[str]) -> set[str]:
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        targets, value = [node.target], node.value
    else:
        return set()
    names: set[str] = set()
    for target in targets:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for name, part in zip(target.elts, value.elts, strict=False):
                if isinstance(name, ast.Name | ast.Attribute) and is_timed(part, timed):
                    names.add(ast.unparse(name))
        elif isinstance(target, ast.Name | ast.Attribute) and is_timed(value, timed):
            names.add(ast.unparse(target))
    return names


def is_timed(node: ast.AST, timed: set[str]) -> bool:
    """Whether an expression contains a clock's time, other than as an argument of a call."""
    if isinstance(node, ast.Call):
        return called(node) in CLOCKS
    if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in timed:
        return True
    return any(is_timed(child, timed) for child in ast.iter_child_nodes(node))


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)


def test_each_sleep_and_each_comparison_of_clocks_in_the_tests_has_its_reason():
    found = {
        str(path.relative_to(TESTS)): counts(path.read_text())
        for path in sorted(TESTS.rglob("*.py"))
        if "benchmarks" not in path.relative_to(TESTS).parts
    }
    found = {path: count for path, count in found.items() if count != Counts(0, 0)}
    assert found == {path: count for path, (count, _) in ALLOWED.items()}
    assert all(reason for _, reason in ALLOWED.values())


def test_a_new_topic_is_known_to_each_broker_before_anybody_uses_it():
    """A group whose coordinator does not know a topic yet keeps its empty assignment."""
    asks = re.compile(r"\.create_topics\(")
    found = {
        str(path.relative_to(TESTS))
        for path in sorted(TESTS.rglob("*.py"))
        if "benchmarks" not in path.relative_to(TESTS).parts
        if asks.search(path.read_text())
    }
    assert found == UNAWAITED_TOPICS.keys()


def test_a_sleep_and_a_comparison_of_clocks_are_found_however_they_are_written():
    text = """
def test(started):
    begun, other = time.monotonic(), 3
    sleep(1)
    asyncio.sleep(0)
    seconds = time.time() - begun
    assert seconds < 5
    assert other < 4
    assert time.process_time() - started >= 1 or poll(boot_seconds()) == 1
    until = self.until = monotonic() + 3
    while not found and until > 0 or self.until: pass
"""
    assert counts(text) == Counts(1, 3)
    assert counts(Path(__file__).read_text()) == Counts(0, 0)


def test_what_goes_from_a_page_is_awaited():
    """A page takes events and answers apart: what one has shown, the other may still lack."""
    look = re.compile(r"is_(?:hidden|visible)\(|\.count\(\) == 0")
    paths = (TESTS / "daemon" / "api").rglob("*.py")
    assert [str(path) for path in paths if look.search(path.read_text())] == []

"""Faults of the source that a named test must notice: the list fits the source, and each is caught.

One fault by its name: `pytest tests/mutants -m rare -k busy-log-proves-nothing`.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

from levelwind_testing.source_tree import PACKAGES, ROOT, package_folders

DECLARED = run_path(str(Path(__file__).with_name("source_mutants.py")))
MUTANTS = DECLARED["MUTANTS"]

AREAS = {
    "CONTROL": ("daemon/control/", "daemon/levers/", "daemon/decisions/", "daemon/service/"),
    "PIPELINE": (
        "streaming/rules/",
        "streaming/topic/",
        "streaming/group/",
        "streaming/bucket/",
        "streaming/decoding/",
        "streaming/spark/",
    ),
    "OBSERVER": ("daemon/observer/", "daemon/kafka/"),
    "RECORDS": ("assignors/protocol/",),
    "CLIENTS": ("assignors/clients/", "assignors/handover/", "daemon/proxy/"),
    "SHOWN": (
        "daemon/shown_groups/",
        "daemon/gauges/",
        "daemon/service/availability/",
        "daemon/api/",
    ),
}
"""Folders of the source that each part of the list is about."""

LEAST = 5
"""Mutants of each area."""

OF_THIS_RUN = ("PYTEST_", "LEVELWIND_")
"""Beginnings of variables that are about the run of pytest which applies the faults."""

RUN_SECONDS = 600
"""End of one run of a named test, which takes seconds."""

each = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


def test_no_two_mutants_share_a_name():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)] == []


@pytest.mark.parametrize("area", AREAS)
def test_each_area_has_mutants_of_its_own_folders(area):
    mutants = DECLARED[area]
    assert len(mutants) >= LEAST
    assert [mutant.name for mutant in mutants if not mutant.file.startswith(AREAS[area])] == []
    assert set(mutants) <= set(MUTANTS)


@each
def test_a_mutants_lines_stand_once_in_its_file_which_compiles_with_the_fault(mutant):
    source = (ROOT / mutant.file).read_text()
    assert ("\n" + source).count("\n" + mutant.old) == source.count(mutant.old) == 1
    assert mutant.old.endswith("\n")
    assert mutant.new.endswith("\n")
    faulty = source.replace(mutant.old, mutant.new)
    assert ast.dump(ast.parse(faulty)) != ast.dump(ast.parse(source))
    compile(faulty, mutant.file, "exec")


@each
def test_the_test_that_catches_a_mutant_exists(mutant):
    file, name, case = re.fullmatch(r"(.+)::(\w+)(\[.+\])?", mutant.caught_by).groups()
    tree = ast.parse((ROOT / file).read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in functions
    decorators = " ".join(map(ast.unparse, functions[name].decorator_list))
    assert ("parametrize" in decorators) is (case is not None)
    assert "given" not in decorators, "to catch it takes no luck"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the source and its tests."""
    copy = tmp_path_factory.mktemp("mutants")
    without = shutil.ignore_patterns("__pycache__", ".*")
    for folder in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=without)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, folder in package_folders().items():
        link = copy.joinpath("names", *name.split("."))
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(copy / folder)
    return copy


def run(copy, test):
    """Run one test on a copy, without brokers; return the exit code and what pytest says."""
    options = ["-q", "-p", "no:cacheprovider", "-m", "not integration", "--rootdir", str(copy)]
    own = {name: value for name, value in os.environ.items() if not name.startswith(OF_THIS_RUN)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, test],
        cwd=copy,
        # No bytecode: of a file that is changed twice in a second the old one could count.
        env={
            **own,
            "PYTHONPATH": str(copy / "names"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "1000",
        },
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.rare
@pytest.mark.integration
@pytest.mark.timeout(3 * RUN_SECONDS)
@each
def test_a_mutant_turns_its_test_red_which_is_green_without_it(copy, mutant):
    code, said = run(copy, mutant.caught_by)
    assert code == 0, said
    file = copy / mutant.file
    source = file.read_text()
    file.write_text(source.replace(mutant.old, mutant.new))
    try:
        code, said = run(copy, mutant.caught_by)
    finally:
        file.write_text(source)
    assert code == 1, said
    failed = re.search(rf"^FAILED {re.escape(mutant.caught_by)} - (.*)$", said, re.MULTILINE)
    assert failed, said
    assert re.match(r"AssertionError\b|assert\b", failed[1]), failed[1]

"""Imported libraries: the planning library and the control load no client, Spark or console."""

import json
import subprocess
import sys

import pytest

from levelwind_testing.source_tree import source_files

HEAVY = {
    "apscheduler",
    "click",
    "confluent_kafka",
    "matplotlib",
    "ortools",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "rich",
    "structlog",
}
LIBRARY = HEAVY | {"pydantic"}
"""A consumer installs the planning library without the libraries of the daemon."""
COMMAND = HEAVY - {"click"} | {"numpy", "pydantic", "tenacity"}
"""The help of every command waits for nothing but click."""

LOAD = """
import importlib, json, sys
loaded = {}
for module in sys.argv[1:]:
    before = set(sys.modules)
    importlib.import_module(module)
    new = {name.removeprefix("levelwind.") for name in set(sys.modules) - before}
    loaded[module] = sorted({name.partition(".")[0] for name in new})
print(json.dumps(loaded))
"""


def loaded(*modules):
    """Import modules one after the other; by module, the packages that it was the first to load."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *modules],
        check=True,
        capture_output=True,
        text=True,
    )
    return {module: set(names) for module, names in json.loads(done.stdout).items()}


def modules_of(package):
    return [name for name in source_files() if name == package or name.startswith(f"{package}.")]


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("levelwind.daemon.control", HEAVY),
        ("levelwind.daemon.cli", COMMAND),
        ("levelwind.streaming.rules", LIBRARY),
        # It is for machines on which nothing of the pipeline is installed.
        ("levelwind.daemon.assessment", {"matplotlib", "pandas", "pyarrow", "pyspark"}),
        # Spark starts a process for each stateful operator, which imports this.
        ("levelwind.streaming.spark", {"pandas"}),
    ],
)
def test_no_module_of_a_light_package_loads_a_heavy_library(package, forbidden):
    modules = [name for name in modules_of(package) if not name.endswith("__main__")]
    assert len(modules) > 3
    heavy = {module: names & forbidden for module, names in loaded(*modules).items()}
    assert {module: names for module, names in heavy.items() if names} == {}


@pytest.mark.slow
def test_the_controller_loads_no_heavy_library():
    assert (
        loaded("levelwind.daemon.control.controller")["levelwind.daemon.control.controller"] & HEAVY
        == set()
    )


def test_the_planning_library_loads_nothing_of_the_daemon_and_no_kafka_client():
    names = loaded("levelwind.assignors")["levelwind.assignors"]
    assert names & (LIBRARY | {"streaming", "daemon", "deploy"}) == set()

"""A run of the tests says where its time goes, whether it is parallel or not."""

import os
import subprocess
import sys

import pytest

from levelwind_testing.run_times import SHOWN, MachineTime, Part, RunTimes
from levelwind_testing.source_tree import ROOT

TESTS = """
from time import sleep

import pytest


@pytest.fixture(scope="module")
def brokers():
    sleep(0.3)


def test_that_waits(brokers):
    sleep(0.2)


def test_that_computes():
    sum(range(20_000_000))
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", [0, 2])
def test_tests_fixtures_and_the_whole_are_in_the_section(tmp_path, processes):
    (tmp_path / "test_it.py").write_text(TESTS)
    named = ("levelwind_testing.run_times", "no:cacheprovider", "no:schemathesis", "no:anyio")
    plugins = [f"-p{name}" for name in named]
    command = (sys.executable, "-m", "pytest", "-n", str(processes), *plugins, ".")
    support = {"PYTHONPATH": str(ROOT / "tests" / "support")}
    run = subprocess.run(
        command, cwd=tmp_path, env=os.environ | support, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    _, _, section = run.stdout.partition(" where the time goes ")
    assert "s  fixture brokers of a module, test_it.py\n" in section
    assert "s  test_it.py::test_that_waits\n" in section
    assert "s  test_it.py::test_that_computes\n" in section
    assert section.count("in tests of process gw") == processes
    (whole,) = (line for line in section.splitlines() if "of the machine idle" in line)
    wall, _, _, cpu, *_ = whole.split()
    assert float(wall) > 0.5
    assert float(cpu) > 0.1


def test_the_slowest_parts_come_first_and_the_idle_share_is_that_of_the_run():
    times = RunTimes(machine=MachineTime(idle=1000.0, all=4000.0))
    times.parts = [Part(float(seconds), f"test {seconds}") for seconds in range(2 * SHOWN)]
    lines = times.lines(wall=10.0, cpu=15.5, machine=MachineTime(idle=1005.0, all=4020.0))
    assert lines[0].split() == [f"{2 * SHOWN - 1}.0", "s", "test", str(2 * SHOWN - 1)]
    assert len(lines) == SHOWN + 1
    assert lines[-1] == "10.0 s wall, 15.5 s CPU, 25% of the machine idle"

"""The benchmarks start: a rename that leaves one of them behind fails here, not at its next run."""

import re
import runpy
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BENCHMARKS = sorted(HERE.glob("bench_*.py"))


def test_all_benchmarks_are_found() -> None:
    assert len(BENCHMARKS) >= 11


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_a_benchmark_can_be_imported_and_names_its_own_command(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(HERE)  # as where the file itself is run
    module = runpy.run_path(str(file), run_name=file.stem)
    assert callable(module["main"])
    assert f"python tests/benchmarks/{file.name}" in module["__doc__"]


def test_the_makefile_runs_benchmarks_that_exist() -> None:
    makefile = (HERE.parents[1] / "Makefile").read_text()
    loops = re.findall(r"for bench in ([a-z_ ]+);", makefile)
    names = {name for loop in loops for name in loop.split()}
    names |= set(re.findall(r"tests/benchmarks/bench_([a-z_]+)\.py", makefile))
    assert "tests/benchmarks/bench_*.py" in makefile
    assert {"pipeline", "rest", "assignors"} <= names <= {file.stem[6:] for file in BENCHMARKS}

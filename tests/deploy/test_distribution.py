"""What a Spark cluster is sent: it works where nothing of levelwind is installed."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from levelwind.deploy import distribution
from levelwind.deploy.errors import SetupError


def output(*words: str | Path, **variables: str) -> str:
    done = subprocess.run(
        words, env={"PATH": "/usr/bin:/bin"} | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_zip_file_has_the_packages_and_is_the_same_each_time(tmp_path: Path) -> None:
    file = distribution.write_packages(tmp_path / "levelwind.zip")
    again = distribution.write_packages(tmp_path / "again.zip")
    assert file.read_bytes() == again.read_bytes()
    assert file.stat().st_size < 1_500_000
    code = (
        f"import sys; sys.path.insert(0, {str(file)!r});"
        "import levelwind.streaming.spark.store.offsets_server as server;"
        "import levelwind.daemon.cli.main, levelwind.deploy.jars;"
        "print(server.__file__)"
    )
    found = output(sys.executable, "-I", "-c", code)
    assert found == f"{file}/levelwind/streaming/spark/store/offsets_server.py"


@pytest.mark.slow
def test_the_archives_python_is_the_machines_own_with_the_archives_libraries(
    tmp_path: Path,
) -> None:
    file = distribution.write_environment(tmp_path / "environment.tar.gz", ("click",))
    for place in ("here", "moved elsewhere"):
        home = tmp_path / place
        with tarfile.open(file) as archive:
            archive.extractall(home, filter="data")
        code = "import sys, click, levelwind.daemon.cli.main; print(sys.prefix, click.__file__)"
        base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
        found = output(home / "bin" / "python", "-c", code, LEVELWIND_PYTHON=str(base))
        assert found == f"{sys.base_prefix} {home}/lib/click/__init__.py"
    assert not list((tmp_path / "here").rglob("__pycache__/click*"))


def test_a_machine_without_that_python_is_named(tmp_path: Path) -> None:
    file = distribution.write_environment(tmp_path / "environment.tar.gz", ())
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        output(tmp_path / "bin" / "python", "-V", LEVELWIND_PYTHON="python9.9")
    assert "python9.9" in failed.value.stderr


def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(SetupError, match="no-such-library is not installed"):
        distribution.closure(("no_such.library",))


def test_the_libraries_of_the_pipeline_are_found_with_all_that_they_require() -> None:
    found = distribution.closure(distribution.REQUIRED)
    assert {"numpy", "pandas", "pyarrow", "python-dateutil", "pydantic-core"} <= found
    assert not {"pyspark", "matplotlib", "ortools", "pytest", "colorama"} & found

"""What `pip install levelwind` brings, and what it must not."""

import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("assignors", "streaming", "daemon", "deploy")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what a wheel is built from."""
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    return source


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """The wheel, built as an installer would."""
    out = tmp_path_factory.mktemp("out")
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (built,) = out.iterdir()
    return built


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_a_consumer_gets_numpy_and_a_kafka_client_and_nothing_of_the_control_plane(wheel):
    required = metadata(wheel).get_all("Requires-Dist")
    without_extras = {line.split(">")[0] for line in required if "extra ==" not in line}
    assert without_extras == {"numpy", "confluent-kafka"}


def test_the_consumers_side_works_without_the_control_planes_libraries(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    source = """
        import importlib, pkgutil, sys
        absent = "pyspark apscheduler structlog click rich pydantic pyarrow".split()
        absent += ["pandas", "jgo", "pydantic_settings"]
        sys.modules.update(dict.fromkeys(absent))  # importing them fails from now on
        import assignors
        names = [module.name for module in pkgutil.walk_packages(assignors.__path__, "assignors.")]
        print([importlib.import_module(name).__file__ for name in names])
    """
    program = "\n".join(line.strip() for line in source.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "assignors") in done.stdout


def test_every_file_of_the_packages_is_in_the_wheel(source, wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.split("/")[0] in PACKAGES}
    files = (path for name in PACKAGES for path in (source / name).rglob("*") if path.is_file())
    assert packed == {str(path.relative_to(source)) for path in files}


def test_the_command_is_installed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "levelwind = daemon.cli.main:main" in archive.read(name).decode()

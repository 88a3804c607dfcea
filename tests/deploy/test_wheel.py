"""What `pip install levelwind` brings, and what it must not."""

import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from levelwind_testing.source_tree import NAME, PACKAGES, ROOT


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


@pytest.mark.slow
def test_a_consumer_gets_numpy_and_a_kafka_client_and_nothing_of_the_control_plane(wheel):
    required = metadata(wheel).get_all("Requires-Dist")
    without_extras = {line.split(">")[0] for line in required if "extra ==" not in line}
    assert without_extras == {"numpy", "confluent-kafka"}


def requirements(lines, extra=""):
    """Names of the requirements that hold here with an extra, or with none."""
    parsed = [Requirement(line) for line in lines]
    return {
        canonicalize_name(one.name)
        for one in parsed
        if one.marker is None or one.marker.evaluate({"extra": extra})
    }


def installed_with(wheel, extra):
    """All distributions that `pip install levelwind[extra]` brings, as they are installed here."""
    lines = metadata(wheel).get_all("Requires-Dist")
    found, left = set(), requirements(lines) | requirements(lines, extra)
    while left:
        name = left.pop()
        found.add(name)
        left |= requirements(distribution(name).requires or ()) - found
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "client"), [("kafka-python", "kafka_python"), ("aiokafka", "aiokafka")]
)
def test_the_extra_of_a_client_brings_that_client_and_works_with_nothing_else(
    wheel, tmp_path, extra, client
):
    pytest.importorskip({"kafka-python": "kafka"}.get(extra, extra), reason="an extra")
    lines = metadata(wheel).get_all("Requires-Dist")
    assert requirements(lines, extra) - requirements(lines) == {extra}
    names = installed_with(wheel, extra)
    allowed = {"numpy", "confluent-kafka", extra, "async-timeout", "packaging", "typing-extensions"}
    assert names <= allowed
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for name in names:  # a directory of the packages that pip would have installed
        for file in distribution(name).files or ():
            if file.parts[0] != ".." and not (link := tmp_path / file.parts[0]).exists():
                link.symlink_to(distribution(name).locate_file(file.parts[0]))
    source = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from levelwind.assignors.clients import {client}
        from levelwind.assignors.clients.broker_lag import BrokerLag
        from levelwind.assignors.clients.published_plans import PublishedPlans
        from levelwind.assignors.solver import SolverMissingError
        for name in {client}.__all__:
            made = getattr({client}, name)
            try:
                made(plans=PublishedPlans({{}}, "g")) if "Published" in name else made()
            except SolverMissingError as missing:
                print(name, missing)
    """
    program = "\n".join(line.removeprefix(8 * " ") for line in source.splitlines())
    # Neither the environment's packages nor this checkout: only the standard library and tmp_path.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("OptimalAssignor")
    assert line.endswith("install levelwind[solver]")


@pytest.mark.slow
def test_the_consumers_side_works_without_the_control_planes_libraries(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    source = """
        import importlib, pkgutil, sys
        absent = "pyspark apscheduler structlog click rich pydantic pyarrow".split()
        absent += ["pandas", "jgo", "pydantic_settings"]
        sys.modules.update(dict.fromkeys(absent))  # importing them fails from now on
        from levelwind import assignors
        found = pkgutil.walk_packages(assignors.__path__, "levelwind.assignors.")
        names = [module.name for module in found]
        print([importlib.import_module(name).__file__ for name in names])
    """
    program = "\n".join(line.strip() for line in source.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "levelwind") in done.stdout


def test_every_file_of_the_packages_is_in_the_wheel(source, wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (path for name in PACKAGES for path in (source / name).rglob("*") if path.is_file())
    # A folder that is missing here is missing in pyproject.toml's list of packages.
    assert packed == {f"{NAME}/{path.relative_to(source)}" for path in files}


def test_the_command_is_installed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "levelwind = levelwind.daemon.cli.main:main" in archive.read(name).decode()

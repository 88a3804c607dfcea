"""What `pip install levelwind` brings, and what it must not."""

import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import distribution, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from levelwind_testing.source_tree import PACKAGES, ROOT, package_folders


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
def test_a_consumer_gets_a_kafka_client_and_little_else_and_nothing_of_the_control_plane(wheel):
    required = metadata(wheel).get_all("Requires-Dist")
    without_extras = {line.split(">")[0] for line in required if "extra ==" not in line}
    assert without_extras == {"numpy", "confluent-kafka", "msgspec"}


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


def install(wheel, names, directory):
    """Make a directory of the packages that pip would have installed, as they are here."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    for name in names:
        for file in distribution(name).files or ():
            if file.parts[0] != ".." and not (link := directory / file.parts[0]).exists():
                link.symlink_to(distribution(name).locate_file(file.parts[0]))


@pytest.mark.slow
def test_an_installation_leaves_packages_alone_that_are_named_like_its_folders(wheel, tmp_path):
    install(wheel, {"python-daemon", "lockfile", "click"}, tmp_path)
    tops = {path.name for path in tmp_path.iterdir()}
    assert {name for name in tops if name.startswith("levelwind")} | {"daemon"} == {
        "levelwind",
        f"levelwind-{version('levelwind')}.dist-info",
        "daemon",
    }
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
        "import daemon, levelwind.daemon.cli.main as command;"
        "print(daemon.DaemonContext().umask, daemon.__file__, command.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "0",
        str(tmp_path / "daemon" / "__init__.py"),
        str(tmp_path / "levelwind" / "daemon" / "cli" / "main.py"),
    ]


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
    allowed = {"numpy", "confluent-kafka", "msgspec", extra}
    allowed |= {"async-timeout", "packaging", "typing-extensions"}
    assert names <= allowed
    install(wheel, names, tmp_path)
    source = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from levelwind.clients import {client}
        from levelwind.clients.classic import BrokerLag, PublishedPlans
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
        from levelwind import assignors, clients
        found = [*pkgutil.walk_packages(assignors.__path__, "levelwind.assignors.")]
        found += pkgutil.iter_modules(clients.__path__, "levelwind.clients.")
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
    expected = {}
    for name, folder in sorted(package_folders().items()):  # what is inside another one, last
        for path in (source / folder).rglob("*"):
            if path.is_file():
                expected[path] = f"{name.replace('.', '/')}/{path.relative_to(source / folder)}"
    # A folder that is missing here is missing in pyproject.toml's list of packages.
    assert packed == set(expected.values())


def test_the_command_is_installed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "levelwind = levelwind.daemon.cli.main:main" in archive.read(name).decode()

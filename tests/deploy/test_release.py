"""The wheel and the sdist install and work; `make release-check` runs the demo from them."""

import json
import tarfile
import zipfile
from importlib.metadata import version

import pytest

from levelwind_testing.clean_environment import CleanEnvironment

# The environment may have to be downloaded, and Spark unpacked.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    return CleanEnvironment.make(tmp_path_factory.mktemp("clean") / "environment", built.wheel)


def test_the_sdist_has_what_a_checkout_has_for_building_and_testing(built):
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
        "requirements.lock",
        "requirements-daemon.lock",
        "docs/deploy.md",
        "examples/consumer.py",
        "deploy/coordinator/java/levelwind/coordinator/RackUniformAssignor.java",
        "deploy/docker/Dockerfile",
        "deploy/helm/levelwind/templates/_helpers.tpl",
        "tests/conftest.py",
    } <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


def test_the_wheel_has_one_package_alone(built):
    with zipfile.ZipFile(built.wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"levelwind", f"levelwind-{version('levelwind')}.dist-info"}


def test_the_jar_for_brokers_has_the_same_version(built):
    assert built.jar.name == f"levelwind-coordinator-{version('levelwind')}.jar"
    with zipfile.ZipFile(built.jar) as archive:
        assert "levelwind/coordinator/RackUniformAssignor.class" in archive.namelist()


def test_the_command_says_its_version(environment, tmp_path):
    done = environment.run("levelwind", "--version", directory=tmp_path)
    assert (done.returncode, done.stdout.split()) == (
        0,
        ["levelwind,", "version", version("levelwind")],
    )


def test_settings_are_read_and_wrong_ones_refused(environment, tmp_path):
    command = ["run", "--set", "control.min_gian=1"]
    done = environment.run("levelwind", *command, directory=tmp_path)
    assert done.returncode == 2
    assert "control.min_gain" in done.stderr


def test_a_strategy_with_its_solver_plans(environment, tmp_path):
    problem = {
        "strategy": "optimal",
        "topics": {"t": {"partitions": 4}},
        "members": {"a": {"topics": "*"}, "b": {"topics": "*"}},
    }
    given = json.dumps(problem)
    done = environment.run("levelwind", "assign", directory=tmp_path, stdin=given)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_what_the_daemon_imports_is_installed(environment, tmp_path):
    code = (
        "import levelwind.daemon.service.startup, levelwind.daemon.pipeline.process;"
        "import levelwind.streaming.spark.session, jgo.maven"
    )
    done = environment.run("python", "-I", "-c", code, directory=tmp_path)
    assert done.returncode == 0, done.stderr

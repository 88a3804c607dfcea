"""Which Java is run, and what a machine without one is told."""

import shutil
import subprocess

import pytest

from levelwind.deploy import java
from levelwind.deploy.broker_config import java_command
from levelwind.deploy.errors import SetupError
from levelwind.deploy.jars import classpath


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without Java, on which a test may put some."""
    for name in (java.JAVA_HOME_OVERRIDE, "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def put_java(home, version):
    """A `java` that says its version as the real ones do."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("printed", "major"), [("17.0.15", 17), ("21", 21), ("25.0.3", 25), ("1.8.0_402", 1)], ids=str
)
def test_the_version_is_the_major_one(machine, printed, major):
    assert java.version(put_java(machine, printed)) == major


def test_what_does_not_run_has_no_version(machine):
    assert java.version(machine / "nowhere") is None


def test_ours_goes_before_the_usual_one_and_that_before_the_path(machine, monkeypatch):
    on_path = put_java(machine, "17.0.1")
    assert java.java() == on_path
    usual = put_java(machine / "usual", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine / "usual"))
    assert java.java() == usual
    ours = put_java(machine / "ours", "25")
    monkeypatch.setenv(java.JAVA_HOME_OVERRIDE, str(machine / "ours"))
    assert java.java() == ours


def test_one_that_is_too_old_is_passed_over(machine, monkeypatch):
    put_java(machine / "usual", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(machine / "usual"))
    on_path = put_java(machine, "17.0.1")
    assert java.java() == on_path


@pytest.mark.parametrize(
    ("version", "step"), [("11.0.2", "holds Java 11"), (None, "holds no Java that runs")]
)
def test_one_that_was_asked_for_is_never_passed_over(machine, monkeypatch, version, step):
    put_java(machine, "17.0.1")
    if version:
        put_java(machine / "ours", version)
    monkeypatch.setenv(java.JAVA_HOME_OVERRIDE, str(machine / "ours"))
    with pytest.raises(SetupError, match=step):
        java.java()


def test_without_any_the_user_is_told_what_to_run(machine, monkeypatch):
    monkeypatch.setattr(java.platform, "system", lambda: "Linux")
    monkeypatch.setattr(
        java.platform, "freedesktop_os_release", lambda: {"ID": "rocky", "ID_LIKE": "rhel fedora"}
    )
    with pytest.raises(
        SetupError, match=r"no Java runtime of version 17 or newer: .*\(sudo dnf install java-21"
    ):
        java.java()


def test_the_home_is_where_links_end(machine, monkeypatch):
    put_java(machine / "jvm" / "java-17", "17.0.1")
    (machine / "bin" / "java").symlink_to(machine / "jvm" / "java-17" / "bin" / "java")
    assert java.home() == machine / "jvm" / "java-17"


def test_links_to_the_systems_configuration_lead_to_what_was_unpacked(tmp_path):
    configuration = tmp_path / "etc" / "java-17-openjdk" / "jvm.cfg"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("-server KNOWN")
    library = tmp_path / "usr" / "lib" / "jvm" / "java-17"
    library.mkdir(parents=True)
    (library / "jvm.cfg").symlink_to("/etc/java-17-openjdk/jvm.cfg")
    (library / "docs").symlink_to("/usr/share/doc/not-unpacked")
    java._mend_links(tmp_path)
    assert (library / "jvm.cfg").read_text() == "-server KNOWN"
    assert not (library / "jvm.cfg").readlink().is_absolute()
    assert str((library / "docs").readlink()) == "/usr/share/doc/not-unpacked"


def test_the_oldest_package_that_is_new_enough_is_taken(monkeypatch, tmp_path):
    listed = "".join(f"openjdk-{number}-jre-headless - OpenJDK\n" for number in (25, 11, 21, 8))
    monkeypatch.setattr(java, "_run", lambda *_: listed)
    assert java._package([], tmp_path) == "openjdk-21-jre-headless"
    monkeypatch.setattr(java, "_run", lambda *_: "")
    assert java._package([], tmp_path) is None


@pytest.fixture(scope="module")
def broker_jars():
    return classpath("brokers")


@pytest.mark.integration
@pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("dpkg-deb")), reason="not of Debian's family"
)
def test_a_distributions_package_runs_kafka_from_the_cache(broker_jars, machine):
    for name in ("apt-get", "apt-cache", "dpkg", "dpkg-deb", "tar", "xz", "sh", "rm"):
        if (program := shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")) is not None:
            (machine / "bin" / name).symlink_to(program)
    steps = []
    try:
        unpacked = java.java(steps.append)
    except SetupError as error:
        pytest.skip(f"the package cannot be had here: {error}")
    assert unpacked.is_relative_to(machine / "cache")
    command = java_command(unpacked, broker_jars, [], "kafka.tools.StorageTool", "random-uuid")
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={})
    assert len(done.stdout.strip()) == 22
    assert java.java(steps.append) == unpacked
    assert len([step for step in steps if step.startswith("fetching")]) == 1

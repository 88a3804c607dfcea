"""The systemd units: their command lines, and what systemd says of them."""

import json
import shutil
import subprocess

import pytest
import yaml

from levelwind.daemon.config.settings import load
from levelwind_testing.manifests import (
    CHART,
    DOCKER,
    SYSTEMD,
    parsed_command,
    unit_options,
    words_of,
)

UNITS = sorted(SYSTEMD.glob("*.service"))
MOST_EXPOSURE = 1.1
"""Highest exposure by `systemd-analyze security`, of 10."""

every_unit = pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])


@every_unit
def test_a_unit_starts_a_command_of_levelwinds(unit):
    (line,) = unit_options(unit.read_text())["ExecStart"]
    program, *arguments = words_of(line)
    assert program == "/opt/levelwind/bin/levelwind"
    expected = "pipeline" if "pipeline" in unit.name else "run"
    assert parsed_command(arguments) == expected
    assert "/etc/levelwind/levelwind.toml" in arguments


@every_unit
def test_a_reload_reaches_the_daemon_alone(unit):
    reloads = unit_options(unit.read_text()).get("ExecReload", [])
    daemon = "pipeline" not in unit.name
    assert reloads == (["/bin/kill -HUP $MAINPID"] if daemon else [])


@every_unit
def test_a_unit_is_started_again_however_it_ended(unit):
    """An address in use, a full disk or a file that is not there yet passes, with exit code 2."""
    options = unit_options(unit.read_text())
    assert options["Restart"] == ["always"]
    assert options["StartLimitIntervalSec"] == ["0"]
    assert not options.keys() & {"RestartPreventExitStatus", "SuccessExitStatus"}


def test_a_daemon_has_the_same_time_to_end_everywhere():
    """A start waits for one answer for up to `topic.timeout`; as much again is left for the end."""
    (unit,) = unit_options((SYSTEMD / "levelwind.service").read_text())["TimeoutStopSec"]
    chart = yaml.safe_load((CHART / "values.yaml").read_text())["terminationGracePeriodSeconds"]
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    composed = {services[name]["stop_grace_period"] for name in ("daemon-1", "daemon-2")}
    assert (int(unit), composed) == (chart, {f"{chart}s"})
    assert chart >= 2 * load(SYSTEMD / "levelwind.toml").topic.timeout


@every_unit
def test_the_state_of_a_unit_is_the_directory_that_systemd_makes(unit):
    settings = load(SYSTEMD / "levelwind.toml")
    (directory,) = unit_options(unit.read_text())["StateDirectory"]
    assert str(settings.state_dir) == f"/var/lib/{directory}"


def test_the_units_differ_in_their_command_and_their_end_alone():
    first, second = (unit_options(unit.read_text()) for unit in UNITS)
    differing = {
        name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
    }
    assert differing == {
        "Description",
        "ExecReload",
        "ExecStart",
        "OOMPolicy",
        "RestartSec",
        "TimeoutStopSec",
    }


systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")


@systemd
@every_unit
def test_systemd_finds_nothing_wrong_in_a_unit(unit, tmp_path):
    # The programs of the unit, which need not be on this machine.
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/levelwind/bin/levelwind", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copy],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@systemd
@every_unit
def test_a_unit_is_exposed_as_little_as_java_allows(unit):
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    done = subprocess.run(
        [*command, "--json=short", unit], capture_output=True, text=True, check=True
    )
    rest = {
        each["json_field"]
        for each in json.loads(done.stdout)
        if float(each["exposure"] or 0) >= 0.1
    }
    # Kafka, sockets between the pipeline's processes, memory that Java writes and then executes;
    # a device that ProtectClock names and PrivateDevices takes away; and the machine's own root.
    assert rest <= {
        "DeviceAllow",
        "IPAddressDeny",
        "MemoryDenyWriteExecute",
        "PrivateNetwork",
        "RestrictAddressFamilies_AF_INET_INET6",
        "RestrictAddressFamilies_AF_UNIX",
        "RootDirectoryOrRootImage",
    }
    threshold = f"--threshold={round(MOST_EXPOSURE * 10)}"
    done = subprocess.run([*command, threshold, unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout.splitlines()[-1]

"""The compose file: its settings, commands and limits; `make deploy-check` runs docker compose."""

import re

import pytest
import yaml

from levelwind.daemon.config.settings import load
from levelwind_testing.manifests import DOCKER, ROOT, levelwind_variables, parsed_command

SERVICES = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
BROKERS = {name: each for name, each in SERVICES.items() if name.startswith("broker-")}
OURS = {name: each for name, each in SERVICES.items() if "build" in each}


def test_three_brokers_stand_in_three_racks_and_know_each_other():
    environments = [each["environment"] for each in BROKERS.values()]
    assert [each["KAFKA_BROKER_RACK"] for each in environments] == ["a", "b", "c"]
    voters = {each["KAFKA_CONTROLLER_QUORUM_VOTERS"] for each in environments}
    expected = ",".join(
        f"{each['environment']['KAFKA_NODE_ID']}@{name}:9093" for name, each in BROKERS.items()
    )
    assert voters == {expected}


def test_the_brokers_are_of_the_version_that_the_tests_run_on():
    pom = (ROOT / "deploy" / "pom.xml").read_text()
    version = re.search("<brokers.version>(.+)</brokers.version>", pom)[1]
    assert {each["image"] for each in BROKERS.values()} == {f"apache/kafka:{version}"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_and_gets_none(name):
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in SERVICES[name]


@pytest.mark.parametrize("name", OURS)
def test_an_image_of_the_project_has_a_read_only_root_and_limits(name):
    assert OURS[name]["read_only"] is True
    assert {"mem_limit", "pids_limit", "stop_grace_period"} <= OURS[name].keys()
    build = OURS[name]["build"]
    assert (DOCKER / build["context"] / build["dockerfile"]).resolve() == DOCKER / "Dockerfile"


def test_ports_are_published_on_loopback_alone():
    ports = [port for each in SERVICES.values() for port in each.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", [name for name in OURS if OURS[name]["image"] == "levelwind"])
def test_variables_are_settings_and_commands_are_commands(name, monkeypatch):
    for variable, value in levelwind_variables(OURS[name]["environment"]).items():
        monkeypatch.setenv(variable, value)
    settings = load(DOCKER / "levelwind.toml")
    assert settings.bootstrap == ",".join(f"{broker}:9092" for broker in BROKERS)
    assert settings.pipeline.run == "elsewhere"
    default = ["run", "--config", "/etc/levelwind/levelwind.toml"]
    expected = "pipeline" if name == "pipeline" else "run"
    assert parsed_command(OURS[name].get("command", default)) == expected


def test_state_is_shared_by_nobody():
    volumes = [volume for each in SERVICES.values() for volume in each.get("volumes", ())]
    assert len(volumes) == len(set(volumes))
    ours = [name for name in OURS if OURS[name]["image"] == "levelwind"]
    assert all(SERVICES[name]["volumes"] == [f"{name}:/var/lib/levelwind"] for name in ours)


def mounted(service):
    (volume,) = service["volumes"]
    return volume.partition(":")[2]


def test_a_volume_lies_where_its_service_keeps_what_it_must_not_lose():
    for broker in BROKERS.values():
        assert broker["environment"]["KAFKA_LOG_DIRS"] == mounted(broker)
    state = str(load(DOCKER / "levelwind.toml").state_dir)
    keepers = {name for name, each in SERVICES.items() if "volumes" in each}
    assert keepers - BROKERS.keys() == {"daemon-1", "daemon-2", "pipeline"}
    assert {mounted(SERVICES[name]) for name in keepers - BROKERS.keys()} == {state}


def test_the_consumers_are_one_group_in_three_racks_by_variables_that_the_example_reads():
    consumers = [each["environment"] for name, each in OURS.items() if name.startswith("consumer-")]
    assert [each["RACK"] for each in consumers] == ["a", "b", "c"]
    assert len({each["INSTANCE"] for each in consumers}) == 3
    read = set(
        re.findall(
            r"environ(?:\.get\(|\[)\"([A-Z_]+)\"", (ROOT / "examples/consumer.py").read_text()
        )
    )
    assert {name for each in consumers for name in each} <= read

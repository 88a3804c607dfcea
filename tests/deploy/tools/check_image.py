"""The image and the compose file by hadolint and docker compose."""

import json

from levelwind_testing.deploy_tools import output_of, python_tool
from levelwind_testing.manifests import DOCKER


def test_hadolint_finds_nothing():
    output_of(
        python_tool("hadolint"),
        "--failure-threshold=style",
        DOCKER / "Dockerfile",
    )


def compose(*words):
    tool = python_tool("docker-compose")
    return output_of(tool, "-f", DOCKER / "compose.yaml", *words)


def test_docker_compose_takes_the_file():
    services = json.loads(compose("config", "--format", "json"))["services"]
    assert len([name for name in services if name.startswith("broker-")]) == 3
    assert services["daemon-1"]["depends_on"]["broker-3"]["condition"] == "service_healthy"
    assert services["daemon-1"]["environment"]["LEVELWIND_PIPELINE__RUN"] == "elsewhere"
    assert services["daemon-1"]["build"]["target"] == "daemon"
    assert services["consumer-c"]["environment"]["RACK"] == "c"
    assert all(each["cap_drop"] == ["ALL"] for each in services.values())

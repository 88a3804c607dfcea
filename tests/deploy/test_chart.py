"""The chart's values and what its templates ask for; helm renders it in `make deploy-check`."""

import copy
import json
import re
import tomllib

import jsonschema
import pytest
import yaml

from levelwind.daemon.config.settings import load
from levelwind_testing.manifests import CHART, DOCKER, ROOT, parsed_command

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
OPTIONAL = {"nameOverride", "fullnameOverride"}


def changed(path, value):
    """The values with one of them replaced."""
    values = copy.deepcopy(VALUES)
    *tables, name = path.split("/")
    inner = values
    for table in tables:
        inner = inner.setdefault(table, {})
    inner[name] = value
    return values


def test_the_schema_is_a_schema_and_the_defaults_fit_it():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replica", 3),
        ("replicas", 0),
        ("pipeline/run", "children"),
        ("config/state_dir", "/tmp"),  # noqa: S108 - it is refused
        ("config/pipeline/run", "child"),
        ("config/http/listen", "0.0.0.0:80"),
        ("config/bootstrap", " "),
        ("config/kafka/socket.timeout.ms", 3000),
        ("config/pipeline/spark/spark.ui.enabled", False),
        ("image/digest", "sha256:0"),
        ("port", 80),
        ("networkPolicy/brokerPorts", []),
        ("persistence/size", "much"),
    ],
)
def test_a_wrong_value_is_refused(path, value):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(path, value), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("config/kafka/sasl.password_file", "/etc/levelwind/secrets/password"),
        ("config/control/cooldown/moves_per_hour", {"skew": 200}),
        ("pipeline/run", "elsewhere"),
        ("image/digest", "sha256:" + 64 * "0"),
    ],
)
def test_a_right_value_is_taken(path, value):
    jsonschema.validate(changed(path, value), SCHEMA)


def test_templates_read_values_that_exist_and_every_value_is_read():
    read = set(re.findall(r"\.Values\.([A-Za-z.]+)", "\n".join(TEMPLATES.values())))
    for path in read - OPTIONAL:
        inner = VALUES
        for name in path.split("."):
            assert isinstance(inner, dict), path
            assert name in inner, path
            inner = inner[name]
    assert {path.split(".")[0] for path in read} == VALUES.keys() | OPTIONAL


def test_the_settings_of_the_values_are_settings(tmp_path):
    settings = load(None, VALUES["config"])
    assert settings.log.format == "json"


def test_commands_of_the_pods_are_commands():
    words = [
        [word.strip() for word in line.split(",")]
        for text in TEMPLATES.values()
        for line in re.findall(r"args: \[(.*)\]", text)
    ]
    assert [parsed_command(each) for each in words] == ["run", "pipeline"] or [
        parsed_command(each) for each in words
    ] == ["pipeline", "run"]


def test_paths_and_port_are_those_of_the_image():
    image = load(DOCKER / "levelwind.toml")
    helpers = TEMPLATES["_helpers.tpl"]
    assert f'"state_dir" "{image.state_dir}"' in helpers
    assert f"mountPath: {image.state_dir}}}" in helpers
    assert image.http.listen.endswith(f":{VALUES['port']}")
    assert "USER 10001:10001" in (DOCKER / "Dockerfile").read_text()
    assert "runAsUser: 10001" in helpers


def test_the_chart_has_the_version_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == project["version"]


def test_the_daemons_are_reached_by_both_families_of_addresses():
    """A probe of an IPv6-only cluster asks for an address of IPv6."""
    assert '"listen" (printf ":%d" (int .Values.port))' in TEMPLATES["_helpers.tpl"]
    assert load(DOCKER / "levelwind.toml").http.listen == f":{VALUES['port']}"

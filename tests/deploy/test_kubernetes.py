"""The pods of all manifests: what their environment must not hold, and what may be forbidden."""

import re
from itertools import chain

import pytest
import yaml

from levelwind_testing.manifests import CHART, DEPLOY

FILES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
HELPERS = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")


def objects():
    found = [yaml.safe_load_all(file.read_text(encoding="utf-8")) for file in FILES]
    return [each for each in chain.from_iterable(found) if each]


def maps(kind):
    return {each["metadata"]["name"]: each for each in objects() if each["kind"] == kind}


def pods():
    """Every pod: those of workloads, and those that Spark makes from a template."""
    found = {name: each["spec"]["template"]["spec"] for name, each in maps("Deployment").items()}
    for each in maps("ConfigMap").values():
        for name, text in each["data"].items():
            pod = yaml.safe_load(text)
            assert pod["kind"] == "Pod"
            found[name] = pod["spec"]
    return found


@pytest.mark.parametrize("name", ["levelwind-pipeline", "executor.yaml"])
def test_a_service_named_levelwind_gives_a_pod_no_setting(name):
    """Kubernetes would make LEVELWIND_SERVICE_HOST of it, which is no setting."""
    assert pods()[name]["enableServiceLinks"] is False


def test_these_are_all_pods_of_the_manifests():
    assert pods().keys() == {"levelwind-pipeline", "executor.yaml"}


@pytest.mark.parametrize("name", ["levelwind-pipeline", "executor.yaml"])
def test_a_pod_may_run_where_pods_are_restricted(name):
    pod = pods()[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_every_workload_of_the_chart_has_the_same_pod():
    workloads = [
        text
        for text in (file.read_text(encoding="utf-8") for file in TEMPLATES)
        if re.search(
            "^kind: (StatefulSet|Deployment|DaemonSet|Job|CronJob|Pod)$", text, re.MULTILINE
        )
    ]
    assert len(workloads) == 2
    for text in workloads:
        assert 'include "levelwind.podSpec"' in text
        assert 'include "levelwind.containerCommon"' in text
    assert "enableServiceLinks: false" in HELPERS
    assert "runAsNonRoot: true" in HELPERS


def test_the_application_stands_beside_a_release_named_levelwind():
    """The release makes levelwind, levelwind-daemons, and a StatefulSet levelwind-pipeline."""
    named = {(each["kind"], each["metadata"]["name"]) for each in objects()}
    kinds = {"ConfigMap", "ServiceAccount", "Service"}
    assert not named & {(kind, f"levelwind{end}") for kind in kinds for end in ("", "-daemons")}
    assert ("StatefulSet", "levelwind-pipeline") not in named


def test_what_the_driver_mounts_is_what_the_file_makes_or_asks_for():
    text = FILES[0].read_text(encoding="utf-8")
    made = set(maps("ConfigMap"))
    asked = set(re.findall(r"kubectl create configmap (\S+)", text))
    driver = pods()["levelwind-pipeline"]
    mounted = {each["configMap"]["name"] for each in driver["volumes"]}
    assert mounted == made | asked
    assert "levelwind" not in mounted
    (container,) = driver["containers"]
    (template,) = [a for a in container["args"] if "podTemplateFile" in a]
    paths = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert template.partition("podTemplateFile=")[2] == f"{paths['executor']}/executor.yaml"

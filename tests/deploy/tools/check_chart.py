"""The chart by helm, what it renders by the schemas of Kubernetes, and the manifests beside it."""

import json
import subprocess
import tomllib

import pytest
import yaml

from levelwind.daemon.config.settings import load
from levelwind_testing.deploy_tools import go_tool, output_of, python_tool
from levelwind_testing.manifests import CHART, DEPLOY, parsed_command

OLDEST, NEWEST = "1.27", "1.36"
CASES = {
    "defaults": {},
    "child": {
        "pipeline": {"run": "child"},
        "persistence": {"enabled": True, "storageClass": "fast"},
    },
    "elsewhere": {"pipeline": {"run": "elsewhere"}, "replicas": 1},
    "everything": {
        "fullnameOverride": "lag",
        "config": {
            "bootstrap": "kafka-0.kafka:9093",
            "kafka": {"security.protocol": "SASL_SSL", "socket.timeout.ms": "3000"},
            "pipeline": {"max_offsets_per_trigger": 2_000_000},
            "http": {"tls_file": "/etc/levelwind/secrets/server.pem"},
            "control": {"min_gain": 0.2, "cooldown": {"moves_per_hour": {"skew": 200}}},
            "groups": {"orders.v2": {"strategy": "optimal", "pins": {"orders": {"0": "orders-1"}}}},
            "observer": {"exclude": ["__.*", "test-.*"]},
        },
        "secretName": "kafka-client",
        "env": [{"name": "LEVELWIND_LOG__LEVEL", "value": "debug"}],
        "envFrom": [{"secretRef": {"name": "more"}}],
        "image": {"repository": "registry.example/levelwind", "digest": "sha256:" + 64 * "a"},
        "imagePullSecrets": [{"name": "pull"}],
        "persistence": {"enabled": True},
        "replicas": 3,
        "networkPolicy": {
            "clients": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "brokers": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
            "brokerPorts": [9093],
            "extraEgress": [{"ports": [{"protocol": "TCP", "port": 443}]}],
        },
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "serviceAccount": {"annotations": {"note": "x"}},
        "service": {"annotations": {"note": "x"}},
        "podLabels": {"team": "streams"},
        "podAnnotations": {"note": "x"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "streams", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    },
}
SERVICE_MONITOR = {"selector", "namespaceSelector", "endpoints"}

every_case = pytest.mark.parametrize("case", CASES)


def helm(*words, values=None):
    tool = go_tool("helm.sh/helm/v3/cmd/helm", "helm")
    files = ["--values=-"] if values is not None else []
    return output_of(tool, *words, *files, stdin=None if values is None else json.dumps(values))


def rendered(case, version=NEWEST):
    """What the chart makes of values: objects by kind and name."""
    words = ["--namespace=streams", f"--kube-version={version}"]
    text = helm("template", "lw", CHART, *words, values=CASES[case])
    objects = [each for each in yaml.safe_load_all(text) if each]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects}


def pods(objects):
    """The pods that StatefulSets make, by their names."""
    return {
        name: each["spec"]["template"]["spec"]
        for name, each in objects.items()
        if each["kind"] == "StatefulSet"
    }


@every_case
def test_helm_finds_nothing(case):
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, values=CASES[case])


@every_case
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_what_is_rendered_fits_the_schemas_of_kubernetes(case, version, tmp_path):
    objects = rendered(case, version)
    monitors = [each for each in objects.values() if each["kind"] == "ServiceMonitor"]
    assert all(each["spec"].keys() == SERVICE_MONITOR for each in monitors)
    known = [each for each in objects.values() if each not in monitors]
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump_all(known))
    validated(version, file)


def validated(version, file):
    """Have a file validated by the schemas of a version."""
    command = ["--strict", "--kubernetes-version", version]
    output_of(python_tool("kubernetes-validate"), *command, file)


def test_the_manifests_of_the_spark_application_fit_the_schemas():
    validated(NEWEST, DEPLOY / "kubernetes" / "pipeline.yaml")


@every_case
def test_the_settings_are_read_as_they_were_given(case, tmp_path):
    objects = rendered(case)
    (text,) = [
        each["data"]["levelwind.toml"] for each in objects.values() if each["kind"] == "ConfigMap"
    ]
    file = tmp_path / "levelwind.toml"
    file.write_text(text)
    settings = load(file)
    assert tomllib.loads(text)["state_dir"] == str(settings.state_dir) == "/var/lib/levelwind"
    run = CASES[case].get("pipeline", {}).get("run", "own")
    assert settings.pipeline.run == ("child" if run == "child" else "elsewhere")
    assert settings.http.listen == ":9470"
    if case == "everything":
        assert settings.kafka["socket.timeout.ms"] == "3000"
        assert settings.pipeline.max_offsets_per_trigger == 2_000_000
        assert settings.control.cooldown.moves_per_hour == {"skew": 200}
        assert settings.groups["orders.v2"].pins == {"orders": {"0": "orders-1"}}


@every_case
def test_pods_may_do_nothing_and_write_to_their_state_and_tmp_alone(case):
    for pod in pods(rendered(case)).values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
        assert writable == {"/var/lib/levelwind", "/tmp"}  # noqa: S108 - a volume
        assert {"requests", "limits"} <= container["resources"].keys()


@every_case
def test_commands_and_probes_are_those_of_the_daemon(case):
    objects = rendered(case)
    commands = {name: pod["containers"][0]["args"] for name, pod in pods(objects).items()}
    expected = (
        ["pipeline", "run"]
        if "own" in CASES[case].get("pipeline", {}).get("run", "own")
        else ["run"]
    )
    assert sorted(map(parsed_command, commands.values())) == expected
    (daemon,) = [
        p["containers"][0] for p in pods(objects).values() if p["containers"][0]["name"] == "daemon"
    ]
    scheme = "HTTPS" if case == "everything" else "HTTP"
    for probe, path in (("startup", "healthz"), ("liveness", "healthz"), ("readiness", "readyz")):
        target = {"path": f"/{path}", "port": "http", "scheme": scheme}
        assert daemon[f"{probe}Probe"]["httpGet"] == target


def matches(selector, labels):
    return selector.items() <= labels.items()


@every_case
def test_selectors_select_what_they_are_for(case):
    objects = rendered(case)
    labels = {
        name: each["spec"]["template"]["metadata"]["labels"]
        for name, each in objects.items()
        if each["kind"] == "StatefulSet"
    }
    daemons = {
        name for name, each in labels.items() if each["app.kubernetes.io/component"] == "daemon"
    }
    for name, each in objects.items():
        spec = each.get("spec", {})
        if each["kind"] == "Service":
            selected = {pod for pod in labels if matches(spec["selector"], labels[pod])}
            assert selected == daemons, name
        elif each["kind"] == "PodDisruptionBudget":
            selected = {
                pod for pod in labels if matches(spec["selector"]["matchLabels"], labels[pod])
            }
            assert selected == daemons, name
        elif each["kind"] == "NetworkPolicy":
            assert all(matches(spec["podSelector"]["matchLabels"], pod) for pod in labels.values())
        elif each["kind"] == "ServiceMonitor":
            services = [o for o in objects.values() if o["kind"] == "Service"]
            chosen = [
                s
                for s in services
                if matches(spec["selector"]["matchLabels"], s["metadata"]["labels"])
            ]
            assert [s["spec"].get("clusterIP") for s in chosen] == ["None"]
        elif each["kind"] == "StatefulSet":
            assert matches(spec["selector"]["matchLabels"], labels[name])
            assert f"Service/{spec['serviceName']}" in objects


def test_a_single_daemon_has_no_disruption_budget_and_several_have_one():
    kinds = {case: {each["kind"] for each in rendered(case).values()} for case in CASES}
    assert {case for case in CASES if "PodDisruptionBudget" not in kinds[case]} == {"elsewhere"}
    assert {case for case in CASES if "ServiceMonitor" in kinds[case]} == {"everything"}
    assert all("NetworkPolicy" in each for each in kinds.values())


def test_helm_refuses_a_value_that_the_chart_does_not_have():
    tool = go_tool("helm.sh/helm/v3/cmd/helm", "helm")
    command = [tool, "template", "lw", CHART, f"--kube-version={NEWEST}", "--set", "replica=3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "replica" in done.stderr

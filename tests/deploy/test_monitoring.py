"""Dashboard, alert rules and ScaledObjects: well-formed, and about metrics that exist."""

import json
import re
import subprocess
import time
from itertools import chain
from pathlib import Path

import jsonschema
import pytest

from levelwind.daemon.api.wire_models import GroupDocument
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.gauges.group_families import families
from levelwind.daemon.service.metrics import Metrics
from levelwind_testing.control.play import Play
from levelwind_testing.promtool import promtool

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
SCALED_OBJECT = MONITORING / "scaledobject.yaml"
SCALED_BY_API = MONITORING / "scaledobject-metrics-api.yaml"
METRIC = re.compile(r"\b(?:levelwind|kafka)_[a-z_]+")
SUFFIX = re.compile(r"_(total|bucket|sum|count|info)$")

DATA_SOURCE = {
    "type": "object",
    "required": ["type", "uid"],
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
}
TARGET = {
    "type": "object",
    "required": ["refId", "expr", "datasource"],
    "properties": {
        "refId": {"type": "string", "pattern": "^[A-Z]$"},
        "expr": {"type": "string", "minLength": 1},
        "datasource": DATA_SOURCE,
    },
}
GRID = {
    "type": "object",
    "required": ["x", "y", "w", "h"],
    "additionalProperties": False,
    "properties": {
        "x": {"type": "integer", "minimum": 0, "maximum": 23},
        "y": {"type": "integer", "minimum": 0},
        "w": {"type": "integer", "minimum": 1, "maximum": 24},
        "h": {"type": "integer", "minimum": 1},
    },
}
PANEL = {
    "type": "object",
    "required": ["id", "title", "type", "gridPos"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "title": {"type": "string", "minLength": 1},
        "type": {"enum": ["row", "timeseries", "stat"]},
        "gridPos": GRID,
    },
    "if": {"properties": {"type": {"enum": ["timeseries", "stat"]}}},
    "then": {
        "required": ["targets", "datasource", "fieldConfig", "options"],
        "properties": {
            "datasource": DATA_SOURCE,
            "targets": {"type": "array", "minItems": 1, "items": TARGET},
            "fieldConfig": {"type": "object", "required": ["defaults", "overrides"]},
        },
    },
}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["title", "uid", "schemaVersion", "panels", "templating", "time"],
    "properties": {
        "title": {"type": "string"},
        "uid": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "tags": {"type": "array", "items": {"type": "string"}},
        "panels": {"type": "array", "minItems": 1, "items": PANEL},
        "templating": {
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name", "type", "query"],
                        "properties": {"type": {"enum": ["datasource", "query"]}},
                    },
                }
            },
        },
        "time": {"type": "object", "required": ["from", "to"]},
    },
}
"""The part of Grafana's dashboard model that the dashboard uses."""


@pytest.fixture(scope="module")
def exported():
    """The names of all metrics of the daemon, without the suffixes of their samples."""
    metrics = Metrics("0", now=time.time)
    metrics.show(lambda _: None)
    play = Play()
    play.start()
    facts = facts_about(play.state)
    found = chain(metrics.registry.collect(), families(facts, 0.0))
    return {family.name for family in found}


def expressions():
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def test_the_dashboard_is_one():
    jsonschema.validate(DASHBOARD, SCHEMA)
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_no_panel_lies_over_another_or_beyond_the_edge():
    taken = {}
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24, panel["title"]
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                assert (x, y) not in taken, (panel["title"], taken.get((x, y)))
                taken[x, y] = panel["title"]


def test_every_variable_of_the_dashboard_exists():
    known = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    known |= {"__rate_interval", "__range", "__range_s"}
    used = re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))
    assert set(used) <= known


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(expressions()),
        json.dumps(DASHBOARD["templating"]),
        ALERTS.read_text(),
        SCALED_OBJECT.read_text(),
    ],
    ids=["dashboard", "variables", "alerts", "scaled object"],
)
def test_every_metric_that_is_named_exists(text, exported):
    named = set(METRIC.findall(text))
    assert named
    assert {name for name in named if name not in exported} <= {
        name for name in named if SUFFIX.sub("", name) in exported
    }, named - exported


def test_the_api_has_the_field_that_keda_asks_for():
    text = SCALED_BY_API.read_text()
    field = re.search(r"valueLocation: (\w+)", text)[1]
    path = re.search(r"url: http://[^/]+(/\S+)", text)[1]
    assert re.fullmatch("/api/v1/groups/[^/]+", path)
    assert field in GroupDocument.model_fields


def test_every_alert_says_what_it_is_and_what_to_do():
    rules = re.findall(r"- alert: (\w+)(.*?)(?=- alert:|\Z)", ALERTS.read_text(), re.DOTALL)
    assert len(rules) >= 8
    for name, body in rules:
        assert re.search(r"severity: (page|ticket)", body), name
        assert "summary:" in body, name
        assert "description:" in body, name


@pytest.fixture(scope="module")
def check():
    program = promtool()
    if program is None:
        pytest.skip("no promtool, and no package of it")

    def check(*arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return check


@pytest.mark.integration
def test_promtool_finds_nothing_in_the_rules(check):
    assert "rules found" in check("check", "rules", "--lint=all", "--lint-fatal", str(ALERTS))


@pytest.mark.integration
def test_promtool_reads_every_expression_of_the_dashboard(check, tmp_path):
    rules = [
        {"record": f"dashboard:expression:{number}", "expr": filled_in(text)}
        for number, text in enumerate(expressions())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in check("check", "rules", str(file))


@pytest.mark.integration
def test_the_alerts_fire_on_what_they_are_about_and_not_before(check, tmp_path):
    tests = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [
                    {
                        "series": 'levelwind_group_members_wanted{group="g",instance="a"}',
                        "values": "3x20 5x80",
                    },
                    {
                        "series": 'levelwind_group_members{group="g",instance="a"}',
                        "values": "3x100",
                    },
                    # A batch job: its plan stays while it has no member.
                    {
                        "series": 'levelwind_group_members_wanted{group="nightly",instance="a"}',
                        "values": "1x100",
                    },
                    {
                        "series": 'levelwind_group_members{group="nightly",instance="a"}',
                        "values": "0x100",
                    },
                    {
                        "series": 'levelwind_group_lag_records{group="nightly",instance="a"}',
                        "values": "0x100",
                    },
                    {"series": 'levelwind_leading{instance="a"}', "values": "1x40 0x60"},
                    {"series": 'levelwind_leading{instance="b"}', "values": "0x100"},
                ],
                "alert_rule_test": [
                    {"eval_time": "14m", "alertname": "LevelwindGroupTooSmall", "exp_alerts": []},
                    {
                        "eval_time": "16m",
                        "alertname": "LevelwindGroupTooSmall",
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    "severity": "page",
                                    "group": "g",
                                    "instance": "a",
                                },
                                "exp_annotations": {
                                    "summary": "Group g wants 5 members.",
                                    "description": "It cannot drain in the time of "
                                    "scaling.drain_within. Add members, or speed them up; no plan "
                                    "can mend it.",
                                },
                            }
                        ],
                    },
                    {"eval_time": "9m", "alertname": "LevelwindNobodyLeads", "exp_alerts": []},
                    {
                        "eval_time": "12m",
                        "alertname": "LevelwindNobodyLeads",
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": "page"},
                                "exp_annotations": {
                                    "summary": "0 daemons lead, not one.",
                                    "description": "Look for daemon.failed, and for "
                                    "daemon.standing_by without a daemon.taking_over after it.",
                                },
                            }
                        ],
                    },
                ],
            }
        ],
    }
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps(tests))
    check("test", "rules", str(file))


def firing(alert, minutes, *, alerts):
    """A question of a promtool test: how many alerts of a name fire after so many minutes."""
    return {
        "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)',
        "eval_time": f"{minutes}m",
        "exp_samples": [{"labels": "{}", "value": alerts}],
    }


GAP_OF_SCRAPES = "0x80 stale _x120 0x2000"
"""Of a daemon that goes on: its start, in seconds since the epoch."""
DEPOSED_BY_EACH_OTHER = {
    'levelwind_takeovers_total{instance="a"}': "0x7 1x13 2x13 3x120",
    'levelwind_takeovers_total{instance="b"}': "0x13 1x13 2x13 3x120",
}
ENDED_EACH_MINUTE = {
    'process_start_time_seconds{instance="a"}': "100x3 200x3 300x3 400x3 500x3 600x120",
    'levelwind_leading{instance="a"}': "1x160",
}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("alert", "series", "before", "within", "after"),
    [
        (
            "LevelwindPlanFailed",
            {'levelwind_decisions_total{outcome="failed",cause="skew"}': "0x20 1x140"},
            4,
            6,
            30,
        ),
        # A series with a label begins with its first count.
        (
            "LevelwindRecordsRejected",
            {'levelwind_rejected_records_total{topic="levelwind.members"}': "_x20 7x140"},
            4,
            6,
            30,
        ),
        (
            "LevelwindRecordsRejected",
            {'levelwind_pipeline_rejected_records_total{reason="malformed key"}': "_x20 500x140"},
            4,
            6,
            30,
        ),
        (
            "LevelwindRecordsRejected",
            {
                'levelwind_rejected_records_total{topic="levelwind.members"}': "_x20 7x140",
                "process_start_time_seconds": "_x19 285x141",
            },
            4,
            6,
            30,
        ),
        # Each daemon has counted less than what alarms.
        ("LevelwindTakeovers", DEPOSED_BY_EACH_OTHER, 5, 11, 40),
        ("LevelwindTakeovers", ENDED_EACH_MINUTE, 2, 5, 40),
        (
            "LevelwindCheckpointSetAside",
            {
                'levelwind_pipeline_checkpoints_set_aside_total{instance="a"}': "0x20 1x400",
                'levelwind_pipeline_checkpoints_set_aside_total{instance="b"}': "0x40 1x400",
            },
            7,
            15,
            90,
        ),
        # Batches of a second, of four seconds without a pause, and of a second again.
        (
            "LevelwindBatchesLong",
            {
                "levelwind_pipeline_batch_seconds_sum": "0+4x80 324+15x160 2728+4x200",
                "levelwind_pipeline_batch_seconds_count": "0+4x80 324+3.75x160 928+4x200",
            },
            20,
            50,
            80,
        ),
    ],
)
def test_a_rare_fault_fires_once_it_is_counted_and_not_for_ever(
    check, tmp_path, alert, series, before, within, after
):
    questions = [
        firing(alert, before, alerts=0),
        firing(alert, within, alerts=1),
        firing(alert, after, alerts=0),
    ]
    assert_holds(check, tmp_path, series, *questions)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("alert", "counter"),
    [
        ("LevelwindPlanFailed", 'levelwind_decisions_total{outcome="failed",cause="skew"}'),
        ("LevelwindRecordsRejected", 'levelwind_rejected_records_total{topic="t"}'),
        ("LevelwindRecordsRejected", 'levelwind_pipeline_rejected_records_total{reason="r"}'),
    ],
)
def test_an_old_count_fires_no_alert_when_scrapes_go_on(check, tmp_path, alert, counter):
    series = {counter: "1x80 stale _x120 1x200", "process_start_time_seconds": GAP_OF_SCRAPES}
    questions = [firing(alert, minutes, alerts=0) for minutes in (19, 51, 53, 56, 66)]
    assert_holds(check, tmp_path, series, *questions)


def panel(title):
    (found,) = (panel for panel in DASHBOARD["panels"] if panel["title"] == title)
    return filled_in(found["targets"][0]["expr"])


def filled_in(expression):
    """An expression of the dashboard over six hours, as Grafana asks it."""
    for variable, value in {
        "$__rate_interval": "5m",
        "$__range_s": "21600",
        "$__range": "6h",
        "$group": ".*",
    }.items():
        expression = expression.replace(variable, value)
    return expression


REJECTED = 'levelwind_rejected_records_total{topic="levelwind.members"}'
REJECTED_BY_PIPELINE = 'levelwind_pipeline_rejected_records_total{reason="malformed key"}'


@pytest.mark.integration
@pytest.mark.parametrize(
    ("series", "after", "shown"),
    [
        ({}, "20m", 0),
        ({REJECTED: "_x10 7x80"}, "20m", 7),
        ({REJECTED_BY_PIPELINE: "_x10 9x80"}, "20m", 9),
        ({REJECTED: "_x10 7x40 9x40", REJECTED_BY_PIPELINE: "_x10 2x80"}, "20m", 11),
        ({REJECTED: "5x2000"}, "8h", 0),
        ({REJECTED: "_x1700 7x300"}, "8h", 7),
        (
            {REJECTED: "5x80 stale _x120 5x2000", "process_start_time_seconds": GAP_OF_SCRAPES},
            "6h40m",
            0,
        ),
        (
            {REJECTED: "_x1000 5x1000", "process_start_time_seconds": "_x999 14985x1000"},
            "7h",
            5,
        ),
    ],
    ids=[
        "none",
        "of the daemon alone",
        "of the pipeline alone",
        "more and more",
        "long ago",
        "late",
        "long ago, with a gap",
        "of a new daemon",
    ],
)
def test_the_dashboard_counts_the_first_records_that_are_rejected(
    check, tmp_path, series, after, shown
):
    question = {
        "expr": panel("Rejected records"),
        "eval_time": after,
        "exp_samples": [{"labels": "{}", "value": shown}],
    }
    assert_holds(check, tmp_path, series, question)


def assert_holds(check, tmp_path, series, *questions):
    """Let promtool ask about series, beside the rules; the daemon starts when they begin.

    Args:
        check: the fixture.
        tmp_path: the fixture.
        series: a value for each 15 s, by series.
        questions: of promtool.
    """
    series = {"process_start_time_seconds": "0x2000", **series}
    case = {
        "interval": "15s",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "promql_expr_test": questions,
    }
    tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": [case]}
    file = tmp_path / "case.yaml"
    file.write_text(json.dumps(tests), encoding="utf-8")
    check("test", "rules", str(file))

"""The host of the pipeline: when a daemon starts one, keeps it, and leaves another's alone."""

from math import isnan
from types import SimpleNamespace
from typing import ClassVar

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from levelwind.daemon.config.settings import load
from levelwind.daemon.pipeline.progress_totals import ProgressTotals
from levelwind.daemon.service.availability import pipeline_host
from levelwind.daemon.service.availability.pipeline_host import PipelineHost, PipelineSight
from levelwind.daemon.telemetry.pipeline_metrics import PipelineMetrics

ME, BEFORE, OTHER = "host/aaaaaaaa-1111", "host/aaaaaaaa-0000", "elsewhere/bbbbbbbb-2222"


def record(daemon, *, instance="host/1", at=0, error=None):
    totals = ProgressTotals(instance=instance, started_at=0, daemon=daemon, error=error)
    return totals.record(at=at, epoch=1)


def is_over(pipeline, seconds=0.0, stopped=None):
    sight = PipelineSight().seen(pipeline, 100.0).seen(pipeline, 100.0 + seconds)
    return sight.is_over(100.0 + seconds, daemon=ME, stopped=stopped)


@pytest.mark.parametrize(
    ("pipeline", "stopped"),
    [
        (None, None),
        (record(OTHER, error="broken"), None),
        (record(BEFORE), None),
        (record(OTHER), OTHER),
    ],
    ids=["no record", "it has ended", "of the start before", "of the leader that stopped"],
)
def test_a_pipeline_that_has_ended_is_replaced_at_once(pipeline, stopped):
    assert is_over(pipeline, stopped=stopped)


def test_a_child_of_another_daemon_is_replaced_when_it_misses_a_record():
    assert not is_over(record(OTHER), 5.9)
    assert is_over(record(OTHER), 6.0)


def test_an_application_of_its_own_is_waited_for_longer():
    assert not is_over(record(None), 29.9, stopped=OTHER)
    assert is_over(record(None), 30.0)


def test_each_record_begins_the_wait_anew():
    sight = PipelineSight()
    for second in range(100):
        sight = sight.seen(record(OTHER, at=second // 4), float(second))
        assert not sight.is_over(float(second), daemon=ME, stopped=None)


class Child:
    """A child of which the test decides how it fares."""

    started: ClassVar[list] = []

    def __init__(self, _settings, _jars, _attempts, on_event, *, daemon):
        self.on_event, self.daemon = on_event, daemon
        self.watched = self.stopped = 0
        Child.started.append(self)

    def watch(self, _now):
        self.watched += 1

    def ask_to_stop(self):
        pass

    def stop(self):
        self.stopped += 1


class Watched:
    """A daemon's host, and the record that is read."""

    def __init__(self, tmp_path, run="child"):
        Child.started = []
        self.record = None
        self.now = 0.0
        settings = load(overrides={"state_dir": str(tmp_path), "pipeline": {"run": run}})
        metrics = SimpleNamespace(
            on_event=lambda _: None,
            on_end=lambda: None,
            on_report_age=lambda *_, **__: None,
            on_record=lambda *_: None,
        )
        self.host = PipelineHost(settings, metrics, lambda: self.record, ME)

    def look(self, *, leading, seconds=0.5, **more):
        self.now += seconds
        self.host.look(self.now, leading=leading, **more)
        return Child.started


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline_host, "PipelineChild", Child)
    monkeypatch.setattr(pipeline_host, "classpath", lambda _: ())
    return Watched(tmp_path)


def test_only_the_leader_starts_a_pipeline(watched):
    assert watched.look(leading=False) == []
    [child] = watched.look(leading=True)
    assert child.daemon == ME


def test_a_daemon_that_leads_no_more_keeps_its_child(watched):
    [child] = watched.look(leading=True)
    before = child.watched
    assert watched.look(leading=False) == [child]
    assert child.watched == before + 1
    assert child.stopped == 0
    assert watched.look(leading=True) == [child]


def test_the_next_leader_starts_none_while_another_reports(watched):
    for second in range(60):
        watched.record = record(OTHER, at=second // 4)
        assert watched.look(leading=True, seconds=1.0) == []
    assert watched.look(leading=True, seconds=16.0)


def test_a_child_that_a_younger_one_replaced_is_not_started_again(watched):
    [child] = watched.look(leading=True)
    watched.record = record(OTHER)
    child.on_event({"event": "pipeline.superseded", "instance": "host/9"})
    assert watched.look(leading=True) == [child]
    assert child.stopped == 1
    assert watched.look(leading=True, seconds=16.0) != [child]


def test_with_a_pipeline_elsewhere_none_is_ever_started(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline_host, "PipelineChild", Child)
    watched = Watched(tmp_path, run="elsewhere")
    assert watched.look(leading=True, seconds=1000.0) == []


def test_a_daemon_that_leads_no_more_shows_nothing_of_a_pipeline_elsewhere(watched):
    registry = CollectorRegistry()
    watched.host._metrics = PipelineMetrics(registry)
    totals = ProgressTotals(instance="elsewhere/1", started_at=0, daemon=OTHER)
    for second in range(100):  # the leader sees it start, work and fall silent
        watched.record = totals.record(at=min(second, 10), epoch=1)
        watched.look(leading=True, seconds=0.05)
    watched.look(leading=False)
    shown = {
        sample.name: sample.value
        for family in registry.collect()
        if family.type == "gauge"
        for sample in family.samples
    }
    assert shown.pop("levelwind_pipeline_up") == 0
    assert shown
    assert all(isnan(value) for value in shown.values()), shown


def test_a_record_has_the_daemon_whose_child_it_is():
    child = record(ME)
    assert child.value()["daemon"] == ME
    assert "daemon" not in replace(child, daemon=None).value()

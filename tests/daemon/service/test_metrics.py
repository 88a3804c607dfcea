"""Metrics as Prometheus reads them: over HTTP, and by its own parser."""

import errno
import io
import math
import socket
import urllib.request
from contextlib import closing
from types import SimpleNamespace

import pytest
from prometheus_client import ProcessCollector, generate_latest, make_wsgi_app
from prometheus_client.parser import text_string_to_metric_families

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.config.listen import KEEP_ALIVE_SECONDS
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.service.metrics import Metrics, ProcessFigures, ScrapeHandler, serve
from levelwind_testing.control.play import Play
from levelwind_testing.control.two_members import two_members
from levelwind_testing.records import lag, member, skew_trigger, topic
from levelwind_testing.waiting import GENEROUS_SECONDS


@pytest.fixture
def metrics():
    return Metrics("1.2.3", now=lambda: 12.0)


@pytest.fixture
def play():
    return two_members("a", "b")


def scrape(metrics):
    """Every sample by its name and labels."""
    return parsed(generate_latest(metrics.registry).decode())


def parsed(text):
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation for family in families)
    return {
        (sample.name, *(v for _, v in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_they_are_served_over_http(metrics):
    served = serve("127.0.0.1:0", metrics.registry)
    try:
        with urllib.request.urlopen(f"http://{served.address}/metrics", timeout=10) as answer:
            found = parsed(answer.read().decode())
        with pytest.raises(
            ConfigurationError, match=r"metrics\.listen: cannot listen on 127\.0\.0\.1"
        ):
            serve(served.address, metrics.registry)
    finally:
        served.close()
    assert found["levelwind_info", "1.2.3"] == 1
    assert found["process_resident_memory_bytes",] > 0


def test_figures_of_the_process_need_no_file_that_a_unit_hides(tmp_path):
    """`ProcSubset=pid` leaves of /proc the directories of processes."""
    (tmp_path / "self").symlink_to("/proc/self")
    hidden, shown = (
        ProcessFigures(proc=str(tmp_path), registry=None),
        ProcessCollector(registry=None),
    )
    figures = {
        collector: {family.name: family.samples[0].value for family in collector.collect()}
        for collector in (hidden, shown)
    }
    assert figures[hidden].keys() == figures[shown].keys() > {"process_start_time_seconds"}
    started = figures[shown]["process_start_time_seconds"]
    assert figures[hidden]["process_start_time_seconds"] == pytest.approx(started, abs=60)


def test_a_groups_lag_share_and_skew_are_those_of_its_state(metrics, play):
    owned = ranges.parse(play.owned()["a"])
    play.receive("lag", lag(*(300 if number in owned else 100 for number in range(4)), at=2_000))
    play.receive("triggers", skew_trigger())
    metrics.show(lambda _: facts_about(play.state))
    found = scrape(metrics)
    assert found["levelwind_leading",] == 1
    assert found["levelwind_group_lag_records", "g"] == 800
    assert found["levelwind_group_largest_member_share_ratio", "g"] == 0.75
    assert found["levelwind_group_skew_ratio", "g"] == 1.5
    assert found["levelwind_group_lag_age_seconds", "g"] == 10.0
    assert found["levelwind_group_members", "g"] == 2
    assert found["levelwind_trigger_active", "g", "skew"] == 1


def test_figures_of_a_published_group_are_those_of_the_members_that_lag_names(metrics):
    play = Play(strategy="uniform", modes={"g": "published"})
    measured = lag(
        *(300, 300, 100, 100),
        at=100_000,
        members=("a", "b"),
        member_racks=("east", "west"),
        owner=(0, 0, 1, 1),
    )
    play.start(topic(racks=(("east",), ("west",), ("west",), ("west",))), measured)
    play.wait(2)
    metrics.show(lambda _: facts_about(play.state))
    found = scrape(metrics)
    assert found["levelwind_group_members", "g"] == 2
    assert found["levelwind_group_largest_member_share_ratio", "g"] == 0.75
    assert found["levelwind_group_skew_ratio", "g"] == 1.5
    assert found["levelwind_group_cross_rack_ratio", "g", "nominal"] == 0.25


def test_what_goes_away_takes_its_series_along(metrics, play):
    play.receive("lag", lag(1, 1, 1, 1))
    play.receive("triggers", skew_trigger())
    metrics.show(lambda _: facts_about(play.state))
    assert ("levelwind_trigger_active", "g", "skew") in scrape(metrics)
    play.receive("triggers", Tombstone(("skew", "g")))
    play.receive("lag", Tombstone(("lag", "g", "t")))
    found = scrape(metrics)
    assert ("levelwind_trigger_active", "g", "skew") not in found
    assert ("levelwind_group_lag_records", "g") not in found
    assert found["levelwind_group_members", "g"] == 2


def test_a_daemon_that_does_not_lead_shows_no_groups(metrics):
    assert scrape(metrics)["levelwind_leading",] == 0


def batch(**fields):
    whole = {
        "rows": 10,
        "batch_ms": 700,
        "durations": {"addBatch": 600, "triggerExecution": 700},
        "behind": 5,
        "newest": 11_000,
        "delay_ms": 900,
        "state_rows": 3,
        "state_bytes": 4096,
        "rejected": {"malformed key": 2},
        "skipped": {"planner": 1},
    }
    return {"event": "pipeline.batch", **whole, **fields}


def test_before_the_first_batch_the_pipeline_is_at_no_time_rather_than_at_a_very_old_one(metrics):
    metrics.pipeline.on_event(batch(newest=None, delay_ms=None))
    assert math.isnan(scrape(metrics)["levelwind_pipeline_newest_timestamp_seconds",])


def test_a_counter_is_one_series(metrics):
    metrics.on_log_event("plan.published", {"group": "g", "cause": "skew", "moved": 3})
    assert [name for name, *_ in scrape(metrics) if name.endswith("_created")] == []


def test_the_pipelines_batches_are_counted(metrics):
    metrics.pipeline.on_event({"event": "pipeline.started", "seconds": 1.0})
    metrics.pipeline.on_event(batch())
    metrics.pipeline.on_event(batch(behind=0, newest=None, delay_ms=None, rejected={}))
    metrics.pipeline.on_event({"event": "pipeline.catching_up", "percent": 43})
    found = scrape(metrics)
    assert found["levelwind_pipeline_up",] == 1
    assert found["levelwind_pipeline_records_total",] == 20
    assert found["levelwind_pipeline_batch_seconds_count",] == 2
    assert found["levelwind_pipeline_batch_seconds_bucket", "0.75"] == 2
    assert found["levelwind_pipeline_phase_seconds_total", "addBatch"] == 1.2
    assert (
        "levelwind_pipeline_phase_seconds_total",
        "triggerExecution",
    ) not in found  # it is their sum
    assert found["levelwind_pipeline_behind_records",] == 0
    assert found["levelwind_pipeline_delay_seconds_sum",] == 0.9
    assert found["levelwind_pipeline_newest_timestamp_seconds",] == 11
    assert found["levelwind_pipeline_rejected_records_total", "malformed key"] == 2
    assert found["levelwind_pipeline_caught_up_ratio",] == 0.43
    metrics.pipeline.on_event({"event": "pipeline.died"})
    found = scrape(metrics)
    assert (found["levelwind_pipeline_up",], found["levelwind_pipeline_deaths_total",]) == (0, 1)


def test_decisions_and_ticks_are_counted(metrics):
    metrics.on_log_event("plan.published", {"group": "g", "cause": "skew", "moved": 3})
    metrics.on_log_event(
        "plan.suppressed", {"group": "g", "cause": "skew", "reason": "cooling down"}
    )
    metrics.on_log_event("handover.settled", {"group": "g", "group_epoch": 1, "seconds": 1.2})
    metrics.on_tick("offsets", 0.1, answered=True)
    metrics.on_tick("offsets", 2.0, answered=False)
    found = scrape(metrics)
    assert found["levelwind_decisions_total", "skew", "published"] == 1
    assert found["levelwind_decisions_total", "skew", "suppressed"] == 1
    assert found["levelwind_moved_partitions_total", "skew"] == 3
    assert found["levelwind_handover_seconds_bucket", "1.5"] == 1
    assert found["levelwind_observer_tick_seconds_count", "offsets"] == 1
    assert found["levelwind_observer_unanswered_ticks_total", "offsets"] == 1


def test_every_outcome_of_every_cause_is_counted_from_nought(metrics):
    found = scrape(metrics)
    for cause in Cause:
        assert found["levelwind_moved_partitions_total", cause] == 0
        for outcome in ("published", "confirmed", "suppressed", "failed"):
            assert found["levelwind_decisions_total", cause, outcome] == 0


def test_the_fields_that_are_counted_are_those_that_the_control_says(metrics, play):
    """A field that is renamed there must not silently stop to count here."""
    play.join(member("c"))
    play.wait(10)
    for event in (entry for entry in play.events if isinstance(entry, LogEvent)):
        metrics.on_log_event(event.event, event.fields)
    found = scrape(metrics)
    assert found["levelwind_decisions_total", "membership", "published"] == 2
    moved = sum(plan["moved"] for plan in play.plans)
    assert found["levelwind_moved_partitions_total", "membership"] == moved > 0
    assert found["levelwind_handover_seconds_count",] == 2


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nHost: a"])
def test_a_connection_that_never_asks_is_closed_without_a_word(metrics, sent, monkeypatch, capfd):
    assert ScrapeHandler.timeout == KEEP_ALIVE_SECONDS
    monkeypatch.setattr(ScrapeHandler, "timeout", 0.1)
    with closing(serve("127.0.0.1:0", metrics.registry)) as server:
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=GENEROUS_SECONDS) as silent:
            silent.sendall(sent)
            assert silent.recv(1) == b""
    assert capfd.readouterr() == ("", "")


class AskedSocket:
    """The socket of a peer that has asked, and takes a byte at a time until there is an error."""

    def __init__(self, error=None):
        self.error = error
        self.taken = b""

    def settimeout(self, _):
        pass

    def makefile(self, *_):
        return io.BytesIO(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")

    def send(self, data):
        if self.error is not None:
            raise self.error
        self.taken += data[:1]
        return 1


def answer(metrics, asked):
    app = make_wsgi_app(metrics.registry)
    server = SimpleNamespace(base_environ={}, get_app=lambda: app)
    ScrapeHandler(asked, ("127.0.0.1", 1), server)


@pytest.mark.parametrize(
    "error",
    [TimeoutError("timed out"), OSError(errno.EHOSTUNREACH, "No route"), BrokenPipeError()],
    ids=["silent", "without a route", "closed"],
)
def test_a_peer_that_takes_no_answer_leaves_no_traceback(metrics, error, capfd):
    answer(metrics, AskedSocket(error))
    assert capfd.readouterr() == ("", "")


def test_a_peer_that_takes_its_answer_slowly_gets_all_of_it(metrics):
    """Its time-out is that of a part, and not of the whole."""
    asked = AskedSocket()
    answer(metrics, asked)
    head, _, body = asked.taken.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK")
    assert parsed(body.decode())["levelwind_info", "1.2.3"] == 1


@pytest.mark.parametrize(
    "listen",
    [
        "9464",
        "here:",
        "::1:9464",
        "127.0.0.1:99999",
        "127.0.0.1:http",
        "127.0.0.1:²",
        "a..b:1",
        f"{'a' * 64}:1",
        "a\0b:1",
        f"127.0.0.1:{'9' * 5000}",
    ],
)
def test_an_address_that_is_none_is_refused(metrics, listen):
    with pytest.raises(ConfigurationError, match="is not ADDRESS:PORT"):
        serve(listen, metrics.registry)


def test_records_without_room_are_counted_until_they_are_written_or_nobody_writes_them(metrics):
    name, unwritten = "levelwind_unwritten_records", metrics.unwritten
    for key in (("lag", "g", "t"), ("lag", "g", "u"), ("speed", "h")):
        unwritten.refused("lw.lag", key, 9)
    unwritten.refused("lw.metadata", ("offsets", "t"), 9)
    found = scrape(metrics)
    assert found[name, "g", "lw.lag"] == 2
    assert found[name, "h", "lw.lag"] == found[name, "t", "lw.metadata"] == 1
    unwritten.written("lw.lag", ("lag", "g", "t"))
    unwritten.written("lw.lag", ("speed", "h"))
    unwritten.forget("lw.metadata")
    assert {key: n for key, n in scrape(metrics).items() if key[0] == name} == {
        (name, "g", "lw.lag"): 1
    }

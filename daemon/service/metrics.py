"""Metrics for Prometheus: counters of the daemon, and gauges of the groups.

Counters grow with events that are in the log as well. Gauges, a group's lag or an active trigger,
are measured when Prometheus scrapes, by facts that the control's thread takes for that, without any
request: so the series of a group end with the group. Names and units follow Prometheus' rules:
seconds, bytes, `_total` for counters.
"""

from __future__ import annotations

import collections
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    make_wsgi_app,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.daemon.config.listen import KEEP_ALIVE_SECONDS, listening_socket, shown_address
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.gauges.group_families import families
from levelwind.daemon.gauges.group_gauges import GroupGauges
from levelwind.daemon.service.availability.freeze_metrics import freeze_families
from levelwind.daemon.service.availability.latest_facts import PATIENCE_SECONDS
from levelwind.daemon.telemetry.pipeline_metrics import BUCKETS_SECONDS, PipelineMetrics
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from _typeshed import ReadableBuffer
    from prometheus_client.core import Metric

    from levelwind.daemon.control.state.control_facts import ControlFacts
    from levelwind.daemon.polling.commit_poller import PollFigures
    from levelwind.daemon.service.availability.readiness import Readiness

OUTCOMES = {
    "plan.published": "published",
    "plan.confirmed": "confirmed",
    "plan.suppressed": "suppressed",
    "plan.failed": "failed",
}


class ProcessFigures(ProcessCollector):
    """The usual figures of the process, with the time of the system's start by the clocks.

    The library reads that in /proc/stat, and has no figure at all where the file is hidden, as
    `ProcSubset=pid` of a systemd unit hides it.
    """

    def _boot_time(self) -> float:
        return now_ms() / 1000 - boot_seconds()


class Metrics:
    """All metrics of the daemon; every method may be called from any thread."""

    def __init__(
        self,
        version: str,
        now: Callable[[], float],
        gauges: GroupGauges | None = None,
        *,
        cluster: str = "",
    ) -> None:
        """Make the metrics of a process.

        Args:
            version: the version that is shown.
            now: returns seconds since the epoch.
            gauges: the figures of groups; None for those of the default settings.
            cluster: the label `cluster_name` of the gauges with kafka-lag-exporter's names.
        """
        # The creation time of a counter interests nobody, and would double the number of series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._facts: Callable[[float], ControlFacts | None] = lambda _: None
        self._proxy_standings: dict[str, str] = {}
        self._readiness: Callable[[float], Readiness | None] = lambda _: None
        ProcessFigures(registry=self.registry)
        self._gauges = gauges or GroupGauges()
        self.unwritten = UnwrittenRecords()
        self._poll: PollFigures | None = None
        for families_of in (
            lambda: _groups(self._new_facts(), now(), self._gauges, cluster),
            lambda: _proxied(self._proxy_standings),
            lambda: _unwritten(self.unwritten),
            lambda: _polled(self._poll),
            lambda: freeze_families(self.readiness()),
        ):
            self.registry.register(_MeasuredCollector(families_of))
        Info("levelwind", "The daemon.", registry=self.registry).info({"version": version})
        self.pipeline = PipelineMetrics(self.registry)
        self._add_control_metrics()

    def show(
        self,
        facts: Callable[[float], ControlFacts | None],
        readiness: Callable[[float], Readiness | None] = lambda _: None,
    ) -> None:
        """Export the groups that facts tell of.

        Args:
            facts: returns the facts, and waits for new ones for so many seconds at most; None while
                the daemon does not lead.
            readiness: returns the daemon's readiness, likewise.
        """
        self._facts = facts
        self._readiness = readiness

    def readiness(self) -> Readiness | None:
        """Return the daemon's readiness; None before there is a daemon."""
        return self._readiness(0.0)

    def members_wanted(self, group: str) -> int | None:
        """Return the members that a group wants; None without such a group, or while not leading.

        May be called from any thread but the event loop's: it waits for facts that are new.
        """
        facts = self._new_facts()
        return None if facts is None else self._gauges.members_wanted(facts, group)

    def _new_facts(self) -> ControlFacts | None:
        return self._facts(PATIENCE_SECONDS)

    def _add_control_metrics(self) -> None:
        counter = partial(Counter, namespace="levelwind", registry=self.registry)
        histogram = partial(
            Histogram, namespace="levelwind", buckets=BUCKETS_SECONDS, registry=self.registry
        )
        self._ticks = histogram(
            "observer_tick_seconds", "Duration of a tick of the observer, in seconds.", ("tick",)
        )
        self._unanswered = counter(
            "observer_unanswered_ticks",
            "Ticks of the observer that the cluster did not answer.",
            ("tick",),
        )
        self._decisions = counter(
            "decisions",
            "Decisions about a plan, by outcome and by cause of the plan.",
            ("outcome", "cause"),
        )
        self._moves = counter(
            "moved_partitions", "Partitions moved by plans, by cause of the plan.", ("cause",)
        )
        # A series that began with its first count would hide that one from `increase()`.
        for cause in Cause:
            self._moves.labels(cause)
            for outcome in OUTCOMES.values():
                self._decisions.labels(outcome, cause)
        self._handover = histogram(
            "handover_seconds", "Seconds from a plan until every partition is with its new owner."
        )
        self._evicted = counter(
            "evicted_members", "Members from which the planner took everything."
        )

        self._takeovers = counter("takeovers", "Times that this daemon became the planner.")
        self._rejected = counter(
            "rejected_records",
            "Records of levelwind's topics that this daemon could not read or did not accept.",
            ("topic",),
        )

    def on_log_event(self, event: str, fields: Mapping[str, Any]) -> None:
        """Count an event of the control."""
        if event in OUTCOMES:
            cause = str(fields.get("cause", ""))
            self._decisions.labels(OUTCOMES[event], cause).inc()
            if event == "plan.published":
                self._moves.labels(cause).inc(fields["moved"])
        match event:
            case "handover.settled":
                self._handover.observe(float(fields["seconds"]))
            case "member.evicted":
                self._evicted.inc()
            case "daemon.leading":
                self._takeovers.inc()
            case _:
                pass

    def on_proxy(self, group: str, standing: str | None) -> None:
        """Note how the leader proxy stands to a group; None: it has ended."""
        if standing is None:
            self._proxy_standings.pop(group, None)
        else:
            self._proxy_standings[group] = standing

    def on_rejected(self, topic: str) -> None:
        """Count a record of one of levelwind's topics that is not read."""
        self._rejected.labels(topic).inc()

    def on_tick(self, tick: str, seconds: float, answered: bool) -> None:
        """Count a tick of the observer."""
        if answered:
            self._ticks.labels(tick).observe(seconds)
        else:
            self._unanswered.labels(tick).inc()

    def on_poll(self, figures: PollFigures | None) -> None:
        """Show a round of questions for commits; None: this daemon polls no more."""
        self._poll = figures


# Gauges that are measured at each scrape.


class _MeasuredCollector(Collector):
    """Measures some gauges at each scrape."""

    def __init__(self, families_of: Callable[[], Iterable[Metric]]) -> None:
        self._families_of = families_of

    def collect(self) -> Iterable[Metric]:
        return self._families_of()


def _groups(
    facts: ControlFacts | None, now: float, gauges: GroupGauges, cluster: str
) -> Iterator[Metric]:
    """Whether this daemon leads, and the gauges of the groups."""
    leading = GaugeMetricFamily("levelwind_leading", "1 while this daemon is the planner, else 0.")
    leading.add_metric([], float(facts is not None))
    yield leading
    if facts is None:
        gauges.forget()
    else:
        yield from families(facts, now, gauges, cluster=cluster)


def _unwritten(unwritten: UnwrittenRecords) -> Iterator[Metric]:
    """The records that their topics have no room for."""
    family = GaugeMetricFamily(
        "levelwind_unwritten_records",
        "Records of a group or topic that are larger than one of levelwind's topics takes.",
        labels=("topic", "name"),
    )
    found = collections.Counter((topic, str(key[1])) for topic, key in unwritten.found())
    for labels, number in sorted(found.items()):
        family.add_metric(labels, number)
    yield family


def _polled(figures: PollFigures | None) -> Iterator[Metric]:
    """The last round of questions for commits; without polling, nothing."""
    for name, text, of in (
        ("polled_groups", "Groups that coordinators are asked for.", "groups"),
        ("unpolled_groups", "Groups whose coordinators refuse to answer.", "refused"),
        ("poll_requests", "Requests of the last round of questions for commits.", "requests"),
        ("poll_seconds", "Duration of that round, in seconds.", "seconds"),
    ):
        family = GaugeMetricFamily(f"levelwind_{name}", text)
        if figures is not None:
            family.add_metric([], getattr(figures, of))
        yield family


def _proxied(standings: Mapping[str, str]) -> Iterator[Metric]:
    """The standing of the leader proxy in each of its groups."""
    family = GaugeMetricFamily(
        "levelwind_group_proxy",
        "1 for how the leader proxy stands to a group: leading, waiting for the lead, ...",
        labels=("group", "standing"),
    )
    for group, standing in list(standings.items()):
        family.add_metric([group, standing], 1.0)
    yield family


# Serving.


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsServer:
    """A running HTTP server of metrics."""

    address: str
    """Host and port, as in a URL."""
    close: Callable[[], None]
    """Stops the server, and waits up to five seconds for its thread."""


def serve(listen: str, registry: CollectorRegistry) -> MetricsServer:
    """Serve a registry over HTTP, in a thread that ends with the process.

    Args:
        listen: the address, as in `metrics.listen`; port 0 takes any free port.
        registry: the metrics.

    Raises:
        ConfigurationError: `listen` is no address, or the server cannot listen there.
    """
    host, opened = listening_socket("metrics.listen", listen)
    server = _ScrapeServer(opened, registry)
    thread = threading.Thread(target=server.serve_forever, name="metrics-server", daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(5)

    return MetricsServer(address=shown_address(host, server.server_port), close=close)


class ScrapeHandler(WSGIRequestHandler):
    """A connection, which is closed if its peer is silent for too long."""

    timeout = KEEP_ALIVE_SECONDS
    """Seconds."""

    def setup(self) -> None:
        """Answer by way of `_PeerWriter`."""
        super().setup()
        self.wfile = _PeerWriter(self.connection)

    def handle(self) -> None:
        """Answer a request; without one, leave the peer."""
        with suppress(OSError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _PeerWriter(BufferedIOBase):
    """Sends the answer, for as long as the peer takes some of it within the connection's timeout.

    Every failure is that of a connection that was closed: wsgiref logs any other as an error.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        left = memoryview(data)
        size = len(left)
        try:
            while left:  # `sendall` would have one timeout for all of it
                left = left[self._connection.send(left) :]
        except OSError as error:
            raise ConnectionAbortedError(str(error)) from error
        return size


class _ScrapeServer(ThreadingWSGIServer):
    """Serves metrics over a socket that listens already, each connection in a thread."""

    def __init__(self, opened: socket.socket, registry: CollectorRegistry) -> None:
        address = opened.getsockname()[:2]
        super().__init__(address, ScrapeHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = opened
        self.server_name, self.server_port = address
        self.setup_environ()
        self.set_app(make_wsgi_app(registry))

"""Metrics for Prometheus: what the daemon counts of itself, and what its control knows of the groups now.

Two kinds. What happens is counted where it happens, by events that the log has too. What is, a group's lag or a standing
trigger, is read off the control's state when somebody asks: nothing is kept, so a group that goes away takes its series
along. The state is replaced and never changed, so it is read without a lock, in the server's thread. Names and units
follow Prometheus' own rules: seconds, bytes, and `_total` for what only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from daemon.control.snapshot import current_lags, group_lag
from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from daemon.control.controller import ControlState

SECONDS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
WHOLE = "triggerExecution"
"""Spark's name for a batch as a whole, among those of its phases."""
DECISIONS = {
    "plan.published": "published",
    "plan.confirmed": "confirmed",
    "plan.suppressed": "suppressed",
    "plan.failed": "failed",
}


class Metrics:
    """The daemon's counters; each method may be called from any thread."""

    def __init__(self, version: str, now: Callable[[], float]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # when each counter began nobody asks, and it would double their number
        self.registry = CollectorRegistry()
        self._state: Callable[[], ControlState | None] | None = None
        ProcessCollector(registry=self.registry)
        self.registry.register(_Groups(self._leading, now))
        Info("levelwind", "The daemon.", registry=self.registry).info({"version": version})
        self._pipeline_metrics()
        self._control_metrics()

    def show(self, state: Callable[[], ControlState | None]) -> None:
        """Show the groups of a state, once there is one; None: this daemon does not lead yet."""
        self._state = state

    def _leading(self) -> ControlState | None:
        return self._state() if self._state else None

    def _pipeline_metrics(self) -> None:
        self._up = self._gauge("pipeline_up", "Whether the pipeline's query runs.")
        self._deaths = self._counter(
            "pipeline_deaths", "Times that the pipeline's process has ended."
        )
        self._set_aside = self._counter(
            "pipeline_checkpoints_set_aside", "Checkpoints that could not be gone on from."
        )
        self._batch = self._histogram("pipeline_batch_seconds", "Duration of the query's batches.")
        self._phase = self._counter(
            "pipeline_phase_seconds", "Time that batches spent, by Spark's phase.", ("phase",)
        )
        self._records = self._counter("pipeline_records", "Kafka records read.")
        self._behind = self._gauge(
            "pipeline_behind_records", "Records that the last batch left unread."
        )
        self._caught_up = self._gauge(
            "pipeline_caught_up_ratio",
            "Share of the backlog that is read; 1 when the query keeps pace.",
        )
        self._delay = self._histogram(
            "pipeline_delay_seconds", "Age of a batch's newest record at the batch's end."
        )
        self._newest = self._gauge(
            "pipeline_newest_timestamp_seconds",
            "Time of the newest record read: the query's event time.",
        )
        self._newest.set(float("nan"))  # of none yet: it is no time, and old by no rule
        self._state_rows = self._gauge("pipeline_state_rows", "Keys in the query's state.")
        self._state_bytes = self._gauge(
            "pipeline_state_bytes", "Memory of the query's state stores."
        )
        self._rejected = self._counter(
            "pipeline_rejected_records", "Records that could not be read, by reason.", ("reason",)
        )
        self._skipped = self._counter(
            "pipeline_skipped_records", "Records that say nothing about lag, by kind.", ("kind",)
        )

    def _control_metrics(self) -> None:
        self._ticks = self._histogram(
            "observer_tick_seconds", "Duration of the observer's ticks.", ("tick",)
        )
        self._unanswered = self._counter(
            "observer_unanswered_ticks",
            "Ticks of the observer that the cluster did not answer.",
            ("tick",),
        )
        self._decisions = self._counter(
            "decisions", "What the control decided.", ("outcome", "cause")
        )
        self._moves = self._counter(
            "moved_partitions", "Partitions moved by plans, by cause.", ("cause",)
        )
        self._handover = self._histogram(
            "handover_seconds", "From a plan to every partition being where it wants it."
        )
        self._evicted = self._counter("evicted_members", "Members evicted.")

    def on_log_event(self, event: str, fields: Mapping[str, Any]) -> None:
        """Count what the control has decided."""
        if event in DECISIONS:
            cause = str(fields.get("cause", ""))
            self._decisions.labels(DECISIONS[event], cause).inc()
            if event == "plan.published":
                self._moves.labels(cause).inc(fields["moved"])
        match event:
            case "handover.settled":
                self._handover.observe(float(fields["seconds"]))
            case "member.evicted":
                self._evicted.inc()
            case _:
                pass

    def on_tick(self, tick: str, seconds: float, answered: bool) -> None:
        """Count a tick of the observer."""
        if answered:
            self._ticks.labels(tick).observe(seconds)
        else:
            self._unanswered.labels(tick).inc()

    def on_pipeline_event(self, event: Mapping[str, Any]) -> None:
        """Count an event of the pipeline's process."""
        match event["event"]:
            case "pipeline.batch":
                self._batched(event)
            case "pipeline.started":
                self._up.set(1)
            case "pipeline.died":
                self._up.set(0)
                self._deaths.inc()
            case "pipeline.failed":
                self._up.set(0)
            case "pipeline.checkpoint_set_aside":
                self._set_aside.inc()
            case "pipeline.catching_up":
                self._caught_up.set(event["percent"] / 100)
            case "pipeline.caught_up":
                self._caught_up.set(1)
            case _:
                pass

    def _batched(self, batch: Mapping[str, Any]) -> None:
        self._batch.observe(batch["batch_ms"] / 1000)
        parts = {phase: took for phase, took in batch["durations"].items() if phase != WHOLE}
        for phase, took in parts.items():
            self._phase.labels(phase).inc(took / 1000)
        self._records.inc(batch["rows"])
        if batch["behind"] is not None:
            self._behind.set(batch["behind"])
        if batch["newest"] is not None:
            self._newest.set(batch["newest"] / 1000)
            self._delay.observe(batch["delay_ms"] / 1000)
        self._state_rows.set(batch["state_rows"])
        self._state_bytes.set(batch["state_bytes"])
        for reason, count in batch["rejected"].items():
            self._rejected.labels(reason).inc(count)
        for kind, count in batch["skipped"].items():
            self._skipped.labels(kind).inc(count)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"levelwind_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"levelwind_{name}", text, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(f"levelwind_{name}", text, labels, buckets=SECONDS, registry=self.registry)


# The groups.


class _Groups(Collector):
    """Reads the control's state when it is asked."""

    def __init__(self, state: Callable[[], ControlState | None], now: Callable[[], float]) -> None:
        self._state = state
        self._now = now

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        leading = GaugeMetricFamily("levelwind_leading", "Whether this daemon is the planner.")
        leading.add_metric([], float(state is not None))
        yield leading
        if state is not None:
            yield from families(state, self._now())


def families(state: ControlState, now: float) -> Iterator[Metric]:
    """Give the gauges of all groups at a time, seconds since the epoch."""
    lag = _family("lag_records", "Records behind, over all partitions.")
    age = _family("lag_age_seconds", "How old the group's oldest sample of lag is.")
    share = _family(
        "largest_member_share_ratio", "The most loaded member's share of the group's lag."
    )
    skew = _family("skew_ratio", "The most loaded member's lag over its capacity, over the mean.")
    members = _family("members", "Live members of a managed group.")
    moving = _family("pending_handover", "Whether partitions are still being handed over.")
    standing = GaugeMetricFamily(
        "levelwind_trigger_active", "A cause to plan that stands.", labels=("group", "kind")
    )
    for group in state.groups.values():
        lags = current_lags(group.lags, state.topics, state.deleted_topics)
        figures = group_lag(lags, group.owners(), group.capacity)
        for family, value in (
            (lag, figures.total if lags else None),
            (age, None if figures.oldest_at is None else max(now - figures.oldest_at / 1000, 0.0)),
            (share, figures.largest_share),
            (skew, figures.skew),
            (members, len(group.live) if group.live or group.plan else None),
            (moving, float(not group.ledger.settled) if group.live or group.plan else None),
        ):
            if value is not None:
                family.add_metric([group.name], value)
        for cause in group.triggers:
            standing.add_metric([group.name, cause.value], 1.0)
    yield from (lag, age, share, skew, members, moving, standing)


def _family(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"levelwind_group_{name}", text, labels=("group",))


# Serving.


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsServer:
    """A server that runs."""

    address: str
    close: Callable[[], None]


def serve(listen: str, registry: CollectorRegistry) -> MetricsServer:
    """Serve a registry over HTTP, in a thread that ends with the process.

    Raises:
        ConfigurationError: the address is none, or cannot be listened on.
    """
    host, port = _address(listen)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"metrics.listen: cannot listen on {listen}: {error.strerror or error}; take another, or leave it empty"
        ) from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(5)

    shown = f"[{host}]" if ":" in host else host
    return MetricsServer(address=f"{shown}:{server.server_port}", close=close)


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdigit() or int(port) > 65535 or (":" in host and bare == host):
        raise ConfigurationError(f"metrics.listen: {listen!r} is not ADDRESS:PORT")
    return bare or "0.0.0.0", int(port)  # noqa: S104 - ":9464" asks for every address

"""Metrics for Prometheus: counters of the daemon, and gauges of the groups.

Counters grow with events that are in the log as well. Gauges, a group's lag or an active trigger,
are read from the control's state when Prometheus scrapes: nothing is kept, so that the series of a
group end with the group. Each group is a value, so that the server's thread reads it without a
lock. Names and units follow Prometheus' rules: seconds, bytes, `_total` for counters.
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

from daemon.control.gain.cross_rack import cross_rack_shares
from daemon.control.gain.demand import learned_speeds
from daemon.control.group_records import newest_lags
from daemon.control.snapshot import current_lags, group_lag
from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from assignors.protocol.records import LagRecord
    from daemon.control.controller import ControlState

BUCKETS_SECONDS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
WHOLE_BATCH = "triggerExecution"
"""Spark's name for a batch as a whole, among the names of its phases."""
OUTCOMES = {
    "plan.published": "published",
    "plan.confirmed": "confirmed",
    "plan.suppressed": "suppressed",
    "plan.failed": "failed",
}


class Metrics:
    """All metrics of the daemon; every method may be called from any thread."""

    def __init__(self, version: str, now: Callable[[], float]) -> None:
        # The creation time of a counter interests nobody, and would double the number of series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._state: Callable[[], ControlState | None] | None = None
        ProcessCollector(registry=self.registry)
        self.registry.register(_Groups(self._leading, now))
        Info("levelwind", "The daemon.", registry=self.registry).info({"version": version})
        self._add_pipeline_metrics()
        self._add_control_metrics()

    def show(self, state: Callable[[], ControlState | None]) -> None:
        """Export the groups of a state, which is None while the daemon does not lead."""
        self._state = state

    def _leading(self) -> ControlState | None:
        return self._state() if self._state else None

    def _add_pipeline_metrics(self) -> None:
        self._up = self._gauge("pipeline_up", "1 while the pipeline's query runs, else 0.")
        self._deaths = self._counter("pipeline_deaths", "Ends of the pipeline's process.")
        self._set_aside = self._counter(
            "pipeline_checkpoints_set_aside",
            "Checkpoints that could not be continued and were moved away.",
        )
        self._batch = self._histogram(
            "pipeline_batch_seconds", "Duration of a batch of the query, in seconds."
        )
        self._phase = self._counter(
            "pipeline_phase_seconds", "Seconds that batches spent, by Spark's phase.", ("phase",)
        )
        self._records = self._counter("pipeline_records", "Kafka records that the query has read.")
        self._behind = self._gauge(
            "pipeline_behind_records", "Kafka records that the last batch left unread."
        )
        self._caught_up = self._gauge(
            "pipeline_caught_up_ratio",
            "Share of the backlog that has been read; 1 once the query keeps pace.",
        )
        self._delay = self._histogram(
            "pipeline_delay_seconds",
            "Age of a batch's newest record at the end of the batch, in seconds.",
        )
        self._newest = self._gauge(
            "pipeline_newest_timestamp_seconds",
            "Time of the newest record read, in seconds since the epoch; NaN before the first.",
        )
        self._newest.set(float("nan"))  # no time, so that no alert takes it for an old one
        self._state_rows = self._gauge("pipeline_state_rows", "Keys in the query's state stores.")
        self._state_bytes = self._gauge(
            "pipeline_state_bytes", "Memory of the query's state stores, in bytes."
        )
        self._rejected = self._counter(
            "pipeline_rejected_records",
            "Kafka records that could not be read, by reason.",
            ("reason",),
        )
        self._skipped = self._counter(
            "pipeline_skipped_records",
            "Kafka records without information about lag, by kind.",
            ("kind",),
        )

    def _add_control_metrics(self) -> None:
        self._ticks = self._histogram(
            "observer_tick_seconds", "Duration of a tick of the observer, in seconds.", ("tick",)
        )
        self._unanswered = self._counter(
            "observer_unanswered_ticks",
            "Ticks of the observer that the cluster did not answer.",
            ("tick",),
        )
        self._decisions = self._counter(
            "decisions",
            "Decisions about a plan, by outcome and by cause of the plan.",
            ("outcome", "cause"),
        )
        self._moves = self._counter(
            "moved_partitions", "Partitions moved by plans, by cause of the plan.", ("cause",)
        )
        self._handover = self._histogram(
            "handover_seconds", "Seconds from a plan until every partition is with its new owner."
        )
        self._evicted = self._counter(
            "evicted_members", "Members from which the planner took everything."
        )

        self._takeovers = self._counter("takeovers", "Times that this daemon became the planner.")

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
                self._on_batch(event)
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

    def on_pipeline_end(self) -> None:
        """Note that the daemon has ended the pipeline's process, since it leads no more."""
        self._up.set(0)

    def _on_batch(self, batch: Mapping[str, Any]) -> None:
        self._batch.observe(batch["batch_ms"] / 1000)
        for phase, milliseconds in batch["durations"].items():
            if phase != WHOLE_BATCH:
                self._phase.labels(phase).inc(milliseconds / 1000)
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
        return Histogram(
            f"levelwind_{name}", text, labels, buckets=BUCKETS_SECONDS, registry=self.registry
        )


# Gauges of the groups.


class _Groups(Collector):
    """Reads the control's state at each scrape."""

    def __init__(self, state: Callable[[], ControlState | None], now: Callable[[], float]) -> None:
        self._state = state
        self._now = now

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        leading = GaugeMetricFamily(
            "levelwind_leading", "1 while this daemon is the planner, else 0."
        )
        leading.add_metric([], float(state is not None))
        yield leading
        if state is not None:
            yield from families(state, self._now())


def families(state: ControlState, now: float) -> Iterator[Metric]:
    """Yield the gauges of all groups; `now` is in seconds since the epoch."""
    lag = _family("lag_records", "Records behind, over all partitions of the group.")
    unclaimed = _family(
        "unclaimed_partitions",
        "Partitions without a commit, an owner and a plan in topics that the group reads: no lag.",
    )
    bounded = _family(
        "upper_bound_partitions",
        "Partitions whose lag may count control records and aborted records.",
    )
    age = _family("lag_age_seconds", "Age of the group's oldest sample of lag, in seconds.")
    share = _family(
        "largest_member_share_ratio", "Share of the group's lag that the most loaded member has."
    )
    skew = _family("skew_ratio", "Load of the most loaded member, over the mean of all members.")
    load = _family(
        "drain_seconds", "Load of the most loaded member: seconds that it needs for its records."
    )
    best = _family("best_drain_seconds", "Least load of the most loaded member under any plan.")
    horizon = _family("horizon_seconds", "Seconds that the group as a whole needs to drain.")
    utilisation = _family(
        "utilisation_ratio", "Largest share of its capacity that the arrivals of a member need."
    )
    wanted = _family(
        "members_wanted", "Members that the arrivals want; 0 while the group can drain."
    )
    members = _family("members", "Live members of the group.")
    moving = _family("pending_handover", "1 while partitions are being handed over, else 0.")
    crossing = GaugeMetricFamily(
        "levelwind_group_cross_rack_ratio",
        "Share of the group's partitions read from another rack: nominal, by the replicas, and "
        "effective, by what the brokers let consumers fetch.",
        labels=("group", "kind"),
    )
    triggers = GaugeMetricFamily(
        "levelwind_trigger_active",
        "1 for each active trigger of a group.",
        labels=("group", "kind"),
    )
    plans_waiting = GaugeMetricFamily(
        "levelwind_plans_waiting", "Groups that wait for a plan because others are made before."
    )
    plans_waiting.add_metric([], len(state.backlog))
    plan_delay = GaugeMetricFamily(
        "levelwind_plan_delay_seconds", "Longest time for which a group has waited for its plan."
    )
    plan_delay.add_metric([], state.backlog.longest_wait(now))
    for group in state.groups.values():
        lags = current_lags(newest_lags(group), state.topics, state.deleted_topics)
        figures = group_lag(lags, group.owners(), group.capacity, learned_speeds(group.speeds))
        drain = figures.drain
        for family, value in (
            (lag, figures.total if lags else None),
            (unclaimed, partitions_unclaimed(lags) if lags else None),
            (bounded, sum(len(one.lag_upper_bound) for one in lags.values()) if lags else None),
            (age, None if figures.oldest_at is None else max(now - figures.oldest_at / 1000, 0.0)),
            (share, figures.largest_share),
            (skew, figures.skew),
            (load, figures.drain_seconds),
            (best, drain.best if drain and drain.mean else None),
            (horizon, drain.horizon if drain and drain.mean else None),
            (utilisation, drain.utilisation if drain and drain.arrivals else None),
            (wanted, float(group.demand.members_wanted or 0) if group.plan else None),
            (members, len(group.live) if group.live or group.plan else None),
            (moving, float(not group.ledger.settled) if group.live or group.plan else None),
        ):
            if value is not None:
                family.add_metric([group.name], value)
        racks = {name: member.rack for name, member in group.members.items()}
        shares = cross_rack_shares(group.owners(), racks, state.topics, state.brokers)
        for kind, ratio in shares._asdict().items():
            if ratio is not None:
                crossing.add_metric([group.name, kind], ratio)
        for cause in group.triggers:
            triggers.add_metric([group.name, cause.value], 1.0)
    yield from (lag, unclaimed, bounded, age, share, skew, load, best, horizon, utilisation, wanted)
    yield from (members, moving, crossing, triggers, plans_waiting, plan_delay)


def partitions_unclaimed(lags: Mapping[str, LagRecord]) -> int:
    """Return the number of partitions that nobody claims."""
    return sum(records >= 0 for lag in lags.values() for records in lag.unclaimed or ())


def _family(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"levelwind_group_{name}", text, labels=("group",))


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
    host, port = _address(listen)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"metrics.listen: cannot listen on {listen}: {error.strerror or error};"
            " choose another address, or leave the setting empty"
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

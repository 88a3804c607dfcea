"""Documents of the API about the cluster and the pipeline."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from levelwind.daemon.shown_groups.shown_group import ShownGroup

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from levelwind.daemon.api.views.live_view import LiveView

PIPELINE_GAUGES = (
    "up",
    "behind_records",
    "caught_up_ratio",
    "newest_timestamp_seconds",
    "state_rows",
    "state_bytes",
    "report_age_seconds",
)
PIPELINE_COUNTERS = ("records", "deaths", "checkpoints_set_aside")
PREFIX = "levelwind_pipeline_"


def cluster_document(view: LiveView) -> dict[str, object]:
    """Return brokers and racks. Cost: the partitions of all topics."""
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    for topic in view.topics.values():
        leads.update(topic.leader)
        for brokers, in_sync in zip(topic.replicas, topic.isr, strict=True):
            replicas.update(brokers)
            out_of_sync.update(set(brokers).difference(in_sync))
    members: Counter[str | None] = Counter()
    for group in view.groups.values():
        members.update(ShownGroup(group).racks.values())
    racks: dict[str | None, list[int]] = {rack: [] for rack in members}
    for number, broker in sorted(view.brokers.items()):
        racks.setdefault(broker.rack, []).append(number)
    return {
        "version": view.version,
        "topics": len(view.topics),
        "partitions": sum(topic.partitions for topic in view.topics.values()),
        "leaderless": leads[-1],
        "brokers": [
            {
                "broker": number,
                "rack": broker.rack,
                "online": broker.online,
                "follower_fetching": broker.follower_fetching,
                "at": broker.at,
                "leads": leads[number],
                "replicas": replicas[number],
                "out_of_sync": out_of_sync[number],
            }
            for number, broker in sorted(view.brokers.items())
        ],
        "racks": [
            {
                "rack": rack,
                "brokers": brokers,
                "members": members[rack],
                "leads": sum(leads[number] for number in brokers),
            }
            for rack, brokers in sorted(racks.items(), key=lambda item: (item[0] is None, item[0]))
        ],
    }


def pipeline_document(
    view: LiveView, registry: CollectorRegistry, *, leading: bool
) -> dict[str, object]:
    """Return what the pipeline has read, from the daemon's metrics and the newest records.

    Args:
        view: the records.
        registry: the daemon's metrics, of which no group is measured for this.
        leading: whether this daemon leads, so that it knows the pipeline.
    """
    wanted = [f"{PREFIX}{name}" for name in PIPELINE_GAUGES]
    wanted += [f"{PREFIX}{name}_total" for name in PIPELINE_COUNTERS]
    labelled = [f"{PREFIX}rejected_records_total", f"{PREFIX}skipped_records_total"]
    figures: dict[str, float] = {}
    counts: dict[str, dict[str, float]] = {name: {} for name in labelled}
    # A daemon that does not lead has counters at zero, or of the time when it led.
    metrics = registry.restricted_registry([*wanted, *labelled]).collect() if leading else ()
    for metric in metrics:
        for sample in metric.samples:
            if sample.name in counts:
                counts[sample.name][next(iter(sample.labels.values()))] = sample.value
            elif math.isfinite(sample.value):
                figures[sample.name.removeprefix(PREFIX)] = sample.value
    times = [record.at for group in view.groups.values() for record in group.lags.values()]
    record = view.pipeline
    return {
        "up": figures.get("up") == 1.0 if leading else None,
        "record": None if record is None else dict(record.value()),
        "figures": figures,
        "rejected": counts[labelled[0]],
        "skipped": counts[labelled[1]],
        "inputs": dict(sorted(view.input_offsets.items())),
        "oldest_lag_at": min(times, default=None),
        "newest_lag_at": max(times, default=None),
        "samples": len(times),
    }

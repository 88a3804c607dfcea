"""The gauges `levelwind_*` of groups, from their figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

from levelwind.daemon.gauges.exporter_families import ExporterFamilies
from levelwind.daemon.gauges.group_gauges import GroupGauges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from levelwind.daemon.control.gain.scaling import MembersWanted
    from levelwind.daemon.control.state.control_facts import ControlFacts, GroupFacts
    from levelwind.daemon.gauges.group_figures import GroupFigures

GROUP_TEXTS: Mapping[str, str] = {
    "lag_records": "Records behind, over the partitions of the group whose lag is known.",
    "unknown_partitions": "Partitions whose lag is not known, and is in no sum.",
    "unclaimed_partitions": "Partitions that nobody claims, as those of topics that the members "
    "left: no lag.",
    "upper_bound_partitions": "Partitions whose lag may count control records and aborted records.",
    "wait_lower_bound_partitions": "Partitions whose next record has waited since before the "
    "remembered history: longer than is known.",
    "lag_age_seconds": "Age of the group's oldest sample of lag, in seconds.",
    "largest_member_share_ratio": "Share of the group's lag that the most loaded member has.",
    "skew_ratio": "Load of the most loaded member, over the mean of all members.",
    "drain_seconds": "Load of the most loaded member: seconds that it needs for its records.",
    "best_drain_seconds": "Least load of the most loaded member under any plan.",
    "horizon_seconds": "Seconds that the group as a whole needs to drain.",
    "utilisation_ratio": "Largest share of its capacity that the arrivals of a member need.",
    "members_wanted": "Members that the group wants, for autoscalers of its consumers.",
    "members": "Live members, or those that are known if they subscribe.",
    "pending_handover": "1 while partitions are being handed over, else 0.",
}
"""Texts of the gauges with the label `group` alone, by name without `levelwind_group_`."""


def families(
    control: ControlFacts, now: float, gauges: GroupGauges | None = None, *, cluster: str = ""
) -> Iterator[Metric]:
    """Yield the gauges of all groups.

    Args:
        control: the facts about the control.
        now: seconds since the epoch.
        gauges: the figures of the groups; None for those of the default settings.
        cluster: the label `cluster_name` of the gauges with kafka-lag-exporter's names.
    """
    gauges = gauges or GroupGauges()
    of_group = {
        name: GaugeMetricFamily(f"levelwind_group_{name}", text, labels=("group",))
        for name, text in GROUP_TEXTS.items()
    }
    topic_lag = GaugeMetricFamily(
        "levelwind_group_topic_lag_records",
        "Records behind in one topic of the group.",
        labels=("group", "topic"),
    )
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
    exported = ExporterFamilies(cluster, partitions=gauges.partitions)
    for group, figures, wanted in gauges.read(control):
        for name, value in _values(group, figures, wanted, now).items():
            if value is not None:
                of_group[name].add_metric([group.name], value)
        for topic in figures.topics:
            if topic.lag is not None:
                topic_lag.add_metric([group.name, topic.topic], topic.lag)
        for kind, ratio in figures.crossing._asdict().items():
            if ratio is not None:
                crossing.add_metric([group.name, kind], ratio)
        for cause in group.triggers:
            triggers.add_metric([group.name, cause.value], 1.0)
        exported.add(group.name, figures.topics)
    yield from of_group.values()
    yield from (topic_lag, crossing, triggers)
    yield from _backlog(control, now)
    yield from exported.families()


def _values(
    group: GroupFacts, figures: GroupFigures, wanted: MembersWanted, now: float
) -> dict[str, float | None]:
    lag, drain = figures.lag, figures.lag.drain
    sampled = bool(figures.topics)
    planned = bool(group.live or group.plan)
    return {
        "lag_records": lag.total,
        "unknown_partitions": lag.unknown if sampled or lag.unknown else None,
        "unclaimed_partitions": figures.unclaimed if sampled else None,
        "upper_bound_partitions": figures.upper_bounds if sampled else None,
        "wait_lower_bound_partitions": figures.wait_lower_bounds if sampled else None,
        "lag_age_seconds": None if lag.oldest_at is None else max(now - lag.oldest_at / 1000, 0.0),
        "largest_member_share_ratio": lag.largest_share,
        "skew_ratio": lag.skew,
        "drain_seconds": lag.drain_seconds,
        "best_drain_seconds": lag.best_drain_seconds,
        "horizon_seconds": drain.horizon if drain and drain.mean else None,
        "utilisation_ratio": drain.utilisation if drain and drain.arrivals else None,
        "members_wanted": None if figures.needed is None else wanted.wanted,
        "members": figures.members if planned or lag.members else None,
        "pending_handover": float(not group.ledger.settled) if planned else None,
    }


def _backlog(control: ControlFacts, now: float) -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "levelwind_plans_waiting", "Groups that wait for a plan because others are made before."
    )
    waiting.add_metric([], control.waiting)
    delay = GaugeMetricFamily(
        "levelwind_plan_delay_seconds", "Longest time for which a group has waited for its plan."
    )
    since = control.waiting_since
    delay.add_metric([], 0.0 if since is None else now - since / 1000)
    yield from (waiting, delay)

"""Metrics of the freeze of planning, read from the daemon's readiness at each scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

from levelwind.daemon.control.freeze.freeze_reason import FreezeReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from levelwind.daemon.service.availability.readiness import Readiness

OF_ALL_GROUPS = tuple(reason for reason in FreezeReason if reason is not FreezeReason.MEMBERS)


def freeze_families(readiness: Readiness | None) -> Iterator[Metric]:
    """Yield the gauges; a daemon that does not lead freezes nothing."""
    frozen = GaugeMetricFamily(
        "levelwind_frozen",
        "1 while planning is frozen for all groups for the reason, else 0.",
        labels=("reason",),
    )
    groups = GaugeMetricFamily(
        "levelwind_group_frozen",
        "1 while a group is frozen for a reason of its own.",
        labels=("group", "reason"),
    )
    for reason in OF_ALL_GROUPS:
        held = readiness is not None and reason.value in readiness.frozen
        frozen.add_metric([reason.value], float(held))
    for group, reasons in (readiness.frozen_groups if readiness else {}).items():
        for reason_name in reasons:
            groups.add_metric([group, reason_name], 1.0)
    yield from (frozen, groups)

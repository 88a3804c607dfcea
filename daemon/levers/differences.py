"""Differences between two assignments of a group: in force, computed now, or recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.decisions.reading import find_decision
from levelwind.daemon.levers.acting import read_records
from levelwind.daemon.levers.preview import changed_owners, preview

if TYPE_CHECKING:
    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.config.settings import Settings


def moves_between(
    settings: Settings, group: str, before: str | None, after: str | None
) -> list[dict[str, Any]]:
    """Return the partitions with another owner: `topic`, `partition`, `from`, `to` and `lag`.

    Args:
        settings: the settings.
        group: the group.
        before: a recorded plan; None: what the members own now.
        after: a recorded plan; None: a plan that is computed now.

    Raises:
        NotFoundError: there is no such group or plan.
        OrderError: no plan can be computed now.
        ClusterUnavailableError: the cluster does not answer.
    """
    if before is not None and after is not None:
        was, becomes = _recorded(settings, group, before), _recorded(settings, group, after)
        return changed_owners(was, becomes, {})
    now = preview(settings, read_records(settings), group)
    if before is None and after is None:
        return list(now.moves)
    lags = {
        (name, number): lag
        for name, topic in now.plan.inputs.topics.items()
        for number, lag in enumerate(topic.lags or ())
    }
    was = now.plan.inputs.owners if before is None else _recorded(settings, group, before)
    becomes = now.plan.owners if after is None else _recorded(settings, group, after)
    return changed_owners(was, becomes, lags)


def _recorded(settings: Settings, group: str, name: str) -> dict[TopicPartition, str]:
    return ranges.owners(find_decision(settings, name, group).target)

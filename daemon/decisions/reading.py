"""Reading the audit trail from `levelwind.decisions`; no daemon need run."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import ALL_GROUPS, DecisionPart
from levelwind.daemon.decisions.encoding import assemble
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind.daemon.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.decisions.encoding import DecisionEntry


def read_decisions(
    settings: Settings, group: str | None = None, *, limit: int = 100
) -> list[DecisionEntry]:
    """Return the newest decisions, the newest last.

    Args:
        settings: the settings.
        group: the group; orders about every group are among its decisions. None: all groups.
        limit: the most decisions to return.

    Raises:
        NotFoundError: the cluster does not have levelwind's topics yet.
        ClusterUnavailableError: the cluster does not answer.
    """
    return newest(_entries(settings, group), limit)


def newest(entries: Iterable[DecisionEntry], limit: int) -> list[DecisionEntry]:
    """Return the newest entries in the order of time; those of one time as they came.

    They come by partition, so that the last to come need not be the newest.
    """
    kept = nlargest(limit, enumerate(entries), key=lambda item: (item[1].at, item[0]))
    return [entry for _, entry in reversed(kept)]


def find_decision(settings: Settings, name: str, group: str | None = None) -> DecisionEntry:
    """Return the newest decision of a name: its own, or that of its plan.

    Raises:
        NotFoundError: there is none, or several groups have one of this name.
        ClusterUnavailableError: the cluster does not answer.
    """
    found = {
        entry.group: entry
        for entry in _entries(settings, group)
        if name in (entry.id, entry.plan_id) and (name == entry.id or "target" in entry.body)
    }
    if not found:
        where = f" of group {group!r}" if group else ""
        raise NotFoundError(
            f"no decision {name!r}{where} in {settings.topics.decisions}: it may be older than"
            " `topic.decisions_retention`, or of another group"
        )
    if len(found) > 1:
        groups = ", ".join(map(one_line, sorted(found)))
        raise NotFoundError(f"groups {groups} have a decision {name!r}: name one")
    return next(iter(found.values()))


def _entries(settings: Settings, group: str | None) -> Iterator[DecisionEntry]:
    read = read_to_end(
        settings.client(), settings.topics, ("decisions",), timeout=settings.topic.timeout
    )
    wanted = None if group is None else {group, ALL_GROUPS}
    return assemble(
        entry.record
        for entry in read
        if isinstance(entry.record, DecisionPart)
        and (wanted is None or entry.record.group in wanted)
    )

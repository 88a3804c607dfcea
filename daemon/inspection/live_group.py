"""A live group as a planning problem, read from levelwind's topics without a running daemon."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from levelwind.daemon.control import planning
from levelwind.daemon.control.snapshot import known_speeds
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.kafka.topic_reader import GROUP_KINDS, read_to_end
from levelwind.daemon.shown_groups.group_view import GroupView, GroupViews, find_group
from levelwind.daemon.shown_groups.shown_group import ShownGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.problem.group import Group
    from levelwind.assignors.protocol.records import MemberRecord, Record, Tombstone
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.config.settings import Settings


def read_group(settings: Settings, name: str) -> Group:
    """The problem that the group's next plan has to solve.

    Raises:
        ClusterUnavailableError: the cluster does not answer.
        NotFoundError: no such group is known, levelwind does not manage its members, or the
            cluster does not have levelwind's topics yet.
    """
    read = read_to_end(
        settings.client(), settings.topics, GROUP_KINDS, timeout=settings.topic.timeout
    )
    records = ((entry.kind, entry.record) for entry in read)
    return group_from_records(records, name, settings.planning_of(name).record_bytes)


def group_from_records(
    records: Iterable[tuple[TopicKind, Record | Tombstone]],
    name: str,
    record_bytes: Mapping[str, float] = MappingProxyType({}),
) -> Group:
    """The problem that the records state; the records of each topic in their order.

    Raises:
        NotFoundError: no such group is known, or levelwind does not manage its members.
    """
    views = GroupViews()
    for kind, record in records:
        views.apply(kind, record)
    view = find_group(views.groups, name)
    members = _present_members(view)
    if not members:
        raise NotFoundError(
            f"group {name!r} has no members that levelwind manages: nothing to plan"
        )
    measured = ShownGroup(view).measured
    return planning.build_problem(
        members,
        views.topics,
        measured.lags,
        measured.owners,
        record_bytes,
        known_speeds(measured.lag),
    )


def _present_members(view: GroupView) -> Mapping[str, MemberRecord]:
    """The members that have not left, by instance.

    An instance that restarted counts with the incarnation that holds its partitions.
    """
    members: dict[str, MemberRecord] = {}
    for key, record in sorted(view.members.items()):
        if record.state == "left":
            continue
        assignment = view.assigned.get(key)
        if record.instance not in members or (
            assignment is not None and assignment.state == "active"
        ):
            members[record.instance] = record
    return members

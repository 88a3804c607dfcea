"""The leader proxy of a term: fed with what the planner publishes, and with its layouts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import GroupRecord, GroupShard, PlanShard, Tombstone
from levelwind.assignors.protocol.records.shards import planned_assignments, whole
from levelwind.daemon.control.boundary.control_events import ProxiedMembersChanged, ProxyChanged
from levelwind.daemon.control.members.proxied_members import ProxiedMember
from levelwind.daemon.proxy.leader_proxy import LeaderProxy
from levelwind.daemon.proxy.proxy_state import Standing
from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records import Record
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.control.state.control_state import ControlState
    from levelwind.daemon.proxy.proxy_state import LedMember
    from levelwind.daemon.service.metrics import Metrics

log = Logger()


class ProxiedGroups:
    """The groups of mode `proxy`; the main thread calls all methods."""

    def __init__(
        self,
        settings: Settings,
        state: Callable[[], ControlState],
        metrics: Metrics,
        post: Callable[[ProxyChanged | ProxiedMembersChanged], None],
    ) -> None:
        """Make the parts; `start` begins.

        Args:
            settings: the settings of the daemon.
            state: returns the control's state; the proxy's thread reads layouts in it.
            metrics: the daemon's metrics.
            post: tells the planner how the proxy stands to a group, and which members it leads;
                called in the proxy's thread.

        Raises:
            ConfigurationError: the proxy cannot connect as the settings say.
        """
        self._state, self._metrics, self._post = state, metrics, post
        self._groups = frozenset(settings.proxied_groups())
        self._proxy = (
            LeaderProxy(
                sorted(self._groups),
                settings.client(),
                f"{settings.topics.prefix}proxy",
                replace(settings.proxy, session_timeout=_session(settings)),
                lambda: state().topics,
                self._on_standing,
                self._on_members,
                log,
            )
            if self._groups
            else None
        )

    def start(self) -> None:
        """Start the proxy, with the plans that are in force."""
        if self._proxy is None:
            return
        self._proxy.start()
        for name in self._groups:
            group = self._state().groups.get(name)
            if group is not None and group.plan is not None and group.plan.mode == "proxy":
                shares = {member: ranges.by_topic(share) for member, share in group.target.items()}
                self._proxy.apply(name, _plan(group.plan, shares))

    def on_published(self, records: Sequence[tuple[TopicKind, Record | Tombstone]]) -> None:
        """Apply the plans in records that were published."""
        if self._proxy is None:
            return
        written = [record for _, record in records]
        for record in written:
            match record:
                case GroupRecord(group=group, mode="proxy") if group in self._groups:
                    if (plan := _published(record, written)) is not None:
                        self._proxy.apply(group, plan)
                case Tombstone(key=("g", str(group))) if group in self._groups:
                    self._proxy.apply(group, None)
                case _:
                    pass

    def stop(self) -> None:
        """End; the memberships stay for the next daemon."""
        if self._proxy is not None:
            self._proxy.stop()
            for group in self._groups:
                self._metrics.on_proxy(group, None)

    def _on_standing(self, group: str, standing: Standing, reason: str) -> None:
        if standing is Standing.ENDED:
            return  # the term is over
        self._metrics.on_proxy(group, standing.value)
        self._post(ProxyChanged(group=group, standing=standing.value, reason=reason))

    def _on_members(self, group: str, led: Mapping[str, LedMember] | None) -> None:
        members = None if led is None else {name: _proxied(led[name]) for name in led}
        self._post(ProxiedMembersChanged(group=group, members=members))


def _session(settings: Settings) -> float:
    """The session timeout of the proxy, in seconds: no shorter than a take-over with its start."""
    return max(settings.proxy.session_timeout, 2 * settings.timers.takeover)


def _proxied(member: LedMember) -> ProxiedMember:
    """The member as the control knows it."""
    return ProxiedMember(
        topics=frozenset(member.topics),
        rack=member.rack,
        owned=ranges.pairs(member.share),
    )


def _published(head: GroupRecord, written: Iterable[Record | Tombstone]) -> PublishedPlan | None:
    """The plan in the records of one transaction; None if they do not have all of it."""
    parts = {shard.key: shard for shard in written if isinstance(shard, GroupShard)}
    shards = {shard.shard: shard for shard in written if isinstance(shard, PlanShard)}
    record, shares = whole(head, parts), planned_assignments(head, shards)
    if not isinstance(record, GroupRecord) or shares is None:
        return None
    return _plan(record, shares)


def _plan(record: GroupRecord, shares: Mapping[str, Partitions]) -> PublishedPlan:
    """The plan; members that it leaves without partitions are named, too."""
    without: dict[str, Partitions] = {member.instance: {} for member in record.members}
    epoch = PlanEpoch(record.planner_epoch, record.group_epoch)
    return PublishedPlan(epoch=epoch, assignments=without | dict(shares))

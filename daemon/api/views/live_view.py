"""Live view: the groups, brokers and topics as the newest records describe them.

A daemon that stands by has the same view as the one that leads, since both read the same records.
One thread calls all methods. `refresh` takes in what was read since the last time; nothing is
computed for a group before somebody asks for it, and nothing twice for the same records.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import (
    BrokerRecord,
    GroupRecord,
    LagRecord,
    MemberRecord,
    PipelineRecord,
    Rejection,
    Tombstone,
    TopicRecord,
)
from levelwind.assignors.protocol.unread_lag import UnreadLag
from levelwind.daemon.api.views.lag_history import INTERVAL_SECONDS, LagHistory, LagPoint
from levelwind.daemon.kafka.topic_reader import GROUP_KINDS
from levelwind.daemon.service.log_image import LogImage
from levelwind.daemon.shown_groups.group_documents import group_summary
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.shown_group import ShownGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.records import Record
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.api.views.record_tap import RecordTap
    from levelwind.daemon.shown_groups.group_view import GroupView

MOST_ENDED = 10_000
"""Names of groups that ended, to tell readers of the changes; older ones are forgotten."""


class LiveView:
    """What the records of a tap add up to."""

    def __init__(self, tap: RecordTap) -> None:
        """Begin without any record."""
        self._tap = tap
        self.history = LagHistory()
        self.version = 0
        """A number that grows with each refresh that changed something."""
        self.cluster_version = 0
        """The version in which a broker or a topic last changed."""
        self.controls_version = 0
        """The version in which a lever or a request last changed."""
        self.plans_version = 0
        """The version in which a plan last changed."""
        self._begin()

    def _begin(self) -> None:
        self._views = views = GroupViews()
        self.groups: Mapping[str, GroupView] = views.groups
        self.topics: Mapping[str, TopicRecord] = views.topics
        self.brokers: Mapping[int, BrokerRecord] = views.brokers
        self._image = LogImage()
        self.pipeline: PipelineRecord | None = None
        self._changed: OrderedDict[str, int] = OrderedDict()
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._summaries: dict[str, tuple[int, dict[str, object]]] = {}
        self.input_offsets: dict[str, int] = {}
        self._controls: dict[tuple[str | int, ...], Record | Tombstone] = {}

    @property
    def controls(self) -> Iterable[Record | Tombstone]:
        """The newest records of the topic `control`: levers and requests."""
        return self._controls.values()

    def records(self) -> tuple[tuple[TopicKind, Record | Tombstone], ...]:
        """Return the newest record of each key, as a reader of the topics would find them."""
        self.refresh()
        return self._image.records

    def refresh(self) -> int:
        """Take in what was read since the last refresh; return the version."""
        replaced, reads = self._tap.take()
        if replaced:
            gone = list(self.groups)
            self._begin()
            self.version += 1
            self.cluster_version = self.plans_version = self.controls_version = self.version
            self._ended.update(dict.fromkeys(gone, self.version))
        if not reads:
            return self.version
        self.version += 1
        for read in reads:
            self._image.add(read)
            record = read.record.read() if isinstance(read.record, UnreadLag) else read.record
            if isinstance(record, Rejection):
                continue  # the record before it stays
            if isinstance(record, LagRecord):
                self._note_inputs(record)
            if read.kind in GROUP_KINDS:
                self._apply(read.kind, record)
            elif read.kind == "control":
                self._controls[record.key] = record
                self.controls_version = self.version
        return self.version

    def changed_in(self, group: str) -> int:
        """Return the version in which a group last changed."""
        return self._changed.get(group, 0)

    def changed_since(self, version: int) -> list[str]:
        """Return the groups that changed after a version."""
        names = []
        for name in reversed(self._changed):
            if self._changed[name] <= version:
                break
            names.append(name)
        return names

    def ended_since(self, version: int) -> list[str]:
        """Return the groups that ended after a version and are not back."""
        return [name for name, at in self._ended.items() if at > version]

    def summary(self, name: str) -> dict[str, object]:
        """Return a group's line of the table of groups.

        Raises:
            KeyError: there is no such group.
        """
        changed = self._changed.get(name, 0)
        known = self._summaries.get(name)
        if known is not None and known[0] == changed:
            return known[1]
        summary = group_summary(ShownGroup(self.groups[name]))
        self._summaries[name] = (changed, summary)
        return summary

    def take_points(self, at: int) -> None:
        """Add one point of each group to the history; `at` in milliseconds since the epoch."""
        self.refresh()
        self.history.add(at, {name: _point(self.summary(name)) for name in self.groups})

    def history_document(self, last: int, group: str | None = None) -> dict[str, object]:
        """Return the last points of one group or of all."""
        names = list(self.groups) if group is None else [group]
        groups = {}
        for name in names:
            lag, drain = self.history.series(name, last)
            groups[name] = {"lag": lag, "drain_seconds": drain}
        return {
            "interval_seconds": INTERVAL_SECONDS,
            "at": self.history.times(last),
            "groups": groups,
        }

    def _apply(self, kind: TopicKind, record: Record | Tombstone) -> None:
        match record:
            case MemberRecord() if self._repeats(record):
                return
            case BrokerRecord():
                self.cluster_version = self.version
                # Racks, and what brokers let members fetch, count in the figures of every group.
                for name in self.groups:
                    self._note_change(name)
            case PipelineRecord():
                if self.pipeline is None or record.generation >= self.pipeline.generation:
                    self.pipeline = record
                return
            case Tombstone(key=PipelineRecord.KEY):
                self.pipeline = None
                return
            case TopicRecord(topic=topic) | Tombstone(key=("topic", topic)):
                self.cluster_version = self.version
                self._topic_changed(str(topic))
            case GroupRecord():
                self.plans_version = self.version
            case _:
                pass
        self._views.apply(kind, record)
        self._note(record)

    def _repeats(self, record: MemberRecord) -> bool:
        """Whether an announcement says the same as the last one."""
        view = self.groups.get(record.group)
        return view is not None and view.members.get((record.instance, record.incarnation)) is (
            record
        )

    def _note(self, record: Record | Tombstone) -> None:
        if isinstance(record, Tombstone):
            name = str(record.key[1]) if len(record.key) > 1 else None
        else:
            name = getattr(record, "group", None)
        if name is None:
            return
        if name in self.groups:
            self._note_change(name)
            self._ended.pop(name, None)
        elif name in self._changed:
            del self._changed[name]
            self._summaries.pop(name, None)
            self._ended[name] = self.version
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)

    def _topic_changed(self, topic: str) -> None:
        for name, view in self.groups.items():
            if topic in view.lags:
                self._note_change(name)

    def _note_change(self, group: str) -> None:
        self._changed[group] = self.version
        self._changed.move_to_end(group)

    def _note_inputs(self, record: LagRecord) -> None:
        for name, offset in record.source.items():
            if offset > self.input_offsets.get(name, -1):
                self.input_offsets[name] = offset


def _point(summary: Mapping[str, object]) -> LagPoint:
    lag, drain = summary["lag"], summary["drain_seconds"]
    return LagPoint(
        lag if isinstance(lag, int) else None, drain if isinstance(drain, int | float) else None
    )

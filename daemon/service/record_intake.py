"""Record intake: turns the records that the daemon reads into events.

It keeps an image of the topics. When the daemon takes over, everything read so far becomes one
`Recovered`, so that the control sees it together; every later record becomes a `RecordReceived`,
until the daemon stands by again. A planner's canaries and its own record are signs of who leads. A
record about a group that is in the wrong partition is dropped, or ends the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from levelwind.assignors.protocol.records import (
    CanaryRecord,
    CutRecord,
    LagRecord,
    MemberRecord,
    PipelineRecord,
    PlannerRecord,
    Tombstone,
    partition_key,
)
from levelwind.assignors.protocol.topics import partition_for
from levelwind.daemon.control.boundary.control_events import MembersRead, RecordReceived, Recovered
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.service.leadership import LeaderSighted, TopicsRead, is_newer, sign_of
from levelwind.daemon.service.log_image import LogImage
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.assignors.protocol.records import Key
    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.daemon.control.boundary.control_events import Event
    from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage
    from levelwind.daemon.service.leadership import LeadershipEvent
    from levelwind.daemon.service.mailbox import Mailbox


GROUPED: Final[tuple[TopicKind, ...]] = ("assignments", "members")
"""Topics whose records must be in the partition of their group."""


class RecordIntake:
    """The callbacks of the daemon's `TopicFollower`; they run in the follower's thread."""

    def __init__(
        self,
        topics: Topics,
        partitions: Mapping[str, int],
        mailbox: Mailbox[Event | LeadershipEvent | BaseException],
        log: Any,
        *,
        instance: str,
        on_misplaced: Callable[[str], None] = lambda _: None,
        unwritten: UnwrittenRecords | None = None,
    ) -> None:
        """Post to a mailbox.

        Args:
            topics: the names of levelwind's topics.
            partitions: number of partitions of each of them, by name.
            mailbox: the mailbox that events are posted to; an exception in it ends the daemon.
            log: the logger.
            instance: the name of this daemon.
            on_misplaced: called with the topic of a record that is in the wrong partition.
            unwritten: takes the records that their topic has no room for; None: they are only
                logged.
        """
        self._on_misplaced = on_misplaced
        self._unwritten = unwritten or UnwrittenRecords(log)
        self._topics = topics
        self._partitions = {
            kind: partitions[name] for kind in GROUPED if (name := topics.name(kind)) in partitions
        }
        """Number of partitions of each topic whose records are in the partition of their group."""
        self._mailbox = mailbox
        self._log = log
        self._instance = instance
        self._image = LogImage()
        self._leader: CanaryRecord | None = None
        """The newest sign of another planner that was posted."""
        self.pipeline: PipelineRecord | None = None
        """The newest record of the pipeline; of two pipelines that of the younger. It is no part of
        the control."""
        self.lag_at: int | None = None
        """Time of the newest sample of lag of any group, in milliseconds since the epoch; None: no
        group has lag."""
        self._posting = False
        """Whether records are posted."""
        self._asked_at: Callable[[CanaryRecord], float | None] = lambda _: None

    def on_record(self, read: ConsumedRecord) -> None:
        """Take a record into the image, and post it if the daemon leads.

        In the mailbox every record is a state that a newer one of its key replaces. Records of the
        `control` topic are not replaced: an operator's request must not be lost to the tombstone
        that takes an older request back.

        Raises:
            ConfigurationError: a record of the planner is in the wrong partition.
        """
        if isinstance(read.record, CutRecord):
            # The record before it stays.
            self._unwritten.refused(
                self._topics.name(read.kind), read.record.key, read.record.bytes
            )
            return
        key = read.record.key
        if not self._unwritten.none:
            self._unwritten.written(self._topics.name(read.kind), key)
        if self._noticed(read) or (read.kind in GROUPED and self._misplaced(read, key)):
            return
        self._image.add(read)
        if not self._image.lags:
            self.lag_at = None
        if self._posting:
            offset = read.offset if read.kind == "control" else None
            self._mailbox.put((read.kind, key, offset), RecordReceived(read.kind, read.record))

    def on_unread(self, read: UnreadMessage) -> None:
        """Take a sample of lag into the image, and post it if the daemon leads."""
        key = read.record.key
        if not self._unwritten.none:
            self._unwritten.written(self._topics.name(read.kind), key)
        self._image.add(read)
        self._on_lag(read.record.at)
        if self._posting:
            self._mailbox.put((read.kind, key, None), RecordReceived(read.kind, read.record))

    def on_caught_up(self) -> None:
        """Post that everything has been read that the topics held at the start."""
        self._mailbox.put("caught up", TopicsRead())

    def recover(self, asked_at: float) -> None:
        """Post everything that was read so far as one event, and from now on each record.

        Args:
            asked_at: boot seconds just before it was asked how far the topics reach.
        """
        self._posting = True
        self._mailbox.put("recovered", Recovered(records=self._image.records, asked_at=asked_at))

    def expect(self, asked_at: Callable[[CanaryRecord], float | None]) -> None:
        """Post the marks of own canaries that are read back.

        May be called from any thread.

        Args:
            asked_at: returns the boot seconds just before a canary was sent; None for another's.
        """
        self._asked_at = asked_at

    def stand_by(self) -> None:
        """Post no records any more. May be called from any thread: a last one may follow."""
        self._posting = False

    def on_crash(self, error: BaseException) -> None:
        """Post the error that ended the reader; the daemon shuts down with it."""
        self._mailbox.put("crash", error)

    def _noticed(self, read: ConsumedRecord) -> bool:
        """Notice what a record says about others than groups; return whether that is all of it."""
        match read.record:
            case MemberRecord():
                pass  # the most of all records
            case CanaryRecord() as canary:
                self._on_canary(canary, read.partition)
                return True
            case PipelineRecord() as pipeline:
                if self.pipeline is None or pipeline.generation >= self.pipeline.generation:
                    self.pipeline = pipeline
                return True
            case Tombstone(key=PipelineRecord.KEY):
                self.pipeline = None
                return True
            case PlannerRecord() as planner:
                self._on_sign(sign_of(planner))
            case LagRecord(at=at):
                self._on_lag(at)
            case _:
                pass
        return False

    def _on_lag(self, at: int) -> None:
        if self.lag_at is None or at > self.lag_at:
            self.lag_at = at

    def _on_canary(self, canary: CanaryRecord, partition: int) -> None:
        asked_at = self._asked_at(canary)
        if asked_at is not None:
            # To the end of the queue: in the place of an older mark it would be handled before
            # records that it counts as handled.
            mark = MembersRead(partition=partition, asked_at=asked_at)
            self._mailbox.put(("members read", partition), mark, last=True)
        self._on_sign(canary)

    def _on_sign(self, canary: CanaryRecord) -> None:
        if canary.instance != self._instance and is_newer(canary, self._leader):
            self._leader = canary
            self._mailbox.put("leader", LeaderSighted(canary=canary))

    def _misplaced(self, read: ConsumedRecord, key: Key) -> bool:
        """Whether a record about a group is in another partition than the group's.

        A topic that was given more partitions has old records in the wrong ones. Nobody can tell
        whether they are the newest of their key, and who owns which partition rests on the records
        of the planner: with such an `assignments` topic no daemon starts. A misplaced record of a
        member comes from a client that partitions wrongly; it is logged and dropped.
        """
        name = partition_key(key)
        if name is None or read.partition == partition_for(name, self._partitions[read.kind]):
            return False
        topic = self._topics.name(read.kind)
        if read.kind == "assignments":
            raise ConfigurationError(
                f"{topic} was given more partitions after {name!r} was planned: its records are in"
                " the wrong partitions. Stop the consumers that follow the planner, delete the"
                " topic, and start the daemon again"
            )
        self._log.warning("record.misplaced", topic=topic, partition=read.partition, name=name)
        self._on_misplaced(topic)
        return True

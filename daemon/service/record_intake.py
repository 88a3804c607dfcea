"""Record intake: turns the records that the daemon reads into events of the control.

All records that the topics held at the start become one `Recovered`, so that the control sees them
together; every later record becomes a `RecordReceived`. A record about a group that is in the wrong
partition is dropped, or ends the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assignors.protocol.records import partition_key, partitions_for
from daemon.control.controller import ReaderStatus, RecordReceived, Recovered
from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.records import Record, Tombstone
    from assignors.protocol.topics import TopicKind, Topics
    from daemon.control.controller import Event
    from daemon.kafka.topic_reader import ConsumedRecord
    from daemon.service.mailbox import Mailbox


class RecordIntake:
    """The callbacks of the daemon's `TopicFollower`; all of them run in the follower's thread."""

    def __init__(
        self,
        topics: Topics,
        partitions: Mapping[str, int],
        mailbox: Mailbox[Event | BaseException],
        log: Any,
    ) -> None:
        """Post to a mailbox.

        Args:
            topics: the names of levelwind's topics.
            partitions: number of partitions of each of them, by name.
            mailbox: the mailbox that events are posted to; an exception in it ends the daemon.
            log: the logger.
        """
        self._topics = topics
        self._partitions = partitions
        self._mailbox = mailbox
        self._log = log
        self._past: list[tuple[TopicKind, Record | Tombstone]] | None = []
        """Records read so far, until the reader has caught up; then None."""

    def on_record(self, read: ConsumedRecord) -> None:
        """Keep a record of the past, or post a new one.

        In the mailbox every record is a state that a newer one of its key replaces. Records of the
        `control` topic are not replaced: an operator's request must not be lost to the tombstone
        that takes an older request back.

        Raises:
            ConfigurationError: a record of the planner is in the wrong partition.
        """
        if self._misplaced(read):
            return
        if self._past is not None:
            self._past.append((read.kind, read.record))
            return
        key = (read.kind, read.record.key, read.offset if read.kind == "control" else None)
        self._mailbox.put(key, RecordReceived(kind=read.kind, record=read.record))

    def on_caught_up(self) -> None:
        """Post the past as one event."""
        past, self._past = self._past or [], None
        self._mailbox.put("recovered", Recovered(records=tuple(past)))

    def on_connection(self, connected: bool) -> None:
        """Post whether the reader has a broker to read from."""
        self._mailbox.put("reader status", ReaderStatus(reading=connected))

    def on_crash(self, error: BaseException) -> None:
        """Post the error that ended the reader; the daemon shuts down with it."""
        self._mailbox.put("crash", error)

    def _misplaced(self, read: ConsumedRecord) -> bool:
        """Whether a record about a group is in another partition than the group's.

        A topic that was given more partitions has old records in the wrong ones. Nobody can tell
        whether they are the newest of their key, and who owns which partition rests on the records
        of the planner: with such an `assignments` topic no daemon starts. A misplaced record of a
        member comes from a client that partitions wrongly; it is logged and dropped.
        """
        if read.kind not in {"assignments", "members"}:
            return False
        topic = self._topics.name(read.kind)
        if read.partition in partitions_for(read.kind, read.record.key, self._partitions[topic]):
            return False
        name = partition_key(read.record.key)
        if read.kind == "assignments":
            raise ConfigurationError(
                f"{topic} was given more partitions after {name!r} was planned: its records are in"
                " the wrong partitions. Stop the consumers that follow the planner, delete the"
                " topic, and start the daemon again"
            )
        self._log.warning("record.misplaced", topic=topic, partition=read.partition, name=name)
        return True

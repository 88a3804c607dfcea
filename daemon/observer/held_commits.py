"""Commits that an open transaction holds back in `__consumer_offsets`, found and handed on.

A `read_committed` reader of a log stops before the first record of an open transaction, and the
pipeline is one, since nothing that a client receives says which records are transactional. So a
transaction that stays open would hide the commits of all groups of that partition.

Two answers together show what may be read on. The records behind the stable end are read as they
are (`read_uncommitted`), and the coordinator is asked what each of their groups has committed; it
applies a transaction's commits when the marker comes, and all others at once. The newest record of
a key whose offset is the coordinator's answer has taken effect. It is handed to the pipeline as a
replay, which keeps its position in the log, so that nothing newer is undone and reading it again
later does no harm. Records about members are never transactional.

Nothing is read or asked as long as no transaction has been open for `HELD_SECONDS`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import ReplayRecord
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.kafka.record_writer import write_replays
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.daemon.observer.cluster_state import UNKNOWN
from levelwind.daemon.observer.group_commits import GroupCommits
from levelwind.daemon.observer.log_reading import ObserverConsumer
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka import Message
    from confluent_kafka.admin import AdminClient

    from levelwind.assignors.protocol.topics import Topics

HELD_SECONDS = 2.0
"""Seconds for which the stable end must have stood still below the high watermark: a transaction of
a consumer that works lasts no longer."""
MAX_RECORDS = 20_000
"""The most records of a partition that wait for their group's answer; no more are then read on."""
MAX_GROUPS = 200
"""The most groups that are asked with one sample: those that come after the ones asked last."""

CLIENT_ID = "levelwind-held-commits"
"""Client id of the connections to coordinators."""

CommitKey: TypeAlias = "tuple[str, str, int]"
"""A group, a topic and a partition."""


class HeldCommit(NamedTuple):
    """A record behind the stable end."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    committed: int
    """The committed offset; UNKNOWN: the commit is taken back."""


@dataclass(slots=True, kw_only=True)
class HeldPartition:
    """A partition of `__consumer_offsets` with a transaction that may be open."""

    stable: int
    since: float
    """When the stable end was first seen there, by the caller's clock."""
    read_to: int
    """The offset up to which the records behind the stable end are read."""
    held: bool = False
    """Whether it has lasted for `HELD_SECONDS`."""
    unanswered: dict[CommitKey, list[HeldCommit]] = field(default_factory=dict)
    """Commits that have not been seen to have taken effect, by key, in log order."""

    def confirmed(self, committed: Mapping[CommitKey, int]) -> list[HeldCommit]:
        """Take out the commits that have taken effect, the newest of each key.

        Args:
            committed: what the coordinators say that groups have committed, UNKNOWN for nothing.
        """
        found: list[HeldCommit] = []
        for key, offset in committed.items():
            commits = self.unanswered.get(key, [])
            match = [number for number, one in enumerate(commits) if one.committed == offset]
            if match:
                found.append(commits[match[-1]])
                del commits[: match[-1] + 1]  # older ones never count again
                if not commits:
                    del self.unanswered[key]
        return sorted(found)

    @property
    def full(self) -> bool:
        """Whether nothing more is to be read on for now."""
        return sum(map(len, self.unanswered.values())) >= MAX_RECORDS


class HeldCommits:
    """The partitions with open transactions, and the clients that read and ask; one thread's."""

    def __init__(
        self, client_config: Mapping[str, Any], client: AdminClient, topics: Topics, log: Any
    ) -> None:
        """Make a reader.

        Args:
            client_config: settings of the Kafka clients.
            client: the client that asks coordinators where the own connections cannot.
            topics: names of levelwind's topics.
            log: the logger.
        """
        self._config = client_config
        self._reader = ObserverConsumer(client_config, "read_uncommitted")
        self._commits = GroupCommits(client_config, client, CLIENT_ID)
        self._topics = topics
        self._log = log
        self._partitions: dict[int, HeldPartition] = {}
        self._led: frozenset[int] = frozenset()
        """Partitions whose leader answered for the last sample."""
        self._unwritten: list[ReplayRecord] = []
        self._last_asked = ""
        """The group that was asked last: the next sample begins behind it, in order of names."""

    def close(self) -> None:
        """Close the consumer and the connections to coordinators."""
        self._reader.close()
        self._commits.close()

    def sampled(self, stable: Mapping[int, int], high: Mapping[int, int], now: float) -> None:
        """Apply one sample of the partitions' ends, at a time in seconds of any clock."""
        self._led = frozenset(stable)
        begun: list[int] = []
        ended: dict[int, float] = {}
        for number, end in stable.items():
            partition = self._partitions.get(number)
            if partition is not None and (partition.stable != end or high.get(number, end) == end):
                del self._partitions[number]
                if partition.held:
                    ended[number] = now - partition.since
                partition = None
            if high.get(number, end) <= end:
                continue
            if partition is None:
                self._partitions[number] = HeldPartition(stable=end, since=now, read_to=end)
            elif not partition.held and now - partition.since >= HELD_SECONDS:
                partition.held = True
                begun.append(number)
        if begun:
            self._log.warning("observer.commits_held_back", partitions=ranges.format(begun))
        if ended:
            self._log.info(
                "observer.commits_released",
                partitions=ranges.format(ended),
                seconds=round(max(ended.values()), 3),
            )

    def read_on(self, timeout: float) -> None:
        """Read on behind the stable ends, and hand on what has taken effect there.

        Args:
            timeout: seconds for reading, and for each answer.

        Raises:
            ClusterUnavailableError: it could not be handed on; the next call tries again.
            NotFoundError: a topic of levelwind's is missing.
        """
        self._unwritten += self.effective(now_ms(), timeout)
        if self._unwritten:
            replays = [(replay.key, replay) for replay in self._unwritten]
            write_replays(self._config, self._topics, TopicSettings(), replays)
            self._unwritten = []

    def effective(self, at: int, timeout: float) -> list[ReplayRecord]:
        """Read on behind the stable ends; return what has taken effect there.

        Args:
            at: the time, in milliseconds since the epoch.
            timeout: seconds for reading, and for each answer.
        """
        # The leader is its groups' coordinator: where it does not answer, neither would they.
        held = {
            number: one
            for number, one in self._partitions.items()
            if one.held and number in self._led
        }
        if not held:
            self.close()
            return []
        replays = [
            _replay(number, record, at)
            for number, records in self._read(held, timeout).items()
            for record in self._sorted_in(held[number], records)
        ]
        groups = {number: {group for group, _, _ in one.unanswered} for number, one in held.items()}
        committed = self._committed(sorted(set().union(*groups.values())), timeout)
        for number, partition in held.items():
            answers = {
                key: committed[key[0]].get(key[1:], UNKNOWN)
                for key in partition.unanswered
                if key[0] in committed
            }
            replays += [_replay(number, record, at) for record in partition.confirmed(answers)]
        return replays

    def _read(self, held: Mapping[int, HeldPartition], timeout: float) -> dict[int, list[Message]]:
        """The records behind what was read last, as far as they arrive in time."""
        read: dict[int, list[Message]] = {number: [] for number in held}
        starts = {
            (OFFSETS_TOPIC, number): one.read_to for number, one in held.items() if not one.full
        }
        for (_, number), message in self._reader.records_to_ends(starts, timeout):
            if message is not None:
                read[number].append(message)
                held[number].read_to = message.offset() + 1
        return read

    def _sorted_in(self, partition: HeldPartition, messages: Sequence[Message]) -> list[HeldCommit]:
        """Let commits wait for their group's answer; return the records about members."""
        if not messages:
            return []
        import pyarrow as pa  # noqa: PLC0415 - only while commits are held back

        from levelwind.streaming.decoding import offsets_topic  # noqa: PLC0415 - as above

        decoded = offsets_topic.decode(
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
        )
        commits = decoded.commits
        for row, group, topic, number, offset in zip(
            commits.row.tolist(),
            commits.group.tolist(),
            commits.topic.tolist(),
            commits.partition.tolist(),
            commits.offset.tolist(),
            strict=True,
        ):
            if not commits.groups[group]:
                continue  # librdkafka takes no question about a group without a name
            key = (commits.groups[group], commits.topics[topic], number)
            partition.unanswered.setdefault(key, []).append(_held(messages[row], offset))
        return [_held(messages[row]) for row in sorted(decoded.memberships)]

    def _committed(
        self, groups: Sequence[str], timeout: float
    ) -> dict[str, dict[tuple[str, int], int]]:
        """What each of some groups has committed, by name; each has its turn to be asked.

        Groups that cannot be asked are left out.
        """
        begin = bisect_right(groups, self._last_asked)
        chosen = [*groups[begin:], *groups[:begin]][:MAX_GROUPS]
        self._last_asked = chosen[-1] if chosen else ""
        return self._commits.read(chosen, timeout)


def _replay(partition: int, record: HeldCommit, at: int) -> ReplayRecord:
    return ReplayRecord(
        at=at,
        topic=OFFSETS_TOPIC,
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp,
        until=record.offset + 1,
        raw_key=record.key,
        raw_value=record.value,
    )


def _held(message: Message, committed: int = UNKNOWN) -> HeldCommit:
    return HeldCommit(
        offset=message.offset(),
        timestamp=max(message.timestamp()[1], 0),
        key=message.key(),
        value=message.value(),
        committed=committed,
    )

"""Questions to the brokers, all of which read: no group is joined, and nothing is written.

The brokers, topics and log ends are asked for as the observer does. Groups are asked in parts of
`GROUPS_AT_ONCE`, at most `GROUPS_PER_SECOND`, so that a cluster of thousands of groups answers
others meanwhile. A right that is missing costs only what it would have shown.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from levelwind.assignors.protocol.records import TopicRecord
from levelwind.daemon.access.role_rights import EVERY, Operation, Resource, Right
from levelwind.daemon.assessment.group_descriptions import describe
from levelwind.daemon.assessment.member_details import CLIENT_ID
from levelwind.daemon.assessment.observed_groups import (
    CLASSIC,
    CONSUMER_PROTOCOL,
    EMPTY,
    REBALANCING,
    STABLE,
    UNKNOWN_STATE,
    ClusterSample,
    GroupDescription,
    GroupMember,
    GroupReading,
    Lack,
    unique,
)
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka import clients
from levelwind.daemon.observer.cluster_probe import UnansweredError, probe_cluster, read_offsets
from levelwind.daemon.observer.cluster_state import UNKNOWN, ClusterState, diff
from levelwind.daemon.observer.coordinator_questions import CoordinatorQuestions
from levelwind.daemon.observer.group_commits import commits_by_librdkafka, fetch_commits
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from levelwind.daemon.observer.coordinator_questions import Failures
    from levelwind.daemon.observer.group_commits import Committed
    from levelwind.daemon.wire.broker_addresses import Address
    from levelwind.daemon.wire.shared_connections import SharedConnections

    Partition = tuple[str, int]
    Descriptions = dict[str, GroupDescription]

GROUPS_AT_ONCE = 20
"""Groups whose questions are under way at a time."""
GROUPS_PER_SECOND = 200
"""The most groups that are asked in a second."""
SHORT_PATIENCE_SECONDS = 2.0
"""Time for an answer about groups once one did not come in time: a coordinator that is silent must
not be waited for with each of its groups."""
NO_RECORD = -1
"""Offset of a time after that of the last record; that of a leader without an answer is less."""
ENDS_OF = "log ends of"
"""Beginning of what could not be asked about a topic."""
RETENTION = "offsets.retention.minutes"
READ_ONLY = {"enable.metrics.push": False}
"""Settings of the client: it sends the brokers no figures of its own (KIP-714)."""

STATES: Mapping[object, str] = {
    ConsumerGroupState.STABLE: STABLE,
    ConsumerGroupState.EMPTY: EMPTY,
    ConsumerGroupState.PREPARING_REBALANCING: REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING: REBALANCING,
}
TYPES: Mapping[object, str] = {
    ConsumerGroupType.CLASSIC: CLASSIC,
    ConsumerGroupType.CONSUMER: CONSUMER_PROTOCOL,
}


class ClusterReader:
    """An admin client, with what it learned of the cluster and what it may not see."""

    def __init__(
        self,
        config: Mapping[str, Any],
        timeout: float,
        *,
        end_kind: str = "stable",
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """Connect to a cluster.

        Args:
            config: settings of librdkafka.
            timeout: seconds for each request.
            end_kind: the log end that lag is measured against: `stable` or `high`.
            pause: waits for some seconds; true where the reading is to end, without the other
                groups.
        """
        self._config = dict(config)
        self._client = clients.admin({**config, **READ_ONLY})
        self._questions = CoordinatorQuestions(config, CLIENT_ID)
        self._timeout = timeout
        self._patience = timeout
        self._end_kind = end_kind
        self._pause = pause
        self.layout = ClusterState()
        self.begins: dict[Partition, int] = {}
        self.addresses: dict[int, tuple[str, int]] = {}
        """Host and port of each broker."""
        self.failures: dict[str, str] = {}
        """What could not be asked when it was asked last, by name, and why."""
        self._lacks: list[Lack] = []
        self._stable_at: dict[Partition, int] = {}

    def close(self) -> None:
        """End the connections to coordinators."""
        self._questions.close()

    @property
    def lacks(self) -> tuple[Lack, ...]:
        """The rights that this user lacks."""
        return unique(self._lacks)

    def group_names(self) -> list[str]:
        """Names of the groups of consumers that this user may see, sorted.

        Raises:
            ClusterUnavailableError: the cluster does not answer.
        """
        listed_brokers = clients.list_topics(self._client, self._config, self._timeout).brokers
        self.addresses = {number: (one.host, one.port) for number, one in listed_brokers.items()}
        try:
            listed = self._client.list_consumer_groups(request_timeout=self._timeout).result()
            allowed = (
                self._client.describe_cluster(
                    include_authorized_operations=True, request_timeout=self._timeout
                )
                .result()
                .authorized_operations
            )
        except KafkaException as exception:
            raise ClusterUnavailableError(
                f"the brokers do not list their groups: {clients.kafka_error(exception).str()}"
            ) from exception
        if not allowed:  # the brokers list the operations only for a user that has this right
            self._lack(
                Resource.CLUSTER, "", "groups that this user may not describe are not listed"
            )
        for failed in listed.errors:
            self.failures["groups of a broker"] = clients.kafka_error(failed).str()
        return sorted(listing.group_id for listing in listed.valid)

    def sample(self, names: Sequence[str]) -> ClusterSample:
        """Read the groups, and after each second of them the ends of what they read.

        So no end is much newer than the commits that it is compared with.

        Raises:
            ClusterUnavailableError: the cluster as a whole does not answer.
        """
        groups: dict[str, GroupReading] = {}
        for unknown in [what for what in self.failures if what.startswith(ENDS_OF)]:
            del self.failures[unknown]
        started = time.monotonic()
        refreshed = False
        for first in range(0, len(names), GROUPS_PER_SECOND):
            due = started + first / GROUPS_PER_SECOND
            part = dict(self._readings(names[first : first + GROUPS_PER_SECOND], due))
            partitions, topics = _read_by(part.values())
            if not refreshed or topics - self.layout.topics.keys():
                self._look_at(topics | self.layout.topics.keys())
                refreshed = True
            at = time.monotonic()
            ends = self._ends(partitions)
            groups |= {
                name: replace(reading, ends=ends, ends_read_at=at) for name, reading in part.items()
            }
        return ClusterSample(at=time.monotonic(), groups=groups)

    def led_partitions(self) -> dict[tuple[str, int], list[Partition]]:
        """The partitions whose begins were read, by the address of their leader."""
        led: dict[tuple[str, int], list[Partition]] = {}
        for partition in sorted(self.begins):
            address = self.addresses.get(self._leader(partition))
            if address is not None:
                led.setdefault(address, []).append(partition)
        return led

    def retention_minutes(self) -> int | None:
        """`offsets.retention.minutes` of a broker; None where it may not be read."""
        for number in sorted(self.layout.brokers)[:1]:
            resource = ConfigResource(ResourceType.BROKER, str(number))
            (answer,) = self._client.describe_configs(
                [resource], request_timeout=self._timeout
            ).values()
            try:
                entry = answer.result().get(RETENTION)
            except KafkaException as exception:
                self._note(
                    clients.kafka_error(exception),
                    RETENTION,
                    _right(Resource.CLUSTER, "", Operation.DESCRIBE_CONFIGS),
                    "whether consumers may fetch within their rack, and when commits expire",
                )
            else:
                return int(entry.value) if entry is not None else None
        return None

    def offsets_since(self, partitions: Iterable[Partition], at_ms: int) -> dict[Partition, int]:
        """The first offset of each partition that was written since a time; its end without one.

        Args:
            partitions: the partitions.
            at_ms: the time, in milliseconds since the epoch.
        """
        spec = OffsetSpec.for_timestamp(at_ms)
        wanted = {TopicPartition(*one): spec for one in sorted(partitions) if self._led(one)}
        found: dict[Partition, int] = {}
        isolation = IsolationLevel.READ_UNCOMMITTED
        for partition, answer in clients.list_offsets(
            self._client, wanted, isolation, self._timeout
        ):
            key = (partition.topic, partition.partition)
            try:
                offset = answer.result().offset
            except KafkaException:
                continue
            if offset >= 0:
                found[key] = offset
            elif offset == NO_RECORD and key in self._stable_at:
                found[key] = self._stable_at[key]
        return found

    def _readings(self, names: Sequence[str], started: float) -> Iterator[tuple[str, GroupReading]]:
        for first in range(0, len(names), GROUPS_AT_ONCE):
            early = started + first / GROUPS_PER_SECOND - time.monotonic()
            if self._pause(max(early, 0.0)):
                return
            part = list(names[first : first + GROUPS_AT_ONCE])
            committed, described, failures = self._answers(part)
            for name in part:
                self.failures.pop(name, None)
                if name in failures:
                    self._note_group(name, failures[name])
                at, commits = committed.get(name) or (time.monotonic(), None)
                yield name, GroupReading(at=at, group=described.get(name), commits=commits)

    def _answers(self, names: Sequence[str]) -> tuple[Committed, Descriptions, Failures]:
        """What some groups have committed, what they are, and why either is not known."""
        committed: Committed = {}
        described: Descriptions = {}

        async def ask(
            connections: SharedConnections, address: Address, led: Sequence[str]
        ) -> Failures:
            refusals = await fetch_commits(committed, connections, address, led)
            return refusals | await describe(described, connections, address, led)

        failures, left = self._questions.ask(names, self._patience, ask)
        if left:
            answers = self._client.describe_consumer_groups(left, request_timeout=self._patience)
            failures |= commits_by_librdkafka(committed, self._client, left, self._patience)
            for name, answer in answers.items():
                try:
                    described[name] = described_group(answer.result())
                except KafkaException as exception:
                    failures[name] = clients.kafka_error(exception)
        return committed, described, failures

    def _look_at(self, names: set[str]) -> None:
        """Describe topics that are new or look changed, and the brokers."""
        asked = {name: self.layout.topics.get(name) or _undescribed(name) for name in names}
        previous = ClusterState(brokers=self.layout.brokers, topics=asked)
        try:
            found = probe_cluster(
                self._client,
                frozenset(names),
                previous,
                now_ms(),
                self._timeout,
                full=not self.layout.brokers,
            )
        except UnansweredError as error:
            raise ClusterUnavailableError(
                f"the brokers do not describe their topics: {error}"
            ) from error
        for name in sorted(found.unreadable):
            loss = "racks, log ends and lag of this topic"
            self._lack(Resource.TOPIC, name, loss)
        self.layout, _ = diff(previous, found)

    def _ends(self, partitions: set[Partition]) -> dict[Partition, int]:
        """The ends of the partitions that have a leader; the first time also their begins."""
        leader = {one: self._leader(one) for one in partitions}
        led = [one for one in partitions if leader[one] != UNKNOWN]
        wanted = sorted(led, key=lambda one: (leader[one], one))
        try:
            found = read_offsets(
                self._client,
                wanted,
                [one for one in wanted if one not in self.begins],
                self._timeout,
                stable_at_high_watermark=self._stable_at,
            )
        except UnansweredError as error:
            raise ClusterUnavailableError(f"the brokers do not tell log ends: {error}") from error
        self.begins.update(found.begin)
        for topic in sorted({topic for topic, _ in found.failed}):
            texts = {text for (name, _), text in found.failed.items() if name == topic}
            self.failures[f"{ENDS_OF} {topic}"] = min(texts)
        for one in wanted:
            self._stable_at.pop(one, None)
        self._stable_at |= {
            one: end for one, end in found.stable.items() if found.high.get(one) == end
        }
        return dict(found.stable if self._end_kind == "stable" else found.high)

    def _led(self, partition: Partition) -> bool:
        return self._leader(partition) != UNKNOWN

    def _leader(self, partition: Partition) -> int:
        topic, number = partition
        layout = self.layout.topics.get(topic)
        return layout.leader[number] if layout and number < layout.partitions else UNKNOWN

    def _lack(self, resource: Resource, name: str, loss: str) -> None:
        self._lacks.append(Lack(_right(resource, name), loss))

    def _note_group(self, name: str, error: KafkaError) -> None:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            # Of a group of KIP-848 whose members read a topic that this user may not describe.
            right = _right(Resource.TOPIC, EVERY)
            loss = "members of groups that read topics which this user may not describe"
        else:
            right, loss = _right(Resource.GROUP, name), "everything about this group"
        self._note(error, name, right, loss)

    def _note(self, error: KafkaError, what: str, right: Right, loss: str) -> None:
        """Note a right that is missing, or another reason why something is not known."""
        if error.code() == KafkaError._TIMED_OUT:  # noqa: SLF001 - confluent-kafka's name for it
            self._patience = min(self._timeout, SHORT_PATIENCE_SECONDS)
        if error.code() in clients.AUTHORIZATION_ERRORS:
            self._lacks.append(Lack(right, loss))
        else:
            self.failures[what] = error.str()


def described_group(description: Any) -> GroupDescription:
    """What confluent-kafka's `ConsumerGroupDescription` says, as a value."""
    node = description.coordinator
    return GroupDescription(
        type=TYPES.get(description.type, ""),
        state=STATES.get(description.state, UNKNOWN_STATE),
        assignor=description.partition_assignor or "",
        coordinator=(node.host, node.port) if node is not None and node.host else None,
        members=tuple(
            GroupMember(
                id=member.member_id,
                instance=member.group_instance_id or None,
                client=member.client_id or "",
                host=(member.host or "").removeprefix("/"),
                owned=frozenset(
                    (one.topic, one.partition)
                    for one in (member.assignment.topic_partitions if member.assignment else ())
                ),
            )
            for member in description.members
        ),
    )


def _right(resource: Resource, name: str, operation: Operation = Operation.DESCRIBE) -> Right:
    return Right(resource=resource, name=name, operation=operation, purpose="assesses the groups")


def _read_by(readings: Iterable[GroupReading]) -> tuple[set[Partition], set[str]]:
    """The partitions that groups have committed or own, and all topics that they read."""
    partitions: set[Partition] = set()
    topics: set[str] = set()
    for reading in readings:
        partitions.update(reading.commits or ())
        for member in reading.group.members if reading.group else ():
            partitions.update(member.owned)
        topics |= reading.group.read_topics if reading.group else set()
    return partitions, topics | {topic for topic, _ in partitions}


def _undescribed(name: str) -> TopicRecord:
    """The record of a topic that was not described yet: it is asked for by name, listed or not."""
    return TopicRecord(topic=name, at=0, id="", leader=(), replicas=(), isr=(), racks=())

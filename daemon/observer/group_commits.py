"""What groups have committed, as their coordinators say."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException

from levelwind.daemon.kafka.clients import kafka_error
from levelwind.daemon.observer.coordinator_questions import CoordinatorQuestions
from levelwind.daemon.wire.poll_requests import FetchOffsetsRequest, committed_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.observer.coordinator_questions import Failures
    from levelwind.daemon.wire.broker_addresses import Address
    from levelwind.daemon.wire.poll_requests import FetchedGroup
    from levelwind.daemon.wire.shared_connections import SharedConnections

GROUPS_ASKED = 100
"""The most groups of one question."""


class GroupOffsets(NamedTuple):
    """What one group has committed."""

    at: float
    """When its coordinator answered, by `time.monotonic`."""
    offsets: dict[TopicPartition, int]
    """Without partitions that have no commit."""


Committed: TypeAlias = dict[str, GroupOffsets]
"""What groups have committed, by group."""


class GroupCommits:
    """Asks for commits, over the daemon's own connections where these can."""

    def __init__(self, config: Mapping[str, Any], client: AdminClient, client_id: str) -> None:
        """Make one.

        Args:
            config: settings of librdkafka.
            client: the client that asks where the own connections cannot.
            client_id: client id of the own connections.
        """
        self._client = client
        self._questions = CoordinatorQuestions(config, client_id)

    def read(self, groups: Sequence[str], timeout: float) -> dict[str, dict[TopicPartition, int]]:
        """Return what groups have committed, without those that could not be asked.

        Args:
            groups: names of the groups.
            timeout: seconds until whatever has no answer is given up.
        """
        if not groups:
            return {}
        committed: Committed = {}
        _, left = self._questions.ask(groups, timeout, partial(fetch_commits, committed))
        commits_by_librdkafka(committed, self._client, left, timeout)
        return {group: one.offsets for group, one in committed.items()}

    def close(self) -> None:
        """End the connections; the next question opens others."""
        self._questions.close()


async def fetch_commits(
    committed: Committed, connections: SharedConnections, address: Address, groups: Sequence[str]
) -> Failures:
    """Ask one coordinator what its groups have committed; return its refusals.

    Raises:
        ConnectionFailedError: it cannot be reached, or does not answer in time.
    """
    refusals: Failures = {}
    for first in range(0, len(groups), GROUPS_ASKED):
        request = FetchOffsetsRequest(groups[first : first + GROUPS_ASKED])
        answers: Sequence[FetchedGroup] = await connections.ask(address, request)
        at = time.monotonic()  # coordinators that answer later do not count
        for answer in answers:
            if answer.error:
                refusals[answer.name] = KafkaError(answer.error)
            else:
                offsets = {
                    (topic, number): offset
                    for topic, partitions in answer.topics.items()
                    for number, (offset, _) in committed_offsets(partitions).items()
                }
                committed[answer.name] = GroupOffsets(at, offsets)
    return refusals


def commits_by_librdkafka(
    committed: Committed, client: AdminClient, groups: Sequence[str], timeout: float
) -> Failures:
    """Ask by librdkafka what groups have committed; return why that of others is not known.

    It takes no group without a name, which old clients could have.
    """
    at: dict[str, float] = {}
    answers: dict[str, Future[ConsumerGroupTopicPartitions]] = {}
    for group in filter(None, groups):
        (answer,) = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=timeout
        ).values()
        answer.add_done_callback(lambda _, group=group: at.update({group: time.monotonic()}))
        answers[group] = answer
    failures: Failures = {
        group: KafkaError(KafkaError.INVALID_GROUP_ID) for group in groups if not group
    }
    for group, answer in answers.items():
        try:
            found = answer.result().topic_partitions or ()
        except KafkaException as exception:
            failures[group] = kafka_error(exception)
        else:
            offsets = {
                (one.topic, one.partition): one.offset
                for one in found
                if one.error is None and one.offset >= 0
            }
            committed[group] = GroupOffsets(at.get(group, time.monotonic()), offsets)
    return failures

"""Sizes of records, by the bytes of logs on the brokers' disks.

confluent-kafka does not ask for them, so the leaders are asked over the connections of the leader
proxy. The mean over a log is what its records take as they are stored and fetched, compressed. Of a
compacted topic, or one whose older records are in remote storage, it is less than that of what
arrives.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.assessment.member_details import CLIENT_ID
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.broker_connection import ConnectionFailedError, open_connection
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.log_requests import DescribeLogDirsRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.wire.client_security import ClientSecurity

PARTITIONS_AT_ONCE = 5_000
"""The most partitions of one question."""


def read_log_sizes(
    config: Mapping[str, str],
    leaders: Mapping[tuple[str, int], Iterable[TopicPartition]],
    timeout: float,
) -> dict[TopicPartition, int]:
    """Ask leaders for the bytes of their logs; what cannot be asked is left out.

    Costs one connection to each leader, and one request for each `PARTITIONS_AT_ONCE` partitions.

    Args:
        config: settings of librdkafka.
        leaders: the partitions that each broker leads, by its host and port.
        timeout: seconds for each answer.
    """
    try:
        security = client_security(config)
    except ConfigurationError:
        return {}
    return asyncio.run(_read(leaders, security, timeout))


async def _read(
    leaders: Mapping[tuple[str, int], Iterable[TopicPartition]],
    security: ClientSecurity,
    within: float,
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}

    async def read_from(address: tuple[str, int], led: Sequence[TopicPartition]) -> None:
        with suppress(ConnectionFailedError, WireError, TimeoutError):
            leader = await open_connection(*address, security, CLIENT_ID, within)
            with closing(leader):
                for first in range(0, len(led), PARTITIONS_AT_ONCE):
                    part = ranges.by_topic(led[first : first + PARTITIONS_AT_ONCE])
                    async with asyncio.timeout(within):
                        found.update(await leader.ask(DescribeLogDirsRequest(part)))

    await asyncio.gather(*(read_from(address, sorted(led)) for address, led in leaders.items()))
    return found


def record_sizes(
    sizes: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[str, float]:
    """Compute the mean bytes of a record by topic; without topics that hold none.

    Args:
        sizes: bytes of the leaders' logs.
        begins: begins of the logs.
        ends: their ends.
    """
    bytes_of: dict[str, int] = {}
    records: dict[str, int] = {}
    for partition, size in sizes.items():
        if partition in begins and partition in ends:
            topic = partition[0]
            bytes_of[topic] = bytes_of.get(topic, 0) + size
            records[topic] = records.get(topic, 0) + ends[partition] - begins[partition]
    return {topic: bytes_of[topic] / count for topic, count in records.items() if count > 0}

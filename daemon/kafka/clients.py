"""The daemon's Kafka clients: each is made here, so that all of them say what they have to say in the same way.

librdkafka writes to standard error by itself unless it is handed a logger, and keeps its lines until it is polled: who
makes a client here polls it. Settings that the operator passes through win over those that a client merely prefers,
never over those that it is correct by.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from daemon.errors import ClusterUnavailableError, ConfigurationError
from daemon.telemetry.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import TopicPartition

Client = TypeVar("Client")

PARTITIONS_PER_REQUEST = 500
"""Partitions a call for offsets: what a call takes grows with their square. Of 10,000 one took 0.73 s of CPU, twenty 0.12 s."""


class LibraryLogThrottle(logging.Filter):
    """Lets one line of each kind of each client through in so many seconds: a client that cannot connect says so 20 times a second."""

    def __init__(self, interval: float = 30.0) -> None:
        super().__init__()
        self._throttle: Throttle[str] = Throttle(interval=interval)

    def filter(self, record: logging.LogRecord) -> bool:
        """Judge a line by its beginning, which names the kind and the client: `FAIL [levelwind#consumer-2] ...`."""
        kind = record.getMessage().partition("]")[0]
        return self._throttle.allows(kind, record.created) is not None


LIBRARY = logging.getLogger("librdkafka")
LIBRARY.addFilter(LibraryLogThrottle())

# An idle connection that a broker closes is no news, and a broker that is back should be seen soon.
PREFERRED: Mapping[str, Any] = {
    "client.id": "levelwind",
    "log.connection.close": False,
    "reconnect.backoff.max.ms": 2000,
}

AUTHORIZATION_ERRORS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The cluster knows us and says no: asking again is of no use until the operator has granted a right."""


def admin(config: Mapping[str, Any]) -> AdminClient:
    """Make an admin client."""
    return _made(AdminClient, config, {})


def producer(config: Mapping[str, Any], required: Mapping[str, Any]) -> Producer:
    """Make a producer; nothing overrides what is required."""
    return _made(Producer, config, required)


def consumer(config: Mapping[str, Any], required: Mapping[str, Any]) -> Consumer:
    """Make a consumer; nothing overrides what is required."""
    return _made(Consumer, config, required)


def _made(
    make: Callable[..., Client], config: Mapping[str, Any], required: Mapping[str, Any]
) -> Client:
    try:
        return make({**PREFERRED, **config, **required}, logger=LIBRARY)
    except KafkaException as exception:
        raise ConfigurationError(f"kafka: {kafka_error(exception).str()}") from exception


def kafka_error(exception: KafkaException) -> KafkaError:
    """Take the error out of the exception that the client wraps it in."""
    return exception.args[0]


def list_topics(client: AdminClient | Consumer, config: Mapping[str, Any], timeout: float) -> Any:
    """Ask for the brokers and topics that there are.

    Raises:
        ClusterUnavailableError: no answer in time; says from where.
    """
    try:
        return client.list_topics(timeout=timeout)
    except KafkaException as exception:
        raise ClusterUnavailableError(
            f"the cluster at {config.get('bootstrap.servers')} does not answer: {kafka_error(exception).str()}"
        ) from exception


def list_offsets(
    client: AdminClient, wanted: Mapping[TopicPartition, Any], isolation: Any, timeout: float
) -> Mapping[TopicPartition, Any]:
    """Ask for offsets: futures by partition, in the order given.

    For each `PARTITIONS_PER_REQUEST` partitions or fewer it is one request to each broker that leads any of them. librdkafka groups them
    by leader itself, from metadata that it keeps; a partition whose leader does not answer in time gets a negative
    offset, not an error.
    """
    partitions = list(wanted.items())
    asked: dict[TopicPartition, Any] = {}
    for first in range(0, len(partitions), PARTITIONS_PER_REQUEST):
        some = dict(partitions[first : first + PARTITIONS_PER_REQUEST])
        asked |= client.list_offsets(some, isolation_level=isolation, request_timeout=timeout)
    return asked

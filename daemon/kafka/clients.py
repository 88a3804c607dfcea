"""The daemon's Kafka clients: all of them are made here, with one logger and one order of settings.

librdkafka writes to standard error unless it has a logger, and with a logger it keeps its lines
until the client is polled: whoever makes a client must poll it. Settings that the operator passes
through override the preferred settings of a client, but never its required ones.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import time
from collections import deque
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, Uuid
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from levelwind.assignors.clients.deleted_topics import NEVER_CREATES
from levelwind.assignors.clients.idle_connections import with_idle_connections
from levelwind.daemon.errors import ClusterUnavailableError, ConfigurationError
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.telemetry.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from confluent_kafka import ThrottleEvent, TopicPartition

log = Logger()

Client = TypeVar("Client")

PARTITIONS_PER_REQUEST = 500
"""The most partitions of one call for offsets, since the cost of a call grows with their square.

Of 10,000 partitions, one call took 0.73 s of CPU and twenty calls 0.12 s.
"""
CALLS_AHEAD = 4
"""Calls for offsets that are under way at a time: the futures of a partition take 2 kB."""
CALL_PATIENCE_SECONDS = 0.25
"""Longest wait for an answer before all other calls are made: a dead broker's time-out must not
be waited for several times, one after another."""


class LibraryLogThrottle(logging.Filter):
    """Passes one log line of each kind and client an interval.

    A client that cannot connect logs its failure 20 times a second.
    """

    def __init__(self, interval: float = 30.0) -> None:
        super().__init__()
        self._throttle: Throttle[str] = Throttle(interval=interval)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to pass a line.

        A line begins with its kind and client, as in `FAIL [levelwind#consumer-2] ...`.
        """
        kind = record.getMessage().partition("]")[0]
        return self._throttle.allows(kind, record.created) is not None


LIBRARY_LOG = logging.getLogger("librdkafka")
LIBRARY_LOG.addFilter(LibraryLogThrottle())

THROTTLED_SECONDS = 600.0
"""Time after which a broker is named again that delays the daemon's requests by a client quota."""
_throttled: Throttle[int] = Throttle(interval=THROTTLED_SECONDS)


def log_throttled(event: ThrottleEvent) -> None:
    """Say that a broker delays its answers to the daemon, since a client quota is used up."""
    if event.throttle_time <= 0:  # as librdkafka says when a delay has ended
        return
    suppressed = _throttled.allows(event.broker_id, time.monotonic())
    if suppressed is not None:
        log.warning(
            "kafka.throttled",
            broker=event.broker_id,
            seconds=round(event.throttle_time, 3),
            suppressed=suppressed,
        )


PREFERRED: Mapping[str, Any] = {
    "client.id": "levelwind",
    "log.connection.close": False,  # they end all the time
    "throttle_cb": log_throttled,
}

AUTHORIZATION_ERRORS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The user lacks a right: a retry cannot succeed until the operator has granted it."""


def admin(config: Mapping[str, Any]) -> AdminClient:
    """Make an admin client; it never creates a topic."""
    return _make(AdminClient, config, NEVER_CREATES)


def producer(config: Mapping[str, Any], required: Mapping[str, Any]) -> Producer:
    """Make a producer, which never creates a topic.

    The operator's settings cannot override `required`.
    """
    return _make(Producer, config, {**required, **NEVER_CREATES})


def consumer(config: Mapping[str, Any], required: Mapping[str, Any]) -> Consumer:
    """Make a consumer; the operator's settings cannot override `required`."""
    return _make(Consumer, config, required)


def _make(
    make: Callable[..., Client], config: Mapping[str, Any], required: Mapping[str, Any]
) -> Client:
    try:
        return make({**PREFERRED, **with_idle_connections(config), **required}, logger=LIBRARY_LOG)
    except KafkaException as exception:
        raise ConfigurationError(f"kafka: {kafka_error(exception).str()}") from exception


def kafka_error(exception: KafkaException) -> KafkaError:
    """Return the error that the client has wrapped in an exception."""
    return exception.args[0]


def retrying(error: type[Exception], timeout: float) -> Retrying:
    """Attempts, ever further apart, until one raises no `error` or `timeout` seconds have passed.

    The last attempt's error is raised.
    """
    return Retrying(
        retry=retry_if_exception_type(error),
        stop=stop_after_delay(timeout),
        wait=wait_exponential(multiplier=0.05, max=1),
        reraise=True,
    )


def list_topics(client: AdminClient | Consumer, config: Mapping[str, Any], timeout: float) -> Any:
    """Return the brokers and topics of the cluster.

    Raises:
        ClusterUnavailableError: no answer in time; the text names the cluster's address.
    """
    try:
        return client.list_topics(timeout=timeout)
    except KafkaException as exception:
        raise ClusterUnavailableError(
            f"the cluster at {config.get('bootstrap.servers')} does not answer:"
            f" {kafka_error(exception).str()}"
        ) from exception


def list_offsets(
    client: AdminClient, specs: Mapping[TopicPartition, Any], isolation: Any, timeout: float
) -> Iterator[tuple[TopicPartition, Any]]:
    """Ask for offsets; return each partition with a future, in the order of `specs`.

    Costs one request to each broker that leads any of the partitions, for each
    `PARTITIONS_PER_REQUEST` partitions. librdkafka groups them by leader from metadata that it
    keeps; a partition whose leader does not answer in time gets a negative offset, not an error.
    The first `CALLS_AHEAD` calls are made at once, each further one when an answer was taken, and
    all of them as soon as one takes longer than `CALL_PATIENCE_SECONDS`.
    """
    partitions = list(specs.items())
    calls = (
        client.list_offsets(
            dict(partitions[first : first + PARTITIONS_PER_REQUEST]),
            isolation_level=isolation,
            request_timeout=timeout,
        )
        for first in range(0, len(partitions), PARTITIONS_PER_REQUEST)
    )
    return _taken(deque(islice(calls, CALLS_AHEAD)), calls)


def _taken(
    asked: deque[dict[TopicPartition, Any]], calls: Iterator[dict[TopicPartition, Any]]
) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield the futures of calls that were made and of those still to be made.

    Each call's mapping stays as it is: the client's thread looks up each future in it to answer.
    """
    while asked:
        futures = asked.popleft()
        if _is_slow(futures):
            asked.extend(calls)
        yield from futures.items()
        asked.extend(islice(calls, 1))


def _is_slow(futures: Mapping[TopicPartition, Any]) -> bool:
    """Whether the answer of a call, which its futures get one after the other, takes long."""
    try:
        next(iter(futures.values())).result(CALL_PATIENCE_SECONDS)
    except TimeoutError:
        return True
    except KafkaException:
        pass  # for whoever takes the future
    return False


def topic_id(description: Any) -> str:
    """Return a topic's id, in librdkafka's base64, and let its memory go with the description.

    confluent-kafka (2.16) forgets to give up its reference to the `Uuid` that it makes for each
    topic that it describes: 93 bytes each. Beside 200 topics a daemon reads 23 ids a second, which
    were 185 MB a day.

    Args:
        description: confluent-kafka's `TopicDescription`, of which only the caller knows.
    """
    text = str(description.topic_id)
    if isinstance(description.topic_id, Uuid) and _references(description) == _OWNED + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(description.topic_id))
    return text


def _references(description: Any) -> int:
    topic_id = description.topic_id
    return sys.getrefcount(topic_id)


_OWNED = _references(SimpleNamespace(topic_id=Uuid(0, 0)))
"""References to an id that nobody but its description holds."""

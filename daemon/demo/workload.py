"""The demo's workload: orders of unevenly busy customers.

The key of a record is a customer, and a customer's partition is the hash of the key, as with any
keyed topic. A few customers are hot. They are chosen from the partitions of one consumer of each
group as far as possible, so that every run has a skew to correct in both groups; after a while the
customers of other consumers become hot.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from levelwind.assignors.protocol.topics import partition_for
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka import clients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

TOPICS: Mapping[str, int] = {"orders.placed": 24, "orders.paid": 12}
RACKS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Rates of the workload and its skew."""

    rate: float = 1_500.0
    """Records produced a second, over all partitions."""
    hot_share: float = 0.6
    """Share of the records that goes to the hot partitions."""
    hot_partitions: int = 4
    """Number of partitions that are hot at a time."""
    consumers: int = 6
    consumer_rate: float = 400.0
    """Records that one consumer reads a second at most."""
    hot_partitions_move_after: float = 180.0
    """Seconds after which the partitions of another consumer become hot."""
    record_bytes: int = 100


def customer_keys(partition: int, partitions: int) -> Iterator[bytes]:
    """Yield, without end, keys that Kafka's default partitioner sends to a partition."""
    return (
        key.encode()
        for key in map("customer-{}".format, count())
        if partition_for(key, partitions) == partition
    )


@dataclass(frozen=True, slots=True)
class CustomerMix:
    """Customers, each with the probability that the next order is from that customer."""

    keys: tuple[tuple[str, bytes], ...]
    """Topic and key of each customer."""
    chance: np.ndarray
    """float64, indexed as `keys`; the sum is 1."""

    @staticmethod
    def concentrated_on(hot: frozenset[tuple[str, int]], traffic: Traffic) -> CustomerMix:
        """Give `hot_share` of the traffic to the hot partitions' customers, the rest to others."""
        partitions = [(topic, number) for topic, size in TOPICS.items() for number in range(size)]
        keys = tuple(
            (topic, next(customer_keys(number, TOPICS[topic]))) for topic, number in partitions
        )
        is_hot = np.array([partition in hot for partition in partitions])
        weight = np.where(is_hot, traffic.hot_share / max(is_hot.sum(), 1), 0.0)
        weight += np.where(is_hot, 0.0, (1 - weight.sum()) / max((~is_hot).sum(), 1))
        return CustomerMix(keys, weight / weight.sum())


class WorkloadThread:
    """A part of the workload in a thread of its own; `failure` is the error that ended it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Request an orderly end."""
        self._stop.set()

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - the demo raises it
            self.failure = error

    def _work(self) -> None:
        raise NotImplementedError


class OrderProducer(WorkloadThread):
    """Produces orders at a steady rate; changes the hot customers from time to time."""

    def __init__(
        self,
        client: Mapping[str, Any],
        traffic: Traffic,
        owned: Callable[[], Sequence[Mapping[str, frozenset[tuple[str, int]]]]],
        report: Callable[[str], None],
        seed: int = 1,
    ) -> None:
        super().__init__("orders")
        self._producer = clients.producer(
            client, {"linger.ms": 20, "partitioner": "murmur2_random"}
        )
        self._traffic = traffic
        self._owned = owned
        self._report = report
        self._random = np.random.default_rng(seed)
        self.produced = 0

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended; flush the records in flight."""
        super().join(timeout)
        self._producer.flush(min(timeout, 1.0))

    def _work(self) -> None:
        tick = 0.1
        mix, move_at = (
            self._concentrate(),
            time.monotonic() + self._traffic.hot_partitions_move_after,
        )
        due = time.monotonic()
        payload = b"x" * self._traffic.record_bytes
        while not self._stop.is_set():
            if time.monotonic() >= move_at:
                mix, move_at = (
                    self._concentrate(),
                    time.monotonic() + self._traffic.hot_partitions_move_after,
                )
            size = round(self._traffic.rate * tick)
            for choice in self._random.choice(len(mix.keys), size=size, p=mix.chance):
                topic, key = mix.keys[choice]
                self._produce(topic, key, payload)
            self.produced += size
            due += tick
            self._stop.wait(max(due - time.monotonic(), 0))

    def _produce(self, topic: str, key: bytes, payload: bytes) -> None:
        while not self._stop.is_set():
            try:
                self._producer.produce(topic, payload, key)
                self._producer.poll(0)
            except BufferError:  # the brokers are behind: wait, drop nothing
                self._producer.poll(0.1)
            else:
                return

    def _concentrate(self) -> CustomerMix:
        """Make partitions of the first topic hot that one consumer of each group owns."""
        hot, consumers = hot_partitions(
            self._owned(), self._traffic.hot_partitions, self._random.random
        )
        topic = next(iter(TOPICS))
        owners = ", ".join(f"{count} owned by {name}" for name, count in consumers.items() if count)
        self._report(f"hot partitions: {topic} {', '.join(map(str, hot))}; {owners}")
        return CustomerMix.concentrated_on(
            frozenset((topic, number) for number in hot), self._traffic
        )


def hot_partitions(
    groups: Sequence[Mapping[str, frozenset[tuple[str, int]]]],
    count: int,
    chance: Callable[[], float],
) -> tuple[list[int], dict[str, int]]:
    """Choose partitions of the first topic of which one consumer of each group owns many.

    All are of one consumer of the first group, as many as possible of one of each other group.

    Args:
        groups: what each consumer owns, by group and consumer; the groups read the same topics.
        count: number of partitions.
        chance: decides between equals.

    Returns:
        The partitions, and how many of them each chosen consumer owns.
    """
    topic = next(iter(TOPICS))
    numbers = [
        {name: {n for t, n in owned if t == topic} for name, owned in group.items()}
        for group in groups
    ]
    first, *others = numbers

    def shared(name: str, other: Mapping[str, set[int]]) -> tuple[int, str]:
        """The consumer of another group that owns most of a consumer's partitions."""
        return max((len(first[name] & owned), consumer) for consumer, owned in other.items())

    chosen = max(
        first,
        key=lambda name: (
            min(len(first[name]), count),
            sum(shared(name, other)[0] for other in others),
            chance(),
        ),
    )
    rivals = [shared(chosen, other)[1] for other in others]
    hot = sorted(
        first[chosen],
        key=lambda n: (-sum(n in o[r] for o, r in zip(others, rivals, strict=True)), n),
    )[:count]
    owners = {chosen: len(hot)}
    for other, rival in zip(others, rivals, strict=True):
        owners[rival] = len(other[rival] & set(hot))
    return sorted(hot), owners


def create_topics(client: Mapping[str, Any], timeout: float) -> None:
    """Create the missing topics of the demo, with two replicas where there are two brokers.

    Raises:
        ClusterUnavailableError: the cluster does not answer, or denies creating topics.
    """
    admin = clients.admin(client)
    try:
        cluster = admin.list_topics(timeout=timeout)
        new = [
            NewTopic(topic, partitions, min(2, len(cluster.brokers)))
            for topic, partitions in TOPICS.items()
            if topic not in cluster.topics
        ]
        for future in admin.create_topics(new).values() if new else ():
            future.result(timeout)
    except KafkaException as error:
        raise ClusterUnavailableError(
            f"the demo's topics cannot be created: {clients.kafka_error(error).str()}"
        ) from error

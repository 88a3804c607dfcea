"""The consumers of the demo: two groups, the same loop."""

import time

from levelwind.daemon.demo import demo_workers
from levelwind.daemon.demo.demo_workers import (
    DELAY_WINDOW_SECONDS,
    KafkaWorker,
    ManagedWorker,
    kafka_workers,
    managed_workers,
)
from levelwind.daemon.demo.workload import Traffic

CLIENT = {"bootstrap.servers": "127.0.0.1:1"}
NOW_MS = 1_000_000


class Order:
    def __init__(self, seconds_ago: float) -> None:
        self._at = NOW_MS - round(seconds_ago * 1000)

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at


def ignore(_name: str, _verb: str, _partitions: list) -> None:
    pass


def test_both_groups_have_as_many_consumers_in_the_same_racks():
    traffic = Traffic(consumers=4)
    ours = managed_workers(CLIENT, traffic, "levelwind.", ignore)
    kafka = kafka_workers(CLIENT, traffic, ignore)
    assert [worker.rack for worker in ours] == [worker.rack for worker in kafka] == list("abca")
    assert {type(worker) for worker in ours} == {ManagedWorker}
    assert {type(worker) for worker in kafka} == {KafkaWorker}
    assert len({worker.name for worker in (*ours, *kafka)}) == 8


def test_delays_are_those_of_the_last_seconds(monkeypatch):
    monkeypatch.setattr(demo_workers, "now_ms", lambda: NOW_MS)
    (worker,) = kafka_workers(CLIENT, Traffic(consumers=1), ignore)
    assert worker.recent_delays() == []
    worker._note_delays([Order(seconds_ago=5), Order(seconds_ago=0)])
    assert worker.recent_delays() == [5.0, 0.0]
    old = time.monotonic() - DELAY_WINDOW_SECONDS - 1
    worker._delays.appendleft((old, 99.0))
    assert 99.0 not in worker.recent_delays()
    worker._note_delays([])
    assert len(worker._delays) == 2  # and what is old is forgotten


def test_a_worker_knows_what_it_owns():
    class Partition:
        def __init__(self, number: int) -> None:
            self.topic, self.partition = "orders.placed", number

    seen = []
    (worker,) = kafka_workers(CLIENT, Traffic(consumers=1), lambda *change: seen.append(change))
    worker._on_assigned(None, [Partition(1), Partition(2)])
    worker._on_revoked(None, [Partition(1)])
    assert worker.owned == {("orders.placed", 2)}
    assert seen == [
        ("kafka-0", "took over", [("orders.placed", 1), ("orders.placed", 2)]),
        ("kafka-0", "gave up", [("orders.placed", 1)]),
    ]

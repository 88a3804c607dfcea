"""Real consumers that follow plans, each in a thread, and a check for two owners at a time."""

import threading
from collections import defaultdict
from typing import Any

from levelwind.assignors.handover.timers import Timers
from levelwind.clients.confluent import ManagedConsumer, OwnershipChange


class Follower:
    """A consumer that notes every record it processed, and works at a limited speed."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        group: str,
        topic: str,
        *,
        instance: str,
        rack: str,
        timers: Timers,
        journal: list[OwnershipChange],
        rate: float = 1e9,
    ) -> None:
        self.instance = instance
        self.owned: set[int] = set()
        self.processed: dict[int, list[int]] = defaultdict(list)
        self.failure: BaseException | None = None
        self._rate = rate
        self._stop = threading.Event()
        self._arguments: dict[str, Any] = {
            "group": group,
            "topics": [topic],
            "instance": instance,
            "rack": rack,
            "prefix": prefix,
            "timers": timers,
            "journal": journal.append,
            "on_assign": lambda _, partitions: self.owned.update(p.partition for p in partitions),
            "on_revoke": lambda _, partitions: self.owned.difference_update(
                p.partition for p in partitions
            ),
            "on_lost": lambda _, partitions: self.owned.difference_update(
                p.partition for p in partitions
            ),
        }
        self._config = {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        self._thread = threading.Thread(target=self._run, name=instance, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with ManagedConsumer(self._config, **self._arguments) as consumer:
                while not self._stop.is_set():
                    self._work(consumer)
        except BaseException as error:  # noqa: BLE001 - raised to the test in the main thread
            self.failure = error

    def _work(self, consumer: ManagedConsumer) -> None:
        records = [r for r in consumer.consume(50, 0.2) if r.error() is None]
        for record in records:
            self.processed[record.partition()].append(record.offset())
        if records:
            consumer.commit(asynchronous=True)
        self._stop.wait(len(records) / self._rate)

    def speed_up(self) -> None:
        self._rate = 1e9

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure


def overlaps(journal: list[OwnershipChange]) -> list[str]:
    """Every gain of a partition that another follower still owned, by the followers' own log."""
    owner: dict[tuple[str, int], str] = {}
    found = []
    for entry in sorted(journal, key=lambda e: e.at):
        partition = (entry.topic, entry.partition)
        if entry.event == "gained":
            if partition in owner:
                found.append(
                    f"{entry.instance} gained {partition} at {entry.at}"
                    f" while {owner[partition]} had it"
                )
            owner[partition] = entry.instance
        elif owner.get(partition) == entry.instance:
            del owner[partition]
    return found

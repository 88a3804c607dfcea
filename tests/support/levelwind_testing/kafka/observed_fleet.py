"""An observer of brokers that do not exist: what each of its ticks asks of whom."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.observer.cluster_state import ClusterState
from levelwind.daemon.observer.observer import Observer
from levelwind.daemon.observer.settings import ObserverSettings
from levelwind_testing.kafka.simulated_admin import SimulatedAdmin, Traffic


class Published:
    """The metadata topic of a fleet: it keeps the number of records, and the last changes."""

    def __init__(self) -> None:
        self.changes = self.samples = 0
        self.last: list[Any] = []

    def recover(self, _within: float) -> ClusterState:
        return ClusterState()

    def publish(self, changes: Iterable[Any], _before: object) -> Collection[Any]:
        self.last = list(changes)
        self.changes += len(self.last)
        return ()

    def offer(self, samples: Iterable[Any]) -> None:
        self.samples += len(list(samples))

    def close(self) -> None:
        """Nothing is pending."""


class ObservedFleet:
    """The observer, its simulated brokers, and the traffic of each tick."""

    def __init__(self, brokers: int, topics: int, partitions: int, log: Any = None) -> None:
        self.admin = SimulatedAdmin(brokers, topics, partitions)
        self.published = Published()
        settings = ObserverSettings(detect_control_records=False)
        config: Mapping[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
        self.observer = Observer(config, Topics(), settings, log)
        self.observer._client = self.admin  # type: ignore[assignment]
        self.observer._topic.close()
        self.observer._topic = self.published  # type: ignore[assignment]

    def layouts(self, ticks: int) -> list[Traffic]:
        """The traffic of some probes of the layout."""
        return [self._after(self.observer.tick_metadata) for _ in range(ticks)]

    def samples(self, ticks: int, *, growing: bool) -> list[Traffic]:
        """The traffic of some samples; `growing`: whether every log grows between them."""
        found = []
        for _ in range(ticks):
            self.admin.end += growing
            found.append(self._after(self.observer.tick_offsets))
        return found

    def _after(self, tick: Any) -> Traffic:
        tick()
        return self.admin.taken()

    def close(self) -> None:
        self.observer.close()

r"""An unmodified confluent-kafka consumer that subscribes, in a process that a test can kill.

    python -m levelwind_testing.processes.subscriber_process SETTINGS

Its standard output says, a JSON object a line, what it has after each change and since when, and
which records it read. It commits as librdkafka does by default.
"""

import json
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import Consumer

from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.processes.module_process import start_module


class Holding(NamedTuple):
    """What a consumer has from a time on."""

    at: float
    """Seconds of the machine's monotonic clock, which all processes share."""
    consumer: int
    """Number of the process that has it."""
    partitions: frozenset[int]


class SubscriberProcess:
    """A running consumer of one topic, as its test sees it."""

    def __init__(self, config: dict[str, Any], topic: str, journal: list[Holding]) -> None:
        """Start the consumer.

        Args:
            config: settings of librdkafka.
            topic: the topic that it subscribes to.
            journal: takes in what it has after each change.
        """
        arguments = json.dumps({"config": config, "topic": topic})
        self.held: frozenset[int] = frozenset()
        self.member_id = ""
        self.processed: dict[int, set[int]] = defaultdict(set)
        """Offsets of the records that it read, by partition."""
        self.noise: list[str] = []
        self._journal = journal
        self.child = start_module(__name__, arguments, grace=20)
        self._thread = follow_json_lines(self.child.process, self._take, self.noise)

    def _take(self, event: dict[str, Any]) -> None:
        if "offsets" in event:
            self.processed[event["partition"]].update(event["offsets"])
        else:
            self.member_id, self.held = event["member_id"], frozenset(event["held"])
            self._journal.append(Holding(event["at"], self.child.process.pid, self.held))

    def kill(self) -> None:
        """End the process without notice."""
        self.child.kill()
        self._end()

    def stop(self) -> None:
        """End the process in good order: it commits and leaves the group."""
        self.child.stop()
        self._end()

    def _end(self) -> None:
        ended = time.monotonic()
        self._thread.join(10)
        self.held = frozenset()
        self._journal.append(Holding(ended, self.child.process.pid, self.held))


def shared(journal: Iterable[Holding]) -> list[tuple[float, list[int]]]:
    """Times at which consumers had a partition at once, and all that was had then."""
    held: dict[int, frozenset[int]] = {}
    found = []
    for entry in sorted(journal):
        held[entry.consumer] = entry.partitions
        now = [number for partitions in held.values() for number in partitions]
        if len(now) > len(set(now)):
            found.append((entry.at, sorted(now)))
    return found


def report(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(config: dict[str, Any], topic: str) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    cooperative = (
        config.get("group.protocol") == "consumer"
        or config.get("partition.assignment.strategy") == "cooperative-sticky"
    )
    held: set[int] = set()
    consumer = Consumer(config)

    def show(now: set[int]) -> None:
        held.clear()
        held.update(now)
        report(
            at=time.monotonic(),
            held=sorted(held),
            member_id=consumer.memberid() or "",
        )

    def assigned(_: object, partitions: list[Any]) -> None:
        gained = {each.partition for each in partitions}
        show(held | gained if cooperative else gained)

    def revoked(_: object, partitions: list[Any]) -> None:
        show(held - {each.partition for each in partitions} if cooperative else set())

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not stopping.is_set():
        offsets: dict[int, list[int]] = defaultdict(list)
        for message in consumer.consume(100, 0.1):
            if message.error() is None:
                offsets[message.partition()].append(message.offset())
        for partition, found in offsets.items():
            report(partition=partition, offsets=found)
    consumer.close()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

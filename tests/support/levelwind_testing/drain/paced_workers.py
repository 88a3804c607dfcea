"""Members of one group, each a thread that handles records at a limited speed.

A program: `python -m levelwind_testing.drain.paced_workers SETTINGS` (a JSON object, see `Crew`).
Its standard input takes one command a line: `stop N` and `start N` end and begin member N,
`freeze N` stops the process until it gets a SIGCONT. At the end of the input all members close, and
what they did is written to the file `journal`. Its standard output says, a JSON object a line,
which partitions a member gained or lost, and how many records all members have handled.

All members, of Kafka's own protocols and of levelwind, run through the same loop. A member is busy
for 1/speed seconds with each record, on a clock of its own that a late awakening does not stop, up
to `SLACK_SECONDS`; what it is late beyond that is counted, since then the machine is too slow.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import Consumer

from levelwind.clients.confluent import ManagedConsumer
from levelwind_testing.drain.drain_scenarios import RACKS, member_rack
from levelwind_testing.drain.java_consumer import JavaConsumer, start_java
from levelwind_testing.drain.published_consumer import PublishedConsumer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind_testing.drain.drain_candidates import Mode
    from levelwind_testing.processes.java_process import JavaProcess

SLACK_SECONDS = 0.05
SLEEP_SECONDS = 0.01
"""Members sleep once their clocks are this far ahead: records of 3 ms each need no sleep each."""
POLL_SECONDS = 0.1
CLOSE_SECONDS = 20.0
COUNT_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Settings of the program."""

    bootstrap: str
    group: str
    topics: list[str]
    """In the order of the partitions' numbers."""
    sizes: list[int]
    """Partitions by topic."""
    costs: list[float]
    """Work of a record by topic."""
    members: list[int]
    """Numbers of the members that run in this process."""
    later: list[int]
    """Those among them that do not run from the beginning."""
    speeds: list[float]
    """Work a second by member, of all processes."""
    client: dict[str, Any]
    """Settings of the client; without a `mode` the group's protocol is among them."""
    mode: Mode | None
    """How the members follow levelwind; `published`: they are kafka-python's."""
    static: bool
    """Whether members of Kafka's group have a `group.instance.id`."""
    eager: bool = True
    """Whether members with a `published` plan give up everything in a rebalance."""
    java: bool = False
    """Whether the members are Kafka's own consumers in Java."""
    journal: str


@dataclass(slots=True)
class MemberJournal:
    """What one member did; the columns of handled records are indexed alike."""

    partition: array[int]
    offset: array[int]
    timestamp: array[int]
    """Milliseconds since the epoch, from the record."""
    handled_at: array[float]
    """Seconds since the epoch."""
    changes: list[tuple[float, int, int, int]]
    """Time, member, partition, and 1 for gained or 0 for lost."""
    late: float = 0.0
    """Seconds that the machine took from the member."""
    busy: float = 0.0
    received: dict[tuple[str, int], int] | None = None
    local_bytes: int = 0
    remote_bytes: int = 0

    @classmethod
    def empty(cls) -> MemberJournal:
        """A journal of nothing."""
        return cls(array("h"), array("q"), array("q"), array("d"), [], received={})


class PacedMember:
    """One member; each of its lives is a thread."""

    def __init__(
        self, crew: Crew, number: int, report: Any, java: JavaProcess | None = None
    ) -> None:
        self._crew, self.number, self._report, self._java = crew, number, report, java
        self.journal = MemberJournal.empty()
        begins = np.cumsum([0, *crew.sizes]).tolist()
        self._begin = dict(zip(crew.topics, begins, strict=False))
        self._cost = dict(zip(crew.topics, crew.costs, strict=True))
        self._rack = member_rack(number)
        self._rack_of_broker = {str(i + 1): rack for i, rack in enumerate(RACKS)}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._changed_at = 0.0
        self._frozen = False
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin a life."""
        self._stop = threading.Event()
        self.journal.received = {}
        self._thread = threading.Thread(target=self._run, args=(self._stop,), daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Request the end of the life."""
        self._stop.set()

    def freeze(self) -> None:
        """Let the process stand still until it gets a SIGCONT: that is no lateness."""
        self._frozen = True
        os.kill(os.getpid(), signal.SIGSTOP)
        self._changed_at = time.time()
        self._frozen = False

    def join(self) -> None:
        """Wait for the end of the life."""
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self, stop: threading.Event) -> None:
        try:
            consumer = self._open()
            try:
                self._work(consumer, stop)
            finally:
                consumer.close()
        except BaseException as error:
            self.failure = error
            self._report({"failure": repr(error), "member": self.number})
            raise

    def _open(self) -> Any:
        crew = self._crew
        name = f"member-{self.number}"
        config: dict[str, Any] = {
            "bootstrap.servers": crew.bootstrap,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "statistics.interval.ms": 1000,
            "stats_cb": self._on_statistics,
            **crew.client,
        }
        if crew.mode == "published":
            return PublishedConsumer(
                crew.bootstrap,
                crew.group,
                crew.topics,
                instance=name,
                rack=self._rack,
                eager=crew.eager,
                on_assign=self._gained,
                on_revoke=self._lost,
            )
        if crew.mode == "managed":
            return ManagedConsumer(
                config,
                group=crew.group,
                topics=crew.topics,
                instance=name,
                rack=self._rack,
                on_assign=self._gained,
                on_revoke=self._lost,
                on_lost=self._lost,
            )
        config |= {"group.id": crew.group, "client.rack": self._rack}
        if self._java is not None:
            return JavaConsumer(
                self._java,
                {name: value for name, value in config.items() if isinstance(value, str)},
                crew.topics,
                on_assign=self._gained,
                on_revoke=self._lost,
            )
        if crew.static:
            config["group.instance.id"] = name
        consumer = Consumer(config)
        consumer.subscribe(
            crew.topics, on_assign=self._gained, on_revoke=self._lost, on_lost=self._lost
        )
        return consumer

    def _work(self, consumer: Any, stop: threading.Event) -> None:
        journal = self.journal
        speed = self._crew.speeds[self.number]
        free_at = time.time()
        while not stop.is_set():
            message = consumer.poll(0)
            if message is None:
                message = consumer.poll(POLL_SECONDS)
                free_at = time.time()  # idle until now
                if message is None:
                    continue
            if message.error() is not None:
                continue
            free_at = max(free_at, self._changed_at)  # a rebalance is no lateness of the machine
            late = time.time() - free_at - SLACK_SECONDS
            if late > 0:
                journal.late += 0.0 if self._frozen else late
                free_at += late
            seconds_of_record = self._cost[message.topic()] / speed
            free_at += seconds_of_record
            journal.busy += seconds_of_record
            journal.partition.append(self._begin[message.topic()] + message.partition())
            journal.offset.append(message.offset())
            journal.timestamp.append(message.timestamp()[1])
            journal.handled_at.append(free_at)
            ahead = free_at - time.time()
            if ahead > SLEEP_SECONDS:
                time.sleep(ahead)

    def _gained(self, _consumer: Any, partitions: list[Any]) -> None:
        self._changed(partitions, 1)

    def _lost(self, _consumer: Any, partitions: list[Any]) -> None:
        self._changed(partitions, 0)

    def _changed(self, partitions: list[Any], gained: int) -> None:
        now = self._changed_at = time.time()
        numbers = [self._begin[p.topic] + p.partition for p in partitions]
        self.journal.changes += [(now, self.number, number, gained) for number in numbers]
        self._report({"member": self.number, "gained" if gained else "lost": numbers})

    def _on_statistics(self, text: str) -> None:
        """Count the bytes of records since the last statistics by the rack of their broker."""
        journal = self.journal
        seen = journal.received
        if seen is None:
            return
        for topic, figures in json.loads(text)["topics"].items():
            for number, partition in figures["partitions"].items():
                key = (topic, int(number))
                total = partition["rxbytes"]
                new = total - seen.get(key, 0)
                seen[key] = total
                rack = self._rack_of_broker.get(str(partition["broker"]))
                if rack is None:
                    rack = self._rack_of_broker.get(str(partition["leader"]))
                if rack == self._rack:
                    journal.local_bytes += new
                else:
                    journal.remote_bytes += new


def main() -> None:
    """Run the members with the settings of the command line until the input ends."""
    crew = Crew(**json.loads(sys.argv[1]))
    lock = threading.Lock()

    def report(event: dict[str, object]) -> None:
        with lock:
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()

    with tempfile.TemporaryDirectory() as classes:
        java = start_java(Path(classes)) if crew.java else None
        members = {number: PacedMember(crew, number, report, java) for number in crew.members}
        run(members, crew.later, report)
    write_journal(crew.journal, {number: member.journal for number, member in members.items()})


def run(members: Mapping[int, PacedMember], later: Sequence[int], report: Any) -> None:
    """Start the members, do what the input asks for, and end them with the input."""
    for number in members.keys() - later:
        members[number].start()
    threading.Thread(target=count_handled, args=(members, report), daemon=True).start()
    for line in sys.stdin:
        command, number = line.split()
        member = members[int(number)]
        match command:
            case "stop":
                member.ask_to_stop()
            case "start":
                member.join()
                member.start()
            case "freeze":
                member.freeze()
    for member in members.values():
        member.ask_to_stop()
    for member in members.values():
        member.join()


def count_handled(members: Mapping[int, PacedMember], report: Any) -> None:
    """Report the number of handled records again and again."""
    while True:
        time.sleep(COUNT_SECONDS)
        handled = sum(len(member.journal.handled_at) for member in members.values())
        report({"handled": handled})


def write_journal(path: str, by_member: Mapping[int, MemberJournal]) -> None:
    """Write what all members of a process did to one file, as NumPy's columns."""
    journals = [*by_member.values()]
    sizes = [len(journal.partition) for journal in journals]
    np.savez(
        path,
        member=np.repeat(np.array([*by_member], dtype=np.int16), sizes),
        partition=np.concatenate([np.array(j.partition, dtype=np.int16) for j in journals]),
        offset=np.concatenate([np.array(j.offset, dtype=np.int64) for j in journals]),
        timestamp=np.concatenate([np.array(j.timestamp, dtype=np.int64) for j in journals]),
        handled_at=np.concatenate([np.array(j.handled_at, dtype=np.float64) for j in journals]),
        changes=np.array(
            sorted(change for j in journals for change in j.changes), dtype=np.float64
        ).reshape(-1, 4),
        late=np.array([j.late for j in journals]),
        busy=np.array([j.busy for j in journals]),
        local_bytes=np.array([j.local_bytes for j in journals]),
        remote_bytes=np.array([j.remote_bytes for j in journals]),
    )


if __name__ == "__main__":
    main()

r"""A member of a group whose plans the daemon publishes, in a process that a test can kill.

    python -m levelwind_testing.processes.published_member SETTINGS

kafka-python's or aiokafka's consumer, unmodified but for `PublishedAssignor`. It commits a batch
after it has handled it. Its standard output says, a JSON object a line, what the member has after
each rebalance and whether it leads, which records it handles at what rate, and which commits were
refused. SIGUSR1 ends its throttle, SIGUSR2 makes it so slow that it stays at its next records.
"""

import json
import os
import signal
import sys
import threading
from collections import defaultdict
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from levelwind.assignors.clients.published_plans import PublishedPlans
from levelwind_testing.kafka.classic_members import AiokafkaMember, KafkaPythonMember
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.processes.module_process import start_module
from levelwind_testing.waiting import wait_until

STUCK = 1e-3
"""Records a second of a member that stays at its next records until its throttle ends."""
UNTHROTTLED = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSettings:
    """Settings of the program."""

    client: str
    """`kafka-python` or `aiokafka`."""
    bootstrap: str
    prefix: str
    """Of levelwind's topics."""
    group: str
    topic: str
    instance: str
    rack: str
    rate: float
    """Records a second."""


class PublishedProcess:
    """A running member, as its test sees it."""

    def __init__(self, settings: PublishedSettings) -> None:
        arguments = json.dumps(asdict(settings))
        self.instance = settings.instance
        self.child = start_module(__name__, arguments, grace=10)
        self.owned: set[int] = set()
        self.generation, self.leads, self.pid = -1, False, 0
        self.history: list[tuple[int, frozenset[int]]] = []
        """Generation and partitions after each change."""
        self.processed: dict[int, list[int]] = defaultdict(list)
        self.refusals: list[str] = []
        self.handled, self.rate = 0, settings.rate
        self.noise: list[str] = []
        """Lines of libraries, and the trace of a failure."""
        follow_json_lines(self.child.process, self._take, self.noise)

    def _take(self, event: dict[str, Any]) -> None:
        if "pid" in event:
            self.pid = event["pid"]
        elif "refused" in event:
            self.refusals.append(event["refused"])
        elif "offsets" in event:
            self.processed[event["partition"]] += event["offsets"]
            self.handled += len(event["offsets"])
            self.rate = event["rate"]
        else:
            self.generation, self.leads = event["generation"], event["leads"]
            self.owned = set(event["owned"])
            self.history.append((self.generation, frozenset(self.owned)))

    def speed_up(self) -> None:
        """End the member's throttle."""
        os.kill(self.pid, signal.SIGUSR1)

    def get_stuck(self) -> None:
        """Let the member stay at its next records, and wait until it has them in hand."""
        os.kill(self.pid, signal.SIGUSR2)
        wait_until("records in hand", lambda: self.rate == STUCK, shown=lambda: self.noise[-15:])

    def pause(self) -> None:
        """Stop the process for a while (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a process that was stopped go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process without notice."""
        os.kill(self.pid, signal.SIGKILL)
        self.child.kill()
        self.owned = set()

    def stop(self) -> None:
        """End the process in good order."""
        self.child.stop()


class Reporting:
    """A member that writes what it does to standard output."""

    def __init__(self, *arguments, rate, **config):
        super().__init__(*arguments, **config)
        self.rate = rate
        self.unthrottled = threading.Event()

    def see(self, partitions, member_id, generation):
        changes = len(self.changes)
        super().see(partitions, member_id, generation)
        if len(self.changes) > changes:
            leads = any(assignor._leads for assignor in self.assignors)
            owned = sorted(number for _, number in self.held)
            report(generation=generation, owned=owned, leads=leads)

    def handle(self, partition, offsets):
        rate = self.rate
        report(partition=partition, offsets=offsets, rate=rate)
        self.unthrottled.wait(len(offsets) / rate)

    def speed_up(self, *_):
        self.rate = UNTHROTTLED
        self.unthrottled.set()

    def get_stuck(self, *_):
        self.rate = STUCK

    def end(self, *_):
        self.speed_up()
        self.stopping.set()

    def refused(self, error):
        report(refused=type(error).__name__)


class ReportingKafkaPython(Reporting, KafkaPythonMember):
    pass


class ReportingAiokafka(Reporting, AiokafkaMember):
    pass


CLIENTS = {
    "kafka-python": ("levelwind.clients.kafka_python", ReportingKafkaPython),
    "aiokafka": ("levelwind.clients.aiokafka", ReportingAiokafka),
}


def report(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(settings: PublishedSettings) -> None:
    report(pid=os.getpid())
    module, kind = CLIENTS[settings.client]
    plans = PublishedPlans(
        {"bootstrap.servers": settings.bootstrap, "log_level": 0},
        settings.group,
        prefix=settings.prefix,
    )
    assignor = import_module(module).PublishedAssignor(
        plans=plans, instance=settings.instance, rack=settings.rack
    )
    member = kind(
        settings.bootstrap,
        settings.group,
        [settings.topic],
        assignors=[assignor],
        client_rack=settings.rack,
        group_instance_id=settings.instance,
        enable_auto_commit=False,
        max_poll_records=20,
        session_timeout_ms=6_000,
        rate=settings.rate,
    )
    member.assignors = [assignor]
    signal.signal(signal.SIGUSR1, member.speed_up)
    signal.signal(signal.SIGUSR2, member.get_stuck)
    signal.signal(signal.SIGTERM, member.end)
    member.start()
    while member.is_alive():
        member.join(0.2)
    plans.close()
    if member.failure is not None:
        raise member.failure


if __name__ == "__main__":
    main(PublishedSettings(**json.loads(sys.argv[1])))

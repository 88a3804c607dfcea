r"""A consumer that follows plans, in a process of its own, so that a test can kill it.

    python -m levelwind_testing.processes.member_process \
        BOOTSTRAP PREFIX GROUP TOPIC INSTANCE FACTOR

It writes what it owns to its standard output, a JSON list of partitions a line. After SIGUSR1 it
gives up no partition until SIGUSR2, as a member whose application still works on a record.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from levelwind.assignors.handover.timers import Timers
from levelwind.clients.confluent import ManagedConsumer
from levelwind_testing.processes.module_process import start_module
from levelwind_testing.waiting import wait_until

HOLDS_ON = "holds on"
"""Line of a member that gives up no partition from now on."""


class MemberProcess:
    """A running consumer; `owned` is what it last reported to own."""

    def __init__(
        self, bootstrap: str, prefix: str, group: str, topic: str, instance: str, factor: float
    ) -> None:
        arguments = [bootstrap, prefix, group, topic, instance, str(factor)]
        self.child = start_module(__name__, *arguments, grace=10)
        self.owned: set[int] = set()
        self._holds_on = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self.child.process.stdout:
            if line.startswith(b"["):
                self.owned = set(json.loads(line))
            elif line.decode().strip() == HOLDS_ON:
                self._holds_on.set()

    def hold_on(self) -> None:
        """Let a member that owns partitions give up none until `let_go`."""
        self._send(signal.SIGUSR1)
        wait_until("a member that holds on", self._holds_on.is_set)

    def let_go(self) -> None:
        """Let the member give up what it was asked for, and what it will be."""
        self._send(signal.SIGUSR2)

    def _send(self, number: int) -> None:
        guard = self.child.process.pid
        os.kill(int(Path(f"/proc/{guard}/task/{guard}/children").read_text().split()[0]), number)

    def kill(self) -> None:
        self.child.kill()
        self.owned = set()

    def stop(self) -> None:
        self.child.stop()
        self.owned = set()


def main(bootstrap: str, prefix: str, group: str, topic: str, instance: str, factor: str) -> None:
    owned: set[int] = set()
    may_give_up = threading.Event()
    may_give_up.set()

    def hold_on(*_: object) -> None:
        may_give_up.clear()
        sys.stdout.write(HOLDS_ON + "\n")
        sys.stdout.flush()

    signal.signal(signal.SIGUSR1, hold_on)
    signal.signal(signal.SIGUSR2, lambda *_: may_give_up.set())

    def revoked(consumer: object, partitions: list) -> None:  # type: ignore[type-arg]
        may_give_up.wait()
        lost(consumer, partitions)

    def gained(_: object, partitions: list) -> None:  # type: ignore[type-arg]
        owned.update(partition.partition for partition in partitions)
        report()

    def lost(_: object, partitions: list) -> None:  # type: ignore[type-arg]
        owned.difference_update(partition.partition for partition in partitions)
        report()

    def report() -> None:
        sys.stdout.write(json.dumps(sorted(owned)) + "\n")
        sys.stdout.flush()

    config = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = ManagedConsumer(
        config,
        group=group,
        topics=[topic],
        instance=instance,
        prefix=prefix,
        timers=Timers().scaled(float(factor)),
        on_assign=gained,
        on_revoke=revoked,
        on_lost=lost,
    )
    with consumer:
        while True:
            consumer.consume(100, 0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])

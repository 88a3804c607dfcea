r"""A consumer that follows plans, in a process of its own, so that a test can kill it.

    python -m levelwind_testing.processes.member_process \
        BOOTSTRAP PREFIX GROUP TOPIC INSTANCE FACTOR

It writes what it owns to its standard output, a JSON list of partitions a line.
"""

import json
import sys
import threading

from assignors.clients.confluent import ManagedConsumer
from assignors.handover.timers import Timers
from levelwind_testing.processes.module_process import start_module


class MemberProcess:
    """A running consumer; `owned` is what it last reported to own."""

    def __init__(
        self, bootstrap: str, prefix: str, group: str, topic: str, instance: str, factor: float
    ) -> None:
        arguments = [bootstrap, prefix, group, topic, instance, str(factor)]
        self.child = start_module(__name__, *arguments, grace=10)
        self.owned: set[int] = set()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self.child.process.stdout:
            if line.startswith(b"["):
                self.owned = set(json.loads(line))

    def kill(self) -> None:
        self.child.kill()
        self.owned = set()

    def stop(self) -> None:
        self.child.stop()
        self.owned = set()


def main(bootstrap: str, prefix: str, group: str, topic: str, instance: str, factor: str) -> None:
    owned: set[int] = set()

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
        on_revoke=lost,
        on_lost=lost,
    )
    with consumer:
        while True:
            consumer.consume(100, 0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])

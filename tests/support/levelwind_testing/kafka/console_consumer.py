"""`kafka-console-consumer.sh` of the brokers' version: a Java consumer that nobody can change."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING

from levelwind.deploy import guard
from levelwind_testing.kafka.kafka_tool import kafka_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CLIENT_ID = "console-consumer"


class ConsoleConsumer:
    """A running console consumer; `read` grows with partition and value of what it prints."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, properties: Mapping[str, str]
    ) -> None:
        """Start the tool.

        Args:
            bootstrap: address of the brokers.
            group: id of the group.
            topic: topic that it reads from its beginning.
            properties: settings of its consumer.
        """
        settings = {"client.id": CLIENT_ID, "metadata.max.age.ms": "1000", **properties}
        command = kafka_tool(
            MAIN,
            bootstrap,
            *("--group", group, "--topic", topic),
            "--from-beginning",
            *("--formatter-property", "print.partition=true"),
            *(
                w
                for name, text in settings.items()
                for w in ("--command-property", f"{name}={text}")
            ),
        )
        self.child = guard.start(command, output=subprocess.PIPE, grace=10)
        self.read: list[tuple[int, str]] = []
        self.output: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.child.process.stdout is not None
        for line in self.child.process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            head, _, value = text.partition("\t")
            if head.startswith("Partition:"):
                self.read.append((int(head.removeprefix("Partition:")), value))
            else:
                self.output.append(text)

    def stop(self) -> None:
        """End the tool in good order: it leaves the group."""
        self.child.stop()
        self._thread.join(5)

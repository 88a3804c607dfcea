r"""A managed consumer in a process of its own that reads at a limited speed.

    python -m levelwind_testing.processes.paced_consumer BOOTSTRAP PREFIX GROUP TOPIC INSTANCE RATE

Its standard output says, a JSON object a line, how many records it has handled. SIGTERM ends it in
good order.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

from levelwind.clients.confluent import ManagedConsumer
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.processes.module_process import start_module

REPORT_EVERY = 25
"""Records between two reports; with nothing to read there is one after each wait."""
COMMIT_MS = 500


class PacedConsumer:
    """A running consumer, as its test sees it."""

    def __init__(
        self, bootstrap: str, prefix: str, group: str, topic: str, instance: str, rate: float
    ) -> None:
        self.instance = instance
        self.handled = 0
        self.noise: list[str] = []
        arguments = (bootstrap, prefix, group, topic, instance, str(rate))
        self.child = start_module(__name__, *arguments, grace=20)
        self._thread = follow_json_lines(self.child.process, self._take, self.noise)

    def _take(self, event: dict[str, Any]) -> None:
        self.handled = event["handled"]

    def stop(self) -> int:
        """End it in good order; return its exit code."""
        code = self.child.stop()
        self._thread.join(5)
        return code


def main(bootstrap: str, prefix: str, group: str, topic: str, instance: str, rate: float) -> None:
    """Read until SIGTERM, one record after the other, at most `rate` a second."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    handled, free_at = 0, time.monotonic()
    config = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": COMMIT_MS,
        "log_level": 0,
    }
    with ManagedConsumer(
        config, group=group, topics=[topic], instance=instance, prefix=prefix
    ) as consumer:
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is None or handled % REPORT_EVERY == 0:
                print(json.dumps({"handled": handled}), flush=True)
            if message is None or message.error() is not None:
                continue
            handled += 1
            free_at = max(free_at, time.monotonic() - 0.05) + 1 / rate
            ended.wait(max(0.0, free_at - time.monotonic()))
    print(json.dumps({"handled": handled}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:6], float(sys.argv[6]))

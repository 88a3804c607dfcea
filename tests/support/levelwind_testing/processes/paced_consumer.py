r"""A managed consumer in a process of its own that reads at a limited speed.

    python -m levelwind_testing.processes.paced_consumer BOOTSTRAP GROUP TOPIC INSTANCE RATE

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

from assignors.clients.confluent import ManagedConsumer
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.processes.module_process import start_module

REPORT_SECONDS = 0.5
COMMIT_MS = 500


class PacedConsumer:
    """A running consumer, as its test sees it."""

    def __init__(self, bootstrap: str, group: str, topic: str, instance: str, rate: float) -> None:
        self.instance = instance
        self.handled = 0
        self.noise: list[str] = []
        self.child = start_module(__name__, bootstrap, group, topic, instance, str(rate), grace=20)
        self._thread = follow_json_lines(self.child.process, self._take, self.noise)

    def _take(self, event: dict[str, Any]) -> None:
        self.handled = event["handled"]

    def stop(self) -> int:
        """End it in good order; return its exit code."""
        code = self.child.stop()
        self._thread.join(5)
        return code


def main(bootstrap: str, group: str, topic: str, instance: str, rate: float) -> None:
    """Read until SIGTERM, one record after the other, at most `rate` a second."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    handled, reported_at, free_at = 0, 0.0, time.monotonic()
    config = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": COMMIT_MS,
        "log_level": 0,
    }
    with ManagedConsumer(config, group=group, topics=[topic], instance=instance) as consumer:
        while not ended.is_set():
            message = consumer.poll(0.1)
            now = time.monotonic()
            if now - reported_at >= REPORT_SECONDS:
                reported_at = now
                print(json.dumps({"handled": handled}), flush=True)
            if message is None or message.error() is not None:
                continue
            handled += 1
            free_at = max(free_at, now - 0.05) + 1 / rate
            time.sleep(max(0.0, free_at - time.monotonic()))
    print(json.dumps({"handled": handled}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:5], float(sys.argv[5]))

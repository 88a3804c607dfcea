# ruff: noqa: INP001 - a program, no package
"""A consumer that follows levelwind's plans, configured by its environment; ends well on SIGTERM.

| variable | meaning |
|---|---|
| BOOTSTRAP | the brokers |
| GROUP, TOPICS | the group, and its topics with commas between them |
| INSTANCE | the member's name; the same name after a restart gets its partitions back |
| RACK | the rack that it reads from, where there is one |
| PREFIX | the setting `prefix` of the daemon, where it is not `levelwind.` |
| RECORDS_PER_SECOND | the speed of its work; without it, as fast as it can |
| CLIENT_FILE | a JSON file with more settings of librdkafka, as for TLS and SASL |
"""

import json
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from levelwind.clients.confluent import ManagedConsumer

log = logging.getLogger("consumer")


def main() -> int:
    """Consume until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: stopping.append(got))
    rate = float(os.environ.get("RECORDS_PER_SECOND") or 0)
    with ManagedConsumer(
        client_settings(),
        group=os.environ["GROUP"],
        topics=os.environ["TOPICS"].split(","),
        instance=os.environ.get("INSTANCE") or socket.gethostname(),
        rack=os.environ.get("RACK") or None,
        prefix=os.environ.get("PREFIX") or "levelwind.",
        on_assign=lambda _, partitions: log.info("assigned %s", named(partitions)),
        on_revoke=lambda _, partitions: log.info("revoked %s", named(partitions)),
        on_lost=lambda _, partitions: log.warning("lost %s", named(partitions)),
    ) as consumer:
        while not stopping:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None and rate:
                time.sleep(1 / rate)  # the work
    return 0


def client_settings() -> dict[str, Any]:
    """Settings of librdkafka: what every consumer has, and those of the file."""
    settings = {"bootstrap.servers": os.environ["BOOTSTRAP"], "auto.offset.reset": "earliest"}
    file = os.environ.get("CLIENT_FILE")
    return settings | (json.loads(Path(file).read_text(encoding="utf-8")) if file else {})


def named(partitions: list[Any]) -> str:
    """Write partitions as `TOPIC/N`, with commas."""
    return ", ".join(f"{each.topic}/{each.partition}" for each in partitions)


if __name__ == "__main__":
    sys.exit(main())

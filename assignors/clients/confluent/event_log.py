"""Log lines of a managed consumer: one line an event, with its fields."""

from __future__ import annotations

import logging

log = logging.getLogger("assignors.clients.confluent")


def log_event(level: int, event: str, **fields: object) -> None:
    """Log one event as a line: its name, then key=value pairs.

    The same fields are in `extra["levelwind"]`, for applications that format records themselves.
    """
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    log.log(level, "%s %s", event, text, extra={"levelwind": {"event": event, **fields}})

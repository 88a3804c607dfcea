"""Log lines of a managed consumer: one line an event, with its fields."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from levelwind.assignors.boot_clock import boot_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger("levelwind.clients.confluent")


def log_event(level: int, event: str, **fields: object) -> None:
    """Log one event as a line: its name, then key=value pairs.

    The same fields are in `extra["levelwind"]`, for applications that format records themselves.
    """
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    log.log(level, "%s %s", event, text, extra={"levelwind": {"event": event, **fields}})


class Reminders:
    """Log lines about waits, each kind of which is repeated only after an interval."""

    def __init__(
        self, identity: Callable[[], Mapping[str, object]], interval: float, first_after: float
    ) -> None:
        """Repeat a line after `interval` seconds, in the name of `identity()`.

        Warnings wait for `first_after` seconds from now on, since most waits end soon; what is
        wrong is said at once.
        """
        self._identity = identity
        self._interval = interval
        self._quiet_until = boot_seconds() + first_after
        self._due: dict[str, float] = {}

    def log(self, level: int, event: str, **fields: object) -> None:
        """Log an event unless it was logged within the interval."""
        now = boot_seconds()
        if now < self._due.get(event, self._quiet_until if level < logging.ERROR else now):
            return
        self._due[event] = now + self._interval
        log_event(level, event, **self._identity(), **fields)

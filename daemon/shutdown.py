"""Graceful shutdown on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


CHECK_SECONDS = 0.1
"""Longest time for which a wait for several events misses one of them."""


class StopEvent(threading.Event):
    """Set by SIGTERM and SIGINT."""

    polled = False
    """Whether the program checks the event regularly.

    Until it does, the first signal also raises KeyboardInterrupt: a program that is starting checks
    no event.
    """


@contextmanager
def stop_on_signals() -> Iterator[StopEvent]:
    """Set an event on SIGTERM and SIGINT; restore the previous handlers at the end."""
    stop = StopEvent()

    def handle(*_: object) -> None:
        stop.set()
        if not stop.polled:
            stop.polled = True  # a second signal does not interrupt the clean-up of the first
            raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class AnyEvent:
    """Several events as one, which is set while any of them is."""

    def __init__(self, *events: threading.Event) -> None:
        self._events = events

    def is_set(self) -> bool:
        """Whether any of the events is set."""
        return any(event.is_set() for event in self._events)

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until an event is set; return whether one is."""
        deadline = time.monotonic() + timeout
        while not self.is_set() and (left := deadline - time.monotonic()) > 0:
            self._events[0].wait(min(left, CHECK_SECONDS))
        return self.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait like `wait`, as a pause between two attempts."""
        self.wait(seconds)

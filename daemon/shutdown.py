"""Graceful shutdown on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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

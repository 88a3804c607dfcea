"""How a command that runs until it is told to stop is told: SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StopEvent(threading.Event):
    """Set by SIGTERM and SIGINT. Until `polled`, these also raise KeyboardInterrupt: who starts up looks at no flag."""

    polled = False


@contextmanager
def stop_on_signals() -> Iterator[StopEvent]:
    """Let SIGTERM and SIGINT ask for the end."""
    stop = StopEvent()

    def note(*_: object) -> None:
        stop.set()
        if not stop.polled:
            stop.polled = True  # once: what is under way is then undone in peace
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

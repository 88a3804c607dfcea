"""The mailbox of the control: a bounded queue in which an event replaces an older one of its key.

Every record is a state, so that only the newest unread record of a key matters. The newer event
takes the older one's position in the queue, but a mark moves to the end. Many threads write, one
reads.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Events by key, the oldest key first; a writer waits while the mailbox is full."""

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._events: dict[Hashable, T] = {}
        self._lock = threading.RLock()  # a handler of signals may post, too
        self._changed = threading.Condition(self._lock)
        self._closed = False

    def put(self, key: Hashable, event: T, *, last: bool = False) -> None:
        """Post an event, which replaces an unread event of the same key.

        Args:
            key: the key of the event.
            event: the event.
            last: whether the event goes to the end of the queue instead of the older one's place:
                for a mark that says that all events before it have been handled.

        Waits while the mailbox is full, unless the key is in it. A closed mailbox drops the event.
        """
        with self._lock:
            while (
                len(self._events) >= self._capacity and key not in self._events and not self._closed
            ):
                self._changed.wait()
            if self._closed:
                return
            if not self._events:  # or else nobody waits for an event
                self._changed.notify_all()
            if last:
                self._events.pop(key, None)
            self._events[key] = event

    @property
    def waiting(self) -> bool:
        """Whether there is an unread event."""
        return bool(self._events)

    def take(self, timeout: float) -> list[T]:
        """Take all events out, waiting up to `timeout` seconds for the first; empty if none."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._events and not self._closed:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            taken = list(self._events.values())
            self._events.clear()
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """Release all waiting writers and readers; the mailbox accepts no event any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

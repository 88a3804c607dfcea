"""The control's one mailbox: bounded, and no longer than there are things to know.

Every record is a state, so a newer one replaces an older one of the same key that has not been read yet; its place in the
queue stays. Many writers, one reader.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Events by key, oldest key first; a writer waits while it is full."""

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._events: OrderedDict[Hashable, T] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, key: Hashable, event: T) -> None:
        """Post an event; one of the same key that is still unread is replaced. Dropped once the mailbox is closed."""
        with self._changed:
            while (
                key not in self._events and len(self._events) >= self._capacity and not self._closed
            ):
                self._changed.wait()
            if not self._closed:
                self._events[key] = event
                self._changed.notify_all()

    @property
    def waiting(self) -> bool:
        """Whether anything is unread."""
        return bool(self._events)

    def take(self, timeout: float) -> list[T]:
        """Return all that has come, waiting for the first up to `timeout` seconds; empty when none came."""
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
        """Let every waiting writer and reader go; nothing is accepted any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

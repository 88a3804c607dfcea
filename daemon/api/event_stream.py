"""Server-sent events: what changed since the last one, at most once a second.

A stream begins with everything, so that a reader that connects again needs nothing of before. The
pause between two events grows with the cost of the last one, so that an open page seldom takes more
than a tenth of the thread's time.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from levelwind.daemon.api.views.encoded_documents import encoded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from levelwind.daemon.api.views.live_view import LiveView

INTERVAL_SECONDS = 1.0
"""Shortest time between two events of a stream."""
COST_SHARE = 0.1
"""Largest share of the time that is spent on what the events hold."""
KEEP_ALIVE_SECONDS = 15.0
"""Longest time without a byte: proxies close silent connections."""
MOST_PAUSE_SECONDS = 15.0
"""Longest pause between two looks for changes, however much the last ones cost."""
MOST_STREAMS = 64
"""Streams that are open at the same time; further ones are refused."""


class EventStreams:
    """The open streams; the event loop's thread calls all methods."""

    def __init__(
        self,
        view: LiveView,
        status: Callable[[], dict[str, object]],
        on_watched: Callable[[], object] = lambda: None,
    ) -> None:
        """Stream the changes of a view, and of the daemon's status.

        Args:
            view: the view.
            status: returns the daemon's status.
            on_watched: called again and again while a stream is open.
        """
        self._view = view
        self._status = status
        self._on_watched = on_watched
        self.open = 0
        """Streams that are open now."""
        self._stopping = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether no further stream may be opened."""
        return self.open >= MOST_STREAMS

    def stop(self) -> None:
        """End all streams."""
        self._stopping.set()

    async def stream(self, interval: float = INTERVAL_SECONDS) -> AsyncIterator[bytes]:
        """Yield events until the reader leaves or the server stops."""
        self.open += 1
        try:
            reader = _ReaderState(self._view, self._status)
            due = written_at = time.monotonic()
            while not self._stopping.is_set():
                self._on_watched()
                begun = time.monotonic()
                if begun >= due:
                    events = [encoded_event(*change) for change in reader.changes()]
                    # The events' cost alone: a write may wait long for a reader that stands still.
                    spent = time.monotonic() - begun
                    for event in events:
                        yield event
                        written_at = time.monotonic()
                    due = time.monotonic() + min(spent / COST_SHARE, MOST_PAUSE_SECONDS)
                if time.monotonic() - written_at >= KEEP_ALIVE_SECONDS:
                    yield b": still open\n\n"
                    written_at = time.monotonic()
                await self._pause(interval)
        finally:
            self.open -= 1

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return


class _ReaderState:
    """What one reader has been sent."""

    def __init__(self, view: LiveView, status: Callable[[], dict[str, object]]) -> None:
        self._view = view
        self._status = status
        self._version = -1
        self._sent: dict[str, dict[str, object]] = {}
        self._sent_status: dict[str, object] = {}

    def changes(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the events since the last call."""
        status = self._status()
        if status != self._sent_status:
            self._sent_status = status
            yield "status", status
        version = self._view.refresh()
        if version == self._version:
            return
        first = self._version < 0
        changed = list(self._view.groups) if first else self._view.changed_since(self._version)
        ended = [name for name in self._view.ended_since(self._version) if name in self._sent]
        self._version = version
        lines = []
        for name in changed:
            summary = self._view.summary(name)
            # A sample may say the same as the one before: then nothing is sent.
            if self._sent.get(name) != summary:
                lines.append(summary)
                self._sent[name] = summary
        for name in ended:
            del self._sent[name]
        yield (
            "groups",
            {
                "version": version,
                "cluster_version": self._view.cluster_version,
                "plans_version": self._view.plans_version,
                "controls_version": self._view.controls_version,
                "all": first,
                "groups": lines,
                "ended": ended,
            },
        )


def encoded_event(event: str, document: dict[str, Any]) -> bytes:
    """Return an event in the format of `text/event-stream`."""
    return f"event: {event}\ndata: {encoded(document)}\n\n".encode()

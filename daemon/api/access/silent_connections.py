"""The end of connections that ask for nothing, or never say all of what they ask.

uvicorn closes a connection that is idle after an answer, and waits for the first request of one,
for the rest of a head, and for the rest of a body, for ever. Peers that are gone without a word, as
behind a balancer that forgets connections, would add up until the process has no room for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio


class IdleClosingProtocol(H11Protocol):
    """A connection that is closed if nothing comes of a request within the time between two."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._await_bytes()

    def handle_events(self) -> None:
        """Act on what has come, and wait on for a request that it does not complete."""
        super().handle_events()
        cycle = self.cycle
        lacking = cycle is None or cycle.response_complete or cycle.more_body
        if lacking and not self.transport.is_closing():
            self._await_bytes()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, whatever the request lacks: its handler learns of the end."""
        self.transport.close()

    def _await_bytes(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

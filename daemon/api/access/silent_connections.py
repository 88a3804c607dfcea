"""The end of connections that ask for nothing.

uvicorn closes a connection that is idle after an answer, and waits for the first request of one, or
for the rest of a request's head, for ever. Peers that are gone without a word, as behind a balancer
that forgets connections, would add up until no further request is served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio


class IdleClosingProtocol(H11Protocol):
    """A connection that is closed if no request has come within the time between two."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and wait on for a request whose head they do not end."""
        super().data_received(data)
        answered = self.cycle is None or self.cycle.response_complete
        if answered and not self.transport.is_closing():
            self._await_request()

    def _await_request(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

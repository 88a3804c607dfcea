"""Connections to all brokers, which answer questions about the groups that they coordinate.

Requests are paced over all brokers together. A broker that cannot be asked costs its groups alone.
All methods belong to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelwind.daemon.wire.group_requests import Request
    from levelwind.daemon.wire.poll_requests import Broker
    from levelwind.daemon.wire.shared_connections import SharedConnections


@dataclass(slots=True)
class RequestPace:
    """Times of requests, with so many a second at most."""

    per_second: float
    sent: int = 0
    """Requests so far."""
    _next_at: float = 0.0

    def wait(self, now: float) -> float:
        """Seconds until a request may be sent, which takes its place."""
        self.sent += 1
        at = max(now, self._next_at)
        self._next_at = at + 1 / self.per_second
        return at - now


class Coordinators:
    """All brokers, each asked at its turn."""

    def __init__(self, connections: SharedConnections, pace: RequestPace) -> None:
        """Begin.

        Args:
            connections: those to the brokers.
            pace: when requests may be sent.
        """
        self._connections = connections
        self.pace = pace

    async def brokers(self) -> dict[int, Broker]:
        """Return the addresses of all brokers, by number.

        Raises:
            ConnectionFailedError: no broker answers.
        """
        await self._wait()
        return await self._connections.brokers()

    async def versions(self, address: tuple[str, int]) -> dict[int, tuple[int, int]]:
        """Return the oldest and newest version of requests that a broker takes, by key.

        Raises:
            ConnectionFailedError: it cannot be reached.
        """
        return (await self._connections.to(address)).versions

    async def ask(self, address: tuple[str, int], request: Request) -> Any:
        """Send a request to a broker and return its response.

        Raises:
            ConnectionFailedError: it cannot be reached, or does not answer in time.
        """
        await self._wait()
        return await self._connections.ask(address, request)

    def close(self) -> None:
        """End all connections."""
        self._connections.close()

    async def _wait(self) -> None:
        await asyncio.sleep(self.pace.wait(asyncio.get_running_loop().time()))

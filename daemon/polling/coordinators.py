"""Connections to all brokers, which answer questions about the groups that they coordinate.

Requests are paced over all brokers together. A broker that cannot be asked costs its groups alone.
All methods belong to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from levelwind.daemon.wire.broker_connection import ConnectionFailedError, open_connection
from levelwind.daemon.wire.poll_requests import BrokersRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.daemon.wire.broker_connection import BrokerConnection
    from levelwind.daemon.wire.client_security import ClientSecurity
    from levelwind.daemon.wire.group_requests import Request
    from levelwind.daemon.wire.poll_requests import Broker

CLIENT_ID = "levelwind-commits"
"""Client id of the connections."""

ANSWER_SECONDS = 10.0
"""Longest time for a connection to be opened, and for an answer."""


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
    """One connection to each broker."""

    def __init__(
        self, bootstrap: Sequence[tuple[str, int]], security: ClientSecurity, pace: RequestPace
    ) -> None:
        """Begin without any.

        Args:
            bootstrap: hosts and ports of the brokers that are asked for the others.
            security: the security of the connections.
            pace: when requests may be sent.
        """
        self._bootstrap = tuple(bootstrap)
        self._security = security
        self.pace = pace
        self._connections: dict[tuple[str, int], BrokerConnection] = {}

    async def brokers(self) -> dict[int, Broker]:
        """Return the addresses of all brokers, by number.

        Raises:
            ConnectionFailedError: no broker answers.
        """
        failed = ConnectionFailedError("no broker is configured")
        # One that has answered before answers again, even where no name of the settings does.
        for address in dict.fromkeys([*self._connections, *self._bootstrap]):
            try:
                found: dict[int, Broker] = await self.ask(address, BrokersRequest())
            except ConnectionFailedError as error:
                failed = error
            else:
                self._forget_all_but({*found.values(), *self._bootstrap})
                return found
        raise failed

    async def versions(self, address: tuple[str, int]) -> dict[int, tuple[int, int]]:
        """Return the oldest and newest version of requests that a broker takes, by key.

        Raises:
            ConnectionFailedError: it cannot be reached.
        """
        return (await self._connection(address)).versions

    async def ask(self, address: tuple[str, int], request: Request) -> Any:
        """Send a request to a broker and return its response.

        Raises:
            ConnectionFailedError: it cannot be reached, or does not answer in time.
        """
        host, port = address
        connection = await self._connection(address)
        await asyncio.sleep(self.pace.wait(asyncio.get_running_loop().time()))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await connection.ask(request)
        except (TimeoutError, ConnectionFailedError) as error:
            self._close(address)
            reason = f"{host}:{port}: {error or 'no answer in time'}"
            raise ConnectionFailedError(reason) from error

    def close(self) -> None:
        """End all connections."""
        for address in [*self._connections]:
            self._close(address)

    async def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        if (connection := self._connections.get(address)) is None:
            connection = await open_connection(*address, self._security, CLIENT_ID, ANSWER_SECONDS)
            self._connections[address] = connection
            connection.on_lost = lambda _: self._lose(address, connection)
        return connection

    def _lose(self, address: tuple[str, int], connection: BrokerConnection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]

    def _close(self, address: tuple[str, int]) -> None:
        if (connection := self._connections.pop(address, None)) is not None:
            connection.close()

    def _forget_all_but(self, addresses: set[tuple[str, int]]) -> None:
        for address in self._connections.keys() - addresses:
            self._close(address)

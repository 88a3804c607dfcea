"""Connection to one broker: requests with their responses, in the order in which they were sent.

All methods belong to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from levelwind.assignors.protocol.kafka.types import Reader
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.group_requests import (
    NO_ERROR,
    ApiVersionsRequest,
    CoordinatorResponse,
    FindCoordinatorRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    encode_request,
    response_fields,
)
from levelwind.daemon.wire.sasl_exchange import SaslError, exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from levelwind.daemon.wire.client_security import ClientSecurity, Credentials
    from levelwind.daemon.wire.group_requests import Request

MOST_RESPONSE_BYTES = 2**28
"""Most bytes of one response: more is taken for bytes that are no response."""

DEFAULT_PORT = 9092
"""Port of a broker whose address names none."""

OPEN_SECONDS = 10.0
"""Longest time for a connection to be opened, with TLS and SASL, unless a caller says another."""

NEXT_BROKER_SECONDS = 1.0
"""Silence of a broker after which the next one is asked, too."""

KEEPALIVE_PROBES = 3
"""Unanswered questions of the system whether the host is still there, after which it is not."""


class ConnectionFailedError(Exception):
    """The broker cannot be reached, or refused the client; the text says why."""


class BrokerConnection(asyncio.Protocol):
    """One connection; `open_connection` makes it."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._asked: deque[tuple[int, Request, Callable[[Any], None]]] = deque()
        self._correlation = 0
        self.versions: dict[int, tuple[int, int]] = {}
        """Oldest and newest version that the broker takes, by key of the request."""
        self.on_lost: Callable[[str], None] = lambda _: None
        """Called once with the reason when the connection ends without `close`."""

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand on each response that is whole."""
        self._buffer += data
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big", signed=True)
            if not 4 <= size <= MOST_RESPONSE_BYTES:
                self._fail(f"the broker sent a response of {size} bytes")
                return
            if len(self._buffer) < 4 + size:
                return
            frame = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            self._take(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that the connection has ended."""
        self._end(str(exc) if exc else "the broker closed the connection")

    # Requests.

    @property
    def awaits(self) -> tuple[Request, ...]:
        """Requests without a response yet."""
        return tuple(request for _, request, _ in self._asked)

    def send(self, request: Request, call: Callable[[Any], None]) -> None:
        """Send a request; call back with its response, or never if the connection ends."""
        if self._transport is None:
            return
        self._correlation += 1
        self._asked.append((self._correlation, request, call))
        self._transport.write(encode_request(request, self._correlation, self._client_id))

    async def ask(self, request: Request) -> Any:
        """Send a request and wait for its response.

        Raises:
            ConnectionFailedError: the connection ends before.
        """
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        before, self.on_lost = self.on_lost, lambda reason: _fail_future(answered, reason)
        try:
            self.send(request, lambda response: _set_result(answered, response))
            if self._transport is None:
                raise ConnectionFailedError("the connection has ended")
            return await answered
        finally:
            self.on_lost = before

    def close(self) -> None:
        """End the connection when what was sent has gone out."""
        self.on_lost = lambda _: None
        self._asked.clear()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _take(self, frame: bytes) -> None:
        if not self._asked:
            return  # closed meanwhile
        expected, request, call = self._asked[0]
        fields = Reader(frame)
        try:
            if (correlation := fields.int32()) != expected:
                self._fail(f"the broker answered request {correlation} instead of {expected}")
                return
            response = request.read(response_fields(request, fields))
        except WireError as error:
            name = type(request).__name__
            self._fail(f"the broker's response to {name} cannot be read: {error}")
            return
        self._asked.popleft()
        call(response)

    def _fail(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        self._transport = None
        self._asked.clear()
        lost, self.on_lost = self.on_lost, lambda _: None
        lost(reason)


async def open_connection(
    host: str, port: int, security: ClientSecurity, client_id: str, within: float = OPEN_SECONDS
) -> BrokerConnection:
    """Connect to a broker, encrypt and authenticate as the settings say.

    Args:
        host: host of the broker.
        port: its port.
        security: the security of the connection.
        client_id: client id of the connection.
        within: longest time for that in seconds, and about the time after which the connection to
            a host that has vanished is lost: a member may wait for minutes until all have joined.

    Raises:
        ConnectionFailedError: the broker cannot be reached, or refused the client.
    """
    address = f"{host}:{port}"
    connection: BrokerConnection | None = None
    try:
        async with asyncio.timeout(within):
            transport, connection = await asyncio.get_running_loop().create_connection(
                lambda: BrokerConnection(client_id), host, port, ssl=security.tls
            )
            _watch_host(transport.get_extra_info("socket"), within)
            connection.versions = dict((await connection.ask(ApiVersionsRequest())).versions)
            if security.credentials is not None:
                await _authenticate(connection, security.credentials)
    except TimeoutError:
        error: Exception = ConnectionFailedError(f"{address} did not answer in time")
    except (OSError, ConnectionFailedError, SaslError) as failed:
        error = ConnectionFailedError(f"{address}: {failed}")
    except asyncio.CancelledError:
        if connection is not None:
            connection.close()
        raise
    else:
        return connection
    if connection is not None:
        connection.close()
    raise error


def addresses(bootstrap: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of `bootstrap.servers`.

    Raises:
        ConfigurationError: an address has no port that is a number.
    """
    found = []
    for address in filter(None, map(str.strip, bootstrap.split(","))):
        bare = address.rpartition("://")[2]
        host, colon, port = bare.rpartition(":")
        if not colon or bare.endswith("]"):
            host, port = bare, str(DEFAULT_PORT)
        if not port.isdecimal():
            raise ConfigurationError(f"bootstrap: {address!r} is not HOST:PORT")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(found)


async def find_coordinator(
    bootstrap: Sequence[tuple[str, int]],
    group: str,
    security: ClientSecurity,
    client_id: str,
    within: float = OPEN_SECONDS,
) -> tuple[str, int]:
    """Return the address of a group's coordinator, as the first broker that answers names it.

    The brokers are asked one after the other: the next one as soon as one refuses, and one that is
    silent holds nobody up.

    Args:
        bootstrap: hosts and ports of the brokers.
        group: the name of the group.
        security: the security of the connections.
        client_id: client id of the connections.
        within: seconds that each broker has.

    Raises:
        ConnectionFailedError: none answers, or the group has no coordinator now.
    """
    waiting = deque(bootstrap)
    asked: set[asyncio.Task[tuple[str, int]]] = set()
    answered: list[asyncio.Task[tuple[str, int]]] = []
    reason = "no broker is configured"
    try:
        while waiting or asked:
            if waiting:
                question = _ask_for_coordinator(
                    waiting.popleft(), group, security, client_id, within
                )
                asked.add(asyncio.create_task(question))
            done, asked = await asyncio.wait(
                asked,
                timeout=NEXT_BROKER_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                if isinstance(error := task.exception(), ConnectionFailedError):
                    reason = str(error)
                else:
                    answered.append(task)
            if answered:
                return answered[0].result()
    finally:
        for task in asked:
            task.cancel()
    raise ConnectionFailedError(reason)


async def _ask_for_coordinator(
    broker: tuple[str, int], group: str, security: ClientSecurity, client_id: str, within: float
) -> tuple[str, int]:
    connection = await open_connection(*broker, security, client_id, within)
    try:
        async with asyncio.timeout(within):
            found: CoordinatorResponse = await connection.ask(FindCoordinatorRequest(group))
    except (TimeoutError, ConnectionFailedError) as error:
        host, port = broker
        raise ConnectionFailedError(f"{host}:{port}: {error or 'no answer'}") from error
    finally:
        connection.close()
    if found.error != NO_ERROR:
        reason = f"the group has no coordinator: error {found.error} {found.message or ''}"
        raise ConnectionFailedError(reason.rstrip())
    return found.host, found.port


async def _authenticate(connection: BrokerConnection, credentials: Credentials) -> None:
    handshake = await connection.ask(SaslHandshakeRequest(credentials.mechanism))
    if handshake.error != NO_ERROR:
        offered = ", ".join(handshake.mechanisms)
        raise SaslError(f"the broker takes {offered or 'no mechanism'}")
    steps = exchange(credentials.mechanism, credentials.username, credentials.password)
    token = next(steps)
    while True:
        answer = await connection.ask(SaslAuthenticateRequest(token))
        if answer.error != NO_ERROR:
            raise SaslError(answer.message or f"authentication failed: error {answer.error}")
        try:
            token = steps.send(answer.token)
        except StopIteration:
            return


def _watch_host(connected: socket.socket, within: float) -> None:
    """Let the system end a connection whose host has vanished, at rest or with bytes under way."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    pause = max(1, round(within / (KEEPALIVE_PROBES + 1)))
    for option, value in (
        ("TCP_KEEPIDLE", pause),
        ("TCP_KEEPINTVL", pause),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", round(within * 1000)),
    ):
        if hasattr(socket, option):  # macOS lacks some
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _set_result(answered: asyncio.Future[Any], response: Any) -> None:
    if not answered.done():
        answered.set_result(response)


def _fail_future(answered: asyncio.Future[Any], reason: str) -> None:
    if not answered.done():
        answered.set_exception(ConnectionFailedError(reason))

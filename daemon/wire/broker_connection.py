"""Connection to one broker: requests with their responses, in the order in which they were sent.

All methods belong to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from levelwind.assignors.protocol.kafka.types import Reader
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.wire.group_requests import (
    NO_ERROR,
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    encode_request,
    response_fields,
)
from levelwind.daemon.wire.sasl_exchange import SaslError, exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.daemon.wire.client_security import ClientSecurity, Credentials
    from levelwind.daemon.wire.group_requests import Request

MOST_RESPONSE_BYTES = 2**28
"""Most bytes of one response: more is taken for bytes that are no response."""

OPEN_SECONDS = 10.0
"""Longest time for a connection to be opened, with TLS and SASL, unless a caller says another."""

NEXT_ADDRESS_SECONDS = 0.25
"""Time after which the next address of a host is tried beside the one before (RFC 8305)."""

LAST_CORRELATION = 2**31 - 1
"""Number of a request after which the numbers of a connection begin anew."""

KEEPALIVE_PROBES = 3
"""Unanswered questions of the system whether the host is still there, after which it is not."""


class ConnectionFailedError(Exception):
    """The broker cannot be reached, or refused the client; the text says why."""


class Asked(NamedTuple):
    """A request without a response yet."""

    correlation: int
    request: Request
    answered: Callable[[Any], None]
    lost: Callable[[str], None]


def _ignore(_: str) -> None:
    """Take no notice of the end of a connection."""


class BrokerConnection(asyncio.Protocol):
    """One connection; `open_connection` makes it."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._received, self._sending = bytearray(), bytearray()
        self._asked: deque[Asked] = deque()
        self._correlation = 0
        self.versions: dict[int, tuple[int, int]] = {}
        """Oldest and newest version that the broker takes, by key of the request."""
        self.on_lost: Callable[[str], None] = _ignore
        """Called once with the reason when the connection ends without `close`."""

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand on each response that is whole."""
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big", signed=True)
            if not 4 <= size <= MOST_RESPONSE_BYTES:
                self.fail(f"the broker sent a response of {size} bytes")
                return
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._take(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that the connection has ended."""
        self._end(str(exc) if exc else "the broker closed the connection")

    # Requests.

    @property
    def awaits(self) -> tuple[Request, ...]:
        """Requests without a response yet."""
        return tuple(asked.request for asked in self._asked)

    def send(
        self,
        request: Request,
        answered: Callable[[Any], None],
        lost: Callable[[str], None] = _ignore,
    ) -> None:
        """Send a request.

        What is sent in one turn of the event loop goes out together: that spares a connection of
        many groups a call of the system for each.

        Args:
            request: the request.
            answered: called with its response.
            lost: called with the reason instead if the connection ends before, or has ended.
        """
        if self._transport is None:
            asyncio.get_running_loop().call_soon(lost, "the connection has ended")
            return
        self._correlation = (self._correlation + 1) & LAST_CORRELATION
        encoded = encode_request(request, self._correlation, self._client_id)
        self._asked.append(Asked(self._correlation, request, answered, lost))
        if not self._sending:
            asyncio.get_running_loop().call_soon(self._flush)
        self._sending += encoded

    async def ask(self, request: Request) -> Any:
        """Send a request and wait for its response, for ever: the caller bounds the wait.

        Raises:
            ConnectionFailedError: the connection ends before.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.send(request, partial(_set_result, answer), partial(_fail_future, answer))
        return await answer

    def close(self) -> None:
        """End the connection; nobody is called any more.

        What was sent goes out before that, but for what TLS has encrypted and the system has not
        taken yet.
        """
        self.on_lost = _ignore
        self._asked.clear()
        if self._transport is not None:
            self._flush()
            # TLS would wait for the broker's farewell: a loop that ends meanwhile never closes it.
            if self._transport.get_write_buffer_size():
                self._transport.close()
            else:
                self._transport.abort()
            self._transport = None

    def _flush(self) -> None:
        if self._transport is not None and self._sending:
            self._transport.write(bytes(self._sending))
        self._sending.clear()

    def _take(self, frame: bytes) -> None:
        if not self._asked:
            return  # closed meanwhile
        expected, request, answered, _ = self._asked[0]
        fields = Reader(frame)
        try:
            if (correlation := fields.int32()) != expected:
                self.fail(f"the broker answered request {correlation} instead of {expected}")
                return
            response = request.read(response_fields(request, fields))
        except WireError as error:
            name = type(request).__name__
            self.fail(f"the broker's response to {name} cannot be read: {error}")
            return
        self._asked.popleft()
        answered(response)

    def fail(self, reason: str) -> None:
        """End the connection as if the broker had closed it."""
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        self._transport = None
        asked, self._asked = self._asked, deque()
        for each in asked:
            each.lost(reason)
        lost, self.on_lost = self.on_lost, _ignore
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
            # One name may stand for several addresses, of which the first may not answer.
            transport, connection = await asyncio.get_running_loop().create_connection(
                lambda: BrokerConnection(client_id),
                host,
                port,
                ssl=security.tls,
                happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
            )
            _watch_host(transport.get_extra_info("socket"), within)
            connection.versions = dict((await connection.ask(ApiVersionsRequest())).versions)
            if security.credentials is not None:
                await _authenticate(connection, security.credentials)
    except TimeoutError:
        error: Exception = ConnectionFailedError(f"{address} did not answer in time")
    # ValueError: the host is no name. RuntimeError: the system gives no thread to look it up.
    except (OSError, ValueError, RuntimeError, ConnectionFailedError, SaslError) as failed:
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

"""TCP proxy on loopback with faults: delays, one-way drops, resets and black holes.

A program of its own, `python -m levelwind_testing.chaos.tcp_proxy`, so that it stands still for
nobody: it reads one JSON command a line from standard input, answers each with one line, and ends
with its input. Every link leads to one destination. The source of a connection is the client id in
its first Kafka request (brokers have some of their own, see `party`), so that a fault hits the
traffic between two named parties:

    {"do": "listen", "destination": "broker-1", "port": 23001}     → {"port": …}
    {"do": "rule", "rule": 7, "between": [["member-3"], ["broker-1"]], "up": 0.3, "down": 0}
    {"do": "lift", "rule": 7} · {"do": "lift"} (all)               → {}
    {"do": "reset", "between": [[…], […]]}                         → {"reset": connections}
    {"do": "list"}                                 → {"member-3 broker-1": connections, …}

A rule delays the bytes from source to destination by `up` seconds and the answers by `down`; null
holds them until the rule is lifted. TCP loses no byte of a living connection, so a drop is a hold;
bytes are delivered even when their sender has died meanwhile, as a kernel does. An empty list of
names stands for everybody.
"""

import asyncio
import contextlib
import json
import math
import os
import re
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16
HELD_BYTES = 8 << 20
"""The most bytes that are held of one direction; after that the sender feels the hold."""
UNKNOWN = "?"
_CLIENT_ID_AT = 12
"""Behind the size, kind, version and number of a request: the length of the client id, and it."""
_BROKER = re.compile(r"(?:raft-client-|broker-)?(\d+)(?:-.*)?")
_ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose close sends a reset."""


def party(client_id: str) -> str:
    """Name of the party that uses a client id."""
    match = _BROKER.fullmatch(client_id)
    return f"broker-{match[1]}" if match else client_id


def client_id_of(data: bytes) -> str | None:
    """Client id in the first request of a connection; None while it is not complete."""
    if len(data) < _CLIENT_ID_AT + 2:
        return None
    (size,) = struct.unpack_from(">h", data, _CLIENT_ID_AT)
    start = _CLIENT_ID_AT + 2
    end = start + max(size, 0)
    return data[start:end].decode(errors="replace") if len(data) >= end else None


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault of the traffic between two sets of parties."""

    sources: frozenset[str]
    destinations: frozenset[str]
    up: float
    """Seconds by which bytes to the destination are delayed; infinite: held."""
    down: float

    def concerns(self, source: str, destination: str) -> bool:
        """Whether the rule is about connections from `source` to `destination`."""
        return (not self.sources or source in self.sources) and (
            not self.destinations or destination in self.destinations
        )

    @classmethod
    def of(cls, command: Mapping[str, Any]) -> "Rule":
        """Make the rule of a command."""
        sources, destinations = map(frozenset, command["between"])
        return cls(sources, destinations, _seconds(command["up"]), _seconds(command["down"]))


def _seconds(value: float | None) -> float:
    return math.inf if value is None else float(value)


@dataclass(eq=False, slots=True)
class Direction:
    """One direction of a connection: bytes with the time at which they arrived."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    delay: float = 0.0
    held: deque[tuple[float, bytes]] = field(default_factory=deque)
    size: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Forward bytes until their sender has closed and all of them are delivered."""
        receiving = asyncio.create_task(self._receive())
        try:
            await self._send()
        except OSError:
            # The receiver is gone: its other direction ends with it, and tells the sender.
            self.writer.transport.abort()
        finally:
            receiving.cancel()

    def take(self, data: bytes) -> None:
        """Take in bytes that arrived now; none: the sender has closed."""
        self.held.append((time.monotonic(), data))
        self.size += len(data)
        self.changed.set()

    async def _receive(self) -> None:
        data = b"?"
        while data:
            while self.size > HELD_BYTES:
                self.room.clear()
                await self.room.wait()
            try:
                data = await self.reader.read(CHUNK_BYTES)
            except OSError:
                data = b""  # the sender was killed: what it wrote is delivered nevertheless
            self.take(data)

    async def _send(self) -> None:
        while True:
            while not self.held or (left := self._left()) > 0:
                self.changed.clear()
                timeout = None if not self.held or math.isinf(left) else left
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), timeout)
            _, data = self.held.popleft()
            self.size -= len(data)
            self.room.set()
            if not data:
                if self.writer.can_write_eof():
                    self.writer.write_eof()
                return
            self.writer.write(data)
            await self.writer.drain()

    def _left(self) -> float:
        return self.held[0][0] + self.delay - time.monotonic()


@dataclass(eq=False, slots=True)
class Connection:
    """A connection between two parties, through the proxy."""

    destination: str
    source: str
    up: Direction
    down: Direction

    def apply(self, rules: Mapping[int, Rule]) -> None:
        """Take over the delays of all rules about this connection: the longest counts."""
        about = [rule for rule in rules.values() if rule.concerns(self.source, self.destination)]
        self.up.delay = max((rule.up for rule in about), default=0.0)
        self.down.delay = max((rule.down for rule in about), default=0.0)
        self.up.changed.set()
        self.down.changed.set()

    def reset(self) -> None:
        """Break the connection: both parties get a reset."""
        for direction in (self.up, self.down):
            sock = direction.writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            direction.writer.transport.abort()


class TcpProxy:
    """The links of one cluster, and the rules for them."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def perform(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one command; the answer."""
        match command["do"]:
            case "listen":
                return {"port": await self._listen(command["destination"], command["port"])}
            case "rule":
                self._rules[command["rule"]] = Rule.of(command)
            case "lift":
                if "rule" in command:
                    self._rules.pop(command["rule"], None)
                else:
                    self._rules.clear()
            case "reset":
                return {"reset": self._reset(*map(frozenset, command["between"]))}
            case "list":
                return Counter(f"{c.source} {c.destination}" for c in self._connections)
            case other:
                raise ValueError(f"no such command: {other}")
        for connection in self._connections:
            connection.apply(self._rules)
        return {}

    async def _listen(self, destination: str, target: int) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await self._serve(destination, target, reader, writer)

        server = await asyncio.start_server(accept, HOST, 0, limit=CHUNK_BYTES)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _reset(self, sources: frozenset[str], destinations: frozenset[str]) -> int:
        rule = Rule(sources, destinations, 0, 0)
        broken = [c for c in self._connections if rule.concerns(c.source, c.destination)]
        for connection in broken:
            connection.reset()
        return len(broken)

    async def _serve(
        self,
        destination: str,
        target: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            onward = await asyncio.open_connection(HOST, target, limit=CHUNK_BYTES)
        except OSError:  # the destination is down
            writer.transport.abort()
            return
        first = await _first_bytes(reader)
        connection = Connection(
            destination=destination,
            source=party(client_id_of(first) or UNKNOWN),
            up=Direction(reader, onward[1]),
            down=Direction(onward[0], writer),
        )
        if first:
            connection.up.take(first)
        connection.apply(self._rules)
        self._connections.add(connection)
        try:
            await asyncio.gather(connection.up.run(), connection.down.run())
        finally:
            self._connections.discard(connection)
            for direction in (connection.up, connection.down):
                direction.writer.transport.abort()


async def _first_bytes(reader: asyncio.StreamReader) -> bytes:
    """What a client sends first, up to its client id at least; less if it sends no more."""
    data = b""
    while client_id_of(data) is None:
        try:
            more = await reader.read(CHUNK_BYTES)
        except OSError:
            break
        if not more:
            break
        data += more
    return data


async def _main() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    proxy = TcpProxy()
    async for line in commands:
        try:
            answer = await proxy.perform(json.loads(line))
        except (KeyError, TypeError, ValueError, OSError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)  # an orderly end of every connection would wait for what is held


if __name__ == "__main__":
    asyncio.run(_main())

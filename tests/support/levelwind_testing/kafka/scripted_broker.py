"""A broker in a thread of the test's process, which coordinates groups as a test wants it to."""

from __future__ import annotations

import asyncio
import struct
import threading
from typing import TYPE_CHECKING, Self

from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    compact_array,
    compact_string,
    int16,
    int32,
    nullable_bytes,
)
from levelwind.daemon.wire.group_requests import ApiVersionsRequest
from levelwind.daemon.wire.poll_requests import (
    PLAIN_END,
    PLAIN_PARTITION,
    FetchOffsetsRequest,
    FindCoordinatorsRequest,
)
from levelwind_testing.waiting import GENEROUS_SECONDS

if TYPE_CHECKING:
    import ssl
    from collections import deque
    from collections.abc import Mapping

HOST = "127.0.0.1"
NEW = {FindCoordinatorsRequest.KEY: (0, 6), FetchOffsetsRequest.KEY: (0, 10)}
"""Versions of a broker from 3.0 on."""
OLD = {FindCoordinatorsRequest.KEY: (0, 3), FetchOffsetsRequest.KEY: (0, 7)}
"""Those of one before."""
COMMITTED = 7
"""What each group has committed in partition 0 of topic `t`."""


class ScriptedBroker:
    """Answers for versions, coordinators and commits; serves while its context lasts."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        versions: Mapping[int, tuple[int, int]] = NEW,
    ) -> None:
        self._tls = tls
        self.versions = versions
        self.address = (HOST, 0)
        self.coordinators: dict[str, tuple[str, int]] = {}
        """Coordinators of groups, by name; this broker coordinates all others."""
        self.refusals: dict[int, deque[int]] = {}
        """Errors that all groups of the next answers have, by the key of the request."""
        self.silent = False
        """Whether it answers nothing about commits."""
        self.connections = 0
        self.asked: list[int] = []
        """Keys of its requests, without those for its versions."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def bootstrap(self) -> str:
        """Its address as `bootstrap.servers` has it."""
        return f"{self.address[0]}:{self.address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(GENEROUS_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(GENEROUS_SECONDS)

    def hang_up(self) -> None:
        """End all connections; returns when that is done."""
        done = threading.Event()

        def end() -> None:
            for writer in self._writers:
                writer.transport.abort()
            self._loop.call_soon(done.set)

        self._loop.call_soon_threadsafe(end)
        assert done.wait(GENEROUS_SECONDS)

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._converse, HOST, 0, ssl=self._tls)
        self.address = server.sockets[0].getsockname()
        self._started.set()
        await self._ended.wait()
        server.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = self._answer(Reader(await reader.readexactly(size)))
                if answer is not None:
                    writer.write(nullable_bytes(answer))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has ended the connection
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _answer(self, request: Reader) -> bytes | None:
        key, _ = request.int16(), request.int16()
        correlation, _ = request.int32(), request.string()
        if key == ApiVersionsRequest.KEY:
            taken = [
                int16(each) + int16(low) + int16(high)
                for each, (low, high) in self.versions.items()
            ]
            return int32(correlation) + int16(0) + array(taken)
        self.asked.append(key)
        request.tags()
        refusals = self.refusals.get(key)
        error = refusals.popleft() if refusals else 0
        if key == FindCoordinatorsRequest.KEY:
            request.int8()  # groups are meant
            groups = request.array(lambda: request.string(compact=True), compact=True)
            answers = [self._coordinator(group, error) for group in groups]
        elif self.silent:
            return None
        else:
            groups = request.array(lambda: _asked_group(request), compact=True)
            answers = [_committed(group, error) for group in groups]
        return int32(correlation) + b"\0" + int32(0) + compact_array(answers) + b"\0"

    def _coordinator(self, group: str, error: int) -> bytes:
        host, port = self.coordinators.get(group, self.address)
        named = compact_string("" if error else host) + int32(0 if error else port)
        return compact_string(group) + int32(1) + named + int16(error) + b"\0" + b"\0"


def _asked_group(request: Reader) -> str:
    name = request.string(compact=True)
    request.uvarint()  # all topics
    request.tags()
    return name


def _committed(group: str, error: int) -> bytes:
    partition = PLAIN_PARTITION.pack(0, COMMITTED, 0, *PLAIN_END)
    topic = compact_string("t") + compact_array([partition]) + b"\0"
    return compact_string(group) + compact_array([] if error else [topic]) + int16(error) + b"\0"

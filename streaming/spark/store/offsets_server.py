"""The driver tells tasks on other machines the end offsets of their batch.

A question is a random number, the batch's number and their HMAC under a key that the driver makes
at its start and sends with the operator; the answer has an HMAC over the same random number. So
only the query's own tasks are answered, and only the driver is believed. The answer is the entry of
Spark's log: names and offsets, which are not encrypted, like Spark's own traffic by default.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import socketserver
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NONCE_BYTES = 32
DIGEST_BYTES = hashlib.sha256().digest_size
QUESTION = struct.Struct(f">{NONCE_BYTES}sq{DIGEST_BYTES}s")
LENGTH = struct.Struct(">i")
UNKNOWN = -1
"""Length of the answer where the batch is not known."""
MOST_ANSWER_BYTES = 64 * 2**20
TIMEOUT_SECONDS = 10.0
"""Longest wait for the other side."""
ATTEMPTS = 3
"""Questions before a task fails."""
PAUSE_SECONDS = 0.5


def _mac(key: bytes, kind: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, kind + b"".join(parts), hashlib.sha256)


def _number(batch: int) -> bytes:
    return struct.pack(">q", batch)


@dataclass(frozen=True, slots=True)
class AskedOffsets:
    """Spark's log of offsets, read by asking the driver; sent to the tasks with the operator."""

    host: str
    port: int
    key: bytes = field(repr=False)

    def read(self, batch: int) -> bytes | None:
        """The entry of a batch; None: there was no answer, or the driver does not know it."""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_SECONDS * attempt)
            try:
                if (entry := self._ask(batch)) is not None:
                    return entry
            except OSError:
                continue
        return None

    def _ask(self, batch: int) -> bytes | None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        with socket.create_connection((self.host, self.port), TIMEOUT_SECONDS) as connection:
            mac = _mac(self.key, b"ask", nonce, _number(batch))
            connection.sendall(QUESTION.pack(nonce, batch, mac))
            (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
            if not 0 <= length <= MOST_ANSWER_BYTES:
                return None
            entry = _exactly(connection, length)
            expected = _mac(self.key, b"answer", nonce, _number(batch), entry)
            if not hmac.compare_digest(_exactly(connection, DIGEST_BYTES), expected):
                raise ConnectionError("the answer is not the driver's")
        return entry


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Receive as many bytes as asked for; raises `ConnectionError` at an earlier end."""
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("the connection ended early")
        received += part
    return bytes(received)


class OffsetsServer:
    """A thread of the driver that answers the tasks of its query, until the process ends."""

    def __init__(
        self, read: Callable[[int], bytes | None], *, bind: str, host: str, port: int = 0
    ) -> None:
        """Listen.

        Args:
            read: returns the entry of a batch, None if there is none; called in several threads.
            bind: the address to listen at.
            host: the name or address at which the executors reach the driver.
            port: the port; 0 takes a free one.

        Raises:
            OSError: nothing can listen there.
        """
        self._read = read
        self._key = secrets.token_bytes(32)
        self._newest: tuple[int, bytes] | None = None
        """The last batch that was asked for, and its entry: every task of a batch asks."""
        answer = self._answer

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                answer(self.request)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._server = socketserver.ThreadingTCPServer((bind, port), Handler)
        self._server.daemon_threads = True
        self.log = AskedOffsets(host, self._server.server_address[1], self._key)
        """The log as the tasks read it."""
        threading.Thread(
            target=self._server.serve_forever, name="offsets-server", daemon=True
        ).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            nonce, batch, mac = QUESTION.unpack(_exactly(connection, QUESTION.size))
            if not hmac.compare_digest(mac, _mac(self._key, b"ask", nonce, _number(batch))):
                return
            entry = self._entry(batch)
            if entry is None:
                connection.sendall(LENGTH.pack(UNKNOWN))
                return
            proof = _mac(self._key, b"answer", nonce, _number(batch), entry)
            connection.sendall(LENGTH.pack(len(entry)) + entry + proof)
        except OSError:
            return  # the task asks again

    def _entry(self, batch: int) -> bytes | None:
        if self._newest is not None and self._newest[0] == batch:
            return self._newest[1]
        entry = self._read(batch)
        if entry is not None:
            self._newest = batch, entry
        return entry

"""Guards around every request: the host that was asked for, how much at a time, and headers.

The page may load nothing but its own files and may not be framed. A request for a host that is not
the daemon's is refused, so that no web page can read the API by giving its own name the address of
this machine. A request by address comes from no such page, and is answered: Prometheus asks so.
"""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROBES = ("/healthz", "/readyz")
"""Paths that are always answered, also beside the most requests: a supervisor restarts a daemon
that does not answer, and asks it by address."""

MOST_REQUESTS = 256
"""Requests and open streams at the same time; further ones get a 503."""

LARGEST_BODY_BYTES = 4 * 1024 * 1024
"""Largest body of a request: an order to apply an assignment names its partitions."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class GuardedApp:
    """An ASGI application behind the guards."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        """Guard an application.

        Args:
            app: the application.
            hosts: names that requests may ask for, beside addresses, in lower case and without a
                port; None for any.
        """
        self._app = app
        self._hosts = hosts
        self._serving = 0
        """Requests that are being answered now, without probes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in HEADERS if name not in present),
                ]
                if b"cache-control" not in present:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        if scope["path"] in PROBES:
            await self._app(scope, _limited(receive), send_guarded)
            return
        refusal = self._refusal(headers)
        if refusal is not None:
            await _refuse(send_guarded, *refusal)
            return
        self._serving += 1
        try:
            await self._app(scope, _limited(receive), send_guarded)
        finally:
            self._serving -= 1

    def _refusal(self, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        """Return status and reason of a refusal; None: the request is answered."""
        host = _host(headers.get(b"host", b""))
        if self._hosts is not None and host not in self._hosts and not _is_address(host):
            return 421, "this daemon does not answer for that host"
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > LARGEST_BODY_BYTES:
            return 413, f"a body has at most {LARGEST_BODY_BYTES:,} bytes"
        # Open connections do not count: one that asks for nothing keeps nobody from asking.
        if self._serving >= MOST_REQUESTS:
            return 503, "too many requests at the same time"
        return None


def _limited(receive: Receive) -> Receive:
    """Return a channel that ends where a body of unknown length grows too long."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > LARGEST_BODY_BYTES:
                return {"type": "http.disconnect"}
        return message

    return receive_limited


def _host(header: bytes) -> str:
    """Return the name of a Host header, without the port and an IPv6 address's brackets."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _refuse(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

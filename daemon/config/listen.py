"""Addresses to listen on: `ADDRESS:PORT`, as settings give them."""

from __future__ import annotations

import socket

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.broker_addresses import port_number

EVERY_ADDRESS = "::"
"""Every address of IPv6, and of IPv4 where the socket is of both families."""
KEEP_ALIVE_SECONDS = 30
"""Time after which a connection is closed that has no request, or only a part of one, or whose
answer is not read."""


def listen_address(setting: str, listen: str) -> tuple[str, int]:
    """Return host and port; an address without a host asks for every one, of both families.

    Args:
        setting: the name of the setting, for the error.
        listen: the value of the setting.

    Raises:
        ConfigurationError: the value is no address.
    """
    host, colon, port = listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    number = port_number(port)
    if not colon or number is None or "\0" in host or (":" in host and bare == host):
        raise ConfigurationError(f"{setting}: {listen!r} is not ADDRESS:PORT")
    try:
        bare.encode("idna")  # as the socket does
    except UnicodeError as error:
        reason = f"{setting}: {listen!r} is not ADDRESS:PORT: {error}"
        raise ConfigurationError(reason) from None
    return bare or _every_address(), number


def _every_address() -> str:
    """Return the address that stands for every one: of IPv4 alone in a kernel without IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((EVERY_ADDRESS, 0))
    except OSError:
        return "0.0.0.0"  # noqa: S104 - ":9464" asks for every address
    return EVERY_ADDRESS


def listening_socket(
    setting: str, listen: str, *, or_any_port: bool = False
) -> tuple[str, socket.socket]:
    """Return the host of an address, and a socket that listens there.

    Args:
        setting: the name of the setting, for the error.
        listen: the value of the setting.
        or_any_port: whether any free port will do where the machine does not give that one.

    Raises:
        ConfigurationError: the value is no address, or the machine does not give it.
    """
    host, port = listen_address(setting, listen)
    try:
        try:
            return host, _opened(host, port)
        except OSError:
            if not or_any_port:
                raise
            return host, _opened(host, 0)
    except OSError as error:
        raise ConfigurationError(
            f"{setting}: cannot listen on {listen}: {error.strerror or error};"
            " choose another address, or leave the setting empty"
        ) from error


def _opened(host: str, port: int) -> socket.socket:
    # Of a name with addresses of both families that of IPv4.
    family, kind, _, _, address = min(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    opened = socket.socket(family, kind)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What is accepted has it, too: a watcher whose machine is gone ends after all.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Likewise: a peer that does not read its answer, however large, keeps its place no longer.
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # macOS lacks it
            patience_ms = KEEP_ALIVE_SECONDS * 1000
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience_ms)
        if host == EVERY_ADDRESS:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind(address)
        opened.listen(128)
    except OSError:
        opened.close()
        raise
    return opened


def shown_address(host: str, port: int) -> str:
    """Return host and port as a URL has them."""
    return f"{f'[{host}]' if ':' in host else host}:{port}"

"""Addresses of brokers, as `bootstrap.servers` gives them."""

from __future__ import annotations

from typing import TypeAlias

from levelwind.daemon.errors import ConfigurationError

Address: TypeAlias = tuple[str, int]
"""Host and port of a broker."""

DEFAULT_PORT = 9092
"""Port of a broker whose address names none."""

MAX_PORT = 65535


def addresses(bootstrap: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of `bootstrap.servers`, read as librdkafka reads it.

    Raises:
        ConfigurationError: the port of an address is no number of a port.
    """
    found = []
    for address in filter(None, map(str.strip, bootstrap.split(","))):
        bare = address.rpartition("://")[2].partition("/")[0]
        host, colon, port = bare.rpartition(":")
        if not colon or (":" in host and not host.endswith("]")):  # an address of IPv6 alone
            host, port = bare, str(DEFAULT_PORT)
        if (number := port_number(port)) is None:
            raise ConfigurationError(f"bootstrap: {address!r} is not HOST:PORT")
        found.append((host.removeprefix("[").removesuffix("]"), number))
    return tuple(found)


def port_number(port: str) -> int | None:
    """The port that a text gives; None: it gives none."""
    is_one = port.isdecimal() and len(port) <= 5 and int(port) <= MAX_PORT
    return int(port) if is_one else None

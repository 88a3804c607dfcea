"""Settings of the daemon's HTTP server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator


def _path_or_none(value: object) -> object:
    return None if value == "" else value


OptionalPath = Annotated[Path | None, BeforeValidator(_path_or_none)]
"""A path; empty on the command line and in the environment: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSection:
    """The daemon's HTTP server: probes, metrics, the API and the page."""

    listen: str = "127.0.0.1:9470"
    """`ADDRESS:PORT` of the server, as in `10.1.2.3:9470` or `[::1]:9470`; `:9470` is every address
    of IPv4 and IPv6; empty: no server. Port 0 takes a free port, and so does the default where
    another process has its port; the address is logged."""
    tls_file: OptionalPath = None
    """PEM file with a private key and its certificates: the server then speaks HTTPS alone."""
    token_file: OptionalPath = None
    """File with the tokens that may change something, a line `NAME TOKEN` for each: the name is for
    the audit, a token has at least 20 characters. It is read again when it changes. None: nobody
    may."""
    hosts: list[str] = field(default_factory=list)
    """Further names by which the server is asked for. On loopback it answers to `localhost` and to
    these; on other addresses to any name where this is empty. Requests by address, as those of
    Prometheus, and probes are always answered."""

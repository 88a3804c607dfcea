"""Security of connections without a client, from the same settings as librdkafka's: `[kafka]`.

A setting of TLS or SASL that is not known here is refused at the start: it is never passed over.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.sasl_exchange import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
KNOWN = frozenset(
    {
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
"""Settings that are known, of those whose names begin with `ssl.` or `sasl.`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a client authenticates with by SASL."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """How connections are encrypted and authenticated."""

    tls: ssl.SSLContext | None = None
    """None: connections are not encrypted."""
    credentials: Credentials | None = None
    """None: the client does not authenticate by SASL."""


def client_security(config: Mapping[str, str]) -> ClientSecurity:
    """Read the settings of librdkafka.

    Raises:
        ConfigurationError: a setting is not known, or does not fit; the text names it.
    """
    for name in config:
        if name.startswith(("ssl.", "sasl.")) and name not in KNOWN:
            raise ConfigurationError(
                f"kafka.{name}: the leader proxy and polled commits do not know this setting; leave"
                " it out, or use neither the mode proxy nor commits.source poll"
            )
    protocol = config.get("security.protocol", "plaintext").lower()
    if protocol not in PROTOCOLS:
        raise ConfigurationError(f"kafka.security.protocol: {protocol!r} is no protocol")
    return ClientSecurity(
        tls=_tls(config) if protocol.endswith("ssl") else None,
        credentials=_credentials(config) if protocol.startswith("sasl") else None,
    )


def _tls(config: Mapping[str, str]) -> ssl.SSLContext:
    authorities, pem = config.get("ssl.ca.location"), config.get("ssl.ca.pem")
    location = None if authorities in {None, "", "probe"} else Path(str(authorities))
    try:
        context = ssl.create_default_context(
            cafile=location if location and not location.is_dir() else None,
            capath=location if location and location.is_dir() else None,
            cadata=pem or None,
        )
        # As librdkafka checks. From Python 3.13 on a context refuses what many private authorities
        # sign, as a certificate without the identifier of its authority's key.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificate := config.get("ssl.certificate.location"):
            context.load_cert_chain(
                certificate,
                config.get("ssl.key.location"),
                config.get("ssl.key.password") or (lambda: b""),
            )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(f"kafka.ssl: certificates cannot be loaded: {error}") from error
    algorithm = config.get("ssl.endpoint.identification.algorithm", "https").lower()
    context.check_hostname = algorithm != "none"
    if config.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _credentials(config: Mapping[str, str]) -> Credentials:
    mechanism = config.get("sasl.mechanisms", config.get("sasl.mechanism", "GSSAPI")).upper()
    if mechanism not in MECHANISMS:
        raise ConfigurationError(
            f"kafka.sasl.mechanism: the leader proxy and polled commits do not know {mechanism},"
            f" but {', '.join(MECHANISMS)}; use one of them, or neither the mode proxy nor"
            " commits.source poll"
        )
    missing = [name for name in ("sasl.username", "sasl.password") if not config.get(name)]
    if missing:
        raise ConfigurationError(f"kafka.{missing[0]}: is missing for {mechanism}")
    return Credentials(
        mechanism=mechanism, username=config["sasl.username"], password=config["sasl.password"]
    )

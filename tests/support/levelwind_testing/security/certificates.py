"""An authority of a test's own, and the certificates that it signs."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

LIFE = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Identity:
    """Files of one certificate, as PEM."""

    certificate: Path
    key: Path
    both: Path
    """Key and certificate in one file, as Kafka's key stores of the type PEM have them."""


class Authority:
    """A certificate authority; its files and those of its certificates are in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("levelwind test authority")
        built = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / "authority.pem"
        self.certificate.write_bytes(built.public_bytes(Encoding.PEM))

    def issue(self, user: str) -> Identity:
        """Sign a certificate for a user or server on loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        loopback = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.DNSName("localhost"),
        ]
        built = (
            _builder(_name(user), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(loopback), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate = built.public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files = Identity(
            *(self._directory / f"{user}.{end}" for end in ("crt.pem", "key.pem", "pem"))
        )
        for file, content in (
            (files.certificate, certificate),
            (files.key, private),
            (files.both, private + certificate),
        ):
            file.touch(0o600)
            file.write_bytes(content)
        return files

    def server(self, user: str) -> ssl.SSLContext:
        """Encryption of a server with a certificate of its own."""
        identity = self.issue(user)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(identity.certificate, identity.key)
        return context


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    # The start is in the past, for clocks that are set back a little.
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
    )

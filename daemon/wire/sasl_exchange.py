"""Exchanges of SASL mechanisms: generators of what the client sends. Pure but for SCRAM's nonce.

A generator yields the client's tokens and is sent the broker's.
Source: RFC 4616 (PLAIN), RFC 5802 and RFC 7677 (SCRAM).
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from secrets import token_urlsafe
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *HASHES)
MOST_ITERATIONS = 1_000_000
"""The most iterations of a password's hash that a broker may ask for: they block the thread."""


class SaslError(Exception):
    """The exchange cannot be completed; the text says why, and has no secret in it."""


def exchange(mechanism: str, username: str, password: str) -> Generator[bytes, bytes, None]:
    """Begin the exchange of a mechanism.

    Raises:
        SaslError: the broker's token does not fit.
    """
    if mechanism == "PLAIN":
        return _plain(username, password)
    return scram(HASHES[mechanism], username, password, token_urlsafe(24))


def _plain(username: str, password: str) -> Generator[bytes, bytes, None]:
    yield f"\0{username}\0{password}".encode()


def scram(
    hash_name: str, username: str, password: str, nonce: str
) -> Generator[bytes, bytes, None]:
    """Exchange of SCRAM without channel binding."""
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}"
    first = yield f"n,,{first_bare}".encode()
    fields = _fields(first)
    try:
        salt, iterations = b64decode(fields["s"], validate=True), int(fields["i"])
        whole_nonce = fields["r"]
    except (KeyError, ValueError):
        raise SaslError("the broker's challenge cannot be read") from None
    if not whole_nonce.startswith(nonce) or not 0 < iterations <= MOST_ITERATIONS:
        raise SaslError("the broker's challenge does not answer the client's")
    salted = pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    final_bare = f"c=biws,r={whole_nonce}"
    signed = f"{first_bare},{first.decode()},{final_bare}".encode()
    signature = hmac.digest(new_hash(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = yield f"{final_bare},p={b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    expected = b64encode(hmac.digest(server_key, signed, hash_name)).decode()
    if not hmac.compare_digest(_fields(final).get("v", ""), expected):
        raise SaslError("the broker did not prove that it knows the password")


def _fields(token: bytes) -> dict[str, str]:
    try:
        parts = token.decode().split(",")
    except UnicodeDecodeError:
        raise SaslError("the broker's token is not text") from None
    return {name: value for name, _, value in (part.partition("=") for part in parts)}

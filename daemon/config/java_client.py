"""Security settings of Kafka's Java client, derived from librdkafka's where that is mechanical.

Spark reads Kafka by the Java client. The protocol, PLAIN and SCRAM, and certificates in PEM files
have one meaning in both; for Kerberos, OAuth and switched-off verification the Java client's own
settings are to be given in `[pipeline.kafka]`, which win in any case.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""The Java client's login module, by the mechanism of a user name with a password."""

SAME = ("ssl.key.password", "ssl.keystore.location", "ssl.keystore.password")
"""Settings of one name and meaning in both clients."""

AUTHENTICATION = ("sasl.jaas.config", "sasl.login.callback.handler.class")
"""Settings of the Java client that say how to authenticate, whatever the mechanism."""


def java_security(kafka: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the Java client's settings: those given, and those that follow from librdkafka's.

    Args:
        kafka: settings of librdkafka.
        given: settings of the Java client, which win.

    Raises:
        ConfigurationError: a setting has no mechanical counterpart and none is given, or a file of
            a certificate cannot be read.
    """
    derived: dict[str, str] = {}
    protocol = kafka.get("security.protocol", "").upper()
    if protocol:
        derived["security.protocol"] = protocol
    effective = given.get("security.protocol", protocol).upper()
    if "SASL" in effective:
        derived |= _sasl(kafka, given)
    if "SSL" in effective.removeprefix("SASL_"):
        derived |= _tls(kafka, given)
    return {**derived, **given}


def _sasl(kafka: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    mechanism = kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "")).upper()
    if any(setting in given for setting in AUTHENTICATION):
        return {"sasl.mechanism": mechanism} if mechanism else {}
    if not mechanism:
        return {}
    module = LOGIN_MODULES.get(mechanism)
    if module is None:
        raise ConfigurationError(
            f"pipeline.kafka: SASL mechanism {mechanism} has no mechanical counterpart; give the"
            " Java client's sasl.jaas.config in [pipeline.kafka]"
        )
    user, password = kafka.get("sasl.username", ""), kafka.get("sasl.password", "")
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f"{module} required username={_quoted(user)} password={_quoted(password)};"
        ),
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tls(kafka: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    derived = {**_truststore(kafka, given), **_keystore(kafka)}
    if kafka.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        derived["ssl.endpoint.identification.algorithm"] = ""
    # A store that is given replaces the one that would be derived, and not single settings of it.
    for store in ("ssl.truststore.", "ssl.keystore."):
        if any(name.startswith(store) for name in given):
            derived = {name: v for name, v in derived.items() if not name.startswith(store)}
    return derived


def _truststore(kafka: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    verifies = kafka.get("enable.ssl.certificate.verification", "true").lower() != "false"
    if not verifies and not any(name.startswith("ssl.truststore.") for name in given):
        raise ConfigurationError(
            "pipeline.kafka: the Java client always verifies certificates; give"
            " ssl.truststore.location or ssl.truststore.certificates in [pipeline.kafka]"
        )
    location, authority = kafka.get("ssl.ca.location"), kafka.get("ssl.ca.pem")
    if location and location != "probe":
        if not Path(location).is_dir():
            return {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
        authority = _directory(Path(location))
    if not authority:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}


def _keystore(kafka: Mapping[str, str]) -> dict[str, str]:
    derived = {name: kafka[name] for name in SAME if name in kafka}
    if "ssl.keystore.location" in derived:
        return {**derived, "ssl.keystore.type": "PKCS12"}
    chain = kafka.get("ssl.certificate.pem") or _read(kafka, "ssl.certificate.location")
    key = kafka.get("ssl.key.pem") or _read(kafka, "ssl.key.location")
    if chain and key:
        derived |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key,
        }
    return derived


def _directory(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.suffix in {".pem", ".crt", ".0"})
    return "\n".join(dict.fromkeys(_text(path, "ssl.ca.location").strip() for path in files))


def _read(kafka: Mapping[str, str], setting: str) -> str | None:
    location = kafka.get(setting)
    return None if location is None else _text(Path(location), setting)


def _text(file: Path, setting: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"kafka.{setting}: {file}: cannot be read: {error}") from error

"""Brokers that ask for a password or a certificate, and check rights."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from levelwind.deploy.broker_config import JVM_OPTIONS, LOG_ALLOWED, BrokerSecurity
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.security.certificates import Authority, Identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from levelwind.deploy.jars import OtherBrokers

SUPER_USER = "root"
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Settings of a user's clients."""

    name: str
    librdkafka: dict[str, str]
    """Settings of librdkafka, with `bootstrap.servers`."""
    java: dict[str, str]
    """Settings of the Java client, with `bootstrap.servers`."""

    @property
    def principal(self) -> str:
        """The user's principal, as ACLs name it."""
        return f"User:{self.name}"


@dataclass(frozen=True, slots=True)
class SecureBrokers:
    """Running brokers with the authority that signs certificates for them."""

    cluster: Cluster
    authority: Authority
    admin: AdminClient
    """A client that may do everything."""

    def scram_user(self, name: str, mechanism: str = "SCRAM-SHA-512") -> User:
        """Make a user with a password, known by SASL over TLS."""
        password = secrets.token_urlsafe(16)
        credential = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(MECHANISMS[mechanism], 4096), password.encode()
        )
        self.admin.alter_user_scram_credentials([credential])[name].result(30)
        ca, bootstrap = str(self.authority.certificate), self.cluster.bootstrap
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        return User(
            name=name,
            librdkafka={
                "bootstrap.servers": bootstrap,
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": mechanism,
                "sasl.username": name,
                "sasl.password": password,
                "ssl.ca.location": ca,
            },
            java={
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f'{login} username="{name}" password="{password}";',
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": ca,
            },
        )

    def certificate_user(self, name: str) -> User:
        """Make a user with a certificate, known by mutual TLS."""
        identity, ca = self.authority.issue(name), str(self.authority.certificate)
        bootstrap = self.cluster.mutual_tls_bootstrap
        return User(
            name=name,
            librdkafka={"bootstrap.servers": bootstrap, **with_certificate(identity, ca)},
            java={
                "bootstrap.servers": bootstrap,
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(identity.both),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": ca,
            },
        )


def with_certificate(identity: Identity, ca: str) -> dict[str, str]:
    """Settings of librdkafka for a client with a certificate."""
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": ca,
        "ssl.certificate.location": str(identity.certificate),
        "ssl.key.location": str(identity.key),
    }


@contextmanager
def secure_brokers(
    directory: Path,
    brokers: int = 1,
    *,
    authorize: bool = True,
    settings: dict[str, str] | None = None,
    log_allowed: bool = False,
    version: OtherBrokers | None = None,
    libraries: Sequence[Path] = (),
) -> Iterator[SecureBrokers]:
    """Start brokers with TLS, SCRAM and, if asked for, the authorizer; stop them at the end.

    Args:
        directory: directory of the certificates; the brokers' own is a temporary one.
        brokers: number of brokers.
        authorize: whether what no ACL allows is refused.
        settings: further settings of the brokers.
        log_allowed: whether the authorizer logs what it allows, too.
        version: an older release of the brokers; None for that of the pom.
        libraries: further jars on the brokers' class path.
    """
    authority = Authority(directory / "certificates")
    root = authority.issue(SUPER_USER)
    security = BrokerSecurity(
        keystore=authority.issue("broker").both,
        truststore=authority.certificate,
        brokers_user="broker",
        super_users=(SUPER_USER,),
        admin=with_certificate(root, str(authority.certificate)),
        authorize=authorize,
    )
    options = (*JVM_OPTIONS, LOG_ALLOWED) if log_allowed else JVM_OPTIONS
    with Cluster.start(
        brokers,
        settings=PATIENT | (settings or {}),
        jvm_options=options,
        security=security,
        version=version,
        libraries=libraries,
    ) as cluster:
        yield SecureBrokers(
            cluster, authority, AdminClient({**cluster.admin_settings, "log_level": "0"})
        )

"""Broker configuration: pure functions from a node to its configuration and command line.

The settings suit brokers that start in seconds and share a small machine with tests and a demo.
"""

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from levelwind.deploy.ports import HOST

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Option of a JVM that lives for minutes: the optimizing compiler would cost more than it saves."""
JVM_OPTIONS = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    QUICK_COMPILER,
    "-Xshare:auto",
    # A broker whose heap is full answers some requests and leaves others unanswered for minutes.
    "-XX:+ExitOnOutOfMemoryError",
)

SETTINGS = {
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    "broker.heartbeat.interval.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "262144",
    "num.io.threads": "2",
    "num.network.threads": "1",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    # A consumer with a rack fetches from a replica there (KIP-392).
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "4",
}


LOG_ALLOWED = "-Dlevelwind.authorizer.level=DEBUG"
"""JVM option of brokers that log what their authorizer allows, too."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker, which is a controller as well, with its rack and ports."""

    id: int
    rack: str | None
    port: int
    controller_port: int
    advertised_port: int | None = None
    """Port that clients and brokers are to use instead of `port`; None for `port` itself."""
    advertised_controller_port: int | None = None
    """Port that brokers are to use instead of `controller_port`; None for that port itself."""
    mutual_tls_port: int | None = None
    """Port at which brokers with `BrokerSecurity` know clients by their certificates; else None."""

    @property
    def address(self) -> str:
        """Address for clients, `host:port`."""
        return f"{HOST}:{self.advertised_port or self.port}"

    @property
    def controller_address(self) -> str:
        """Address for brokers, `host:port`."""
        return f"{HOST}:{self.advertised_controller_port or self.controller_port}"

    @property
    def mutual_tls_address(self) -> str:
        """Address for clients with certificates, `host:port`."""
        return f"{HOST}:{self.mutual_tls_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """Encryption, authentication and authorization of brokers, which then have no open listener.

    Clients authenticate by SASL over TLS at a node's `port`, and by a certificate at its
    `mutual_tls_port`, as the brokers among themselves do. The common name of a certificate is the
    name of its user, so that both ways lead to the same principals.
    """

    keystore: Path
    """PEM file of the brokers' private key and certificate, which names the loopback address."""
    truststore: Path
    """PEM file of the authorities whose certificates count."""
    brokers_user: str
    """Common name of the brokers' certificate; the authorizer lets it do everything."""
    super_users: Sequence[str] = ()
    """Names of further users that the authorizer lets do everything."""
    admin: Mapping[str, str] = field(default_factory=dict)
    """Settings of librdkafka that the start authenticates with at `mutual_tls_port`."""
    authorize: bool = True
    """Whether the KRaft authorizer refuses what no ACL allows; else every user may do everything.
    """


def properties(
    node: Node,
    nodes: Sequence[Node],
    data: Path,
    overrides: Mapping[str, str],
    security: BrokerSecurity | None = None,
) -> str:
    """Text of a broker's `server.properties`."""
    copies = str(min(len(nodes), 3))
    in_sync = str(min(len(nodes), 2))
    voters = ",".join(f"{peer.id}@{peer.controller_address}" for peer in nodes)
    settings = {
        **SETTINGS,
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.replication.factor": copies,
        **overrides,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        **(_open_listeners(node) if security is None else _secure_listeners(node, security)),
        "log.dirs": str(data),
        "node.id": str(node.id),
        "process.roles": "broker,controller",
    }
    if node.rack is not None:
        settings["broker.rack"] = node.rack
    return "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(settings.items()))


def _advertised_controller(node: Node) -> str:
    """Further advertised listener of a controller whose port is not the one that others use.

    Brokers before 3.9 refuse every controller listener among the advertised ones.
    """
    if node.advertised_controller_port is None:
        return ""
    return f",CONTROLLER://{node.controller_address}"


def _open_listeners(node: Node) -> dict[str, str]:
    return {
        "advertised.listeners": f"PLAINTEXT://{node.address}{_advertised_controller(node)}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
    }


def _secure_listeners(node: Node, security: BrokerSecurity) -> dict[str, str]:
    users = (security.brokers_user, *security.super_users)
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    settings = {
        "advertised.listeners": (
            f"SASL_SSL://{node.address},SSL://{node.mutual_tls_address}"
            f"{_advertised_controller(node)}"
        ),
        "inter.broker.listener.name": "SSL",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL",
        "listeners": (
            f"SASL_SSL://{HOST}:{node.port},SSL://{HOST}:{node.mutual_tls_port},"
            f"CONTROLLER://{HOST}:{node.controller_port}"
        ),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.location": str(security.keystore),
        "ssl.keystore.type": "PEM",
        "ssl.principal.mapping.rules": r"RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "ssl.truststore.location": str(security.truststore),
        "ssl.truststore.type": "PEM",
    }
    if security.authorize:
        settings["authorizer.class.name"] = AUTHORIZER
        settings["super.users"] = ";".join(f"User:{user}" for user in users)
    return settings


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


def meta_properties(node: Node, cluster_id: str, directory_id: str) -> str:
    """Text of a data directory's `meta.properties`, as the storage tool writes it."""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node.id}\ndirectory.id={directory_id}\n"


def new_id() -> str:
    """Random id as Kafka prints it: 22 characters that do not begin with a dash."""
    while True:
        text = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def java_command(
    java: Path, jars: Sequence[Path], options: Sequence[str], main: str, *arguments: str
) -> list[str]:
    """Command line of one of Kafka's own programs."""
    log = Path(__file__).with_name("log4j2.xml")
    classpath = ":".join(map(str, jars))
    return [
        str(java),
        *options,
        f"-Dlog4j2.configurationFile={log.as_uri()}",
        "-cp",
        classpath,
        main,
        *arguments,
    ]

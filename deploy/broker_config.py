"""Broker configuration: pure functions from a node to its configuration and command line.

The settings suit brokers that start in seconds and share a small machine with tests and a demo.
"""

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.ports import HOST

JVM_OPTIONS = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

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

    @property
    def address(self) -> str:
        """Address for clients, `host:port`."""
        return f"{HOST}:{self.advertised_port or self.port}"

    @property
    def controller_address(self) -> str:
        """Address for brokers, `host:port`."""
        return f"{HOST}:{self.advertised_controller_port or self.controller_port}"


def properties(node: Node, nodes: Sequence[Node], data: Path, overrides: Mapping[str, str]) -> str:
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
        "advertised.listeners": (
            f"PLAINTEXT://{node.address},CONTROLLER://{node.controller_address}"
        ),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
        "log.dirs": str(data),
        "node.id": str(node.id),
        "process.roles": "broker,controller",
    }
    if node.rack is not None:
        settings["broker.rack"] = node.rack
    return "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(settings.items()))


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

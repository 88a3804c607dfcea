"""Brokers behind the proxy: it has every connection to a broker, a broker's or a client's."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from levelwind.deploy.broker_config import Node
from levelwind.deploy.cluster import Cluster
from levelwind_testing.chaos.proxy_process import HELD, LinkFault, ProxyProcess

SETTINGS = {
    # A broker that is cut off is fenced while its members still read from it; one that is late on a
    # busy machine is not.
    "broker.session.timeout.ms": "8000",
    "controller.quorum.fetch.timeout.ms": "6000",
    "controller.socket.timeout.ms": "5000",
    "replica.lag.time.max.ms": "10000",
    # All commits stay readable: the offsets topic is never compacted during a run.
    "log.cleaner.backoff.ms": "3600000",
}


def broker_name(broker: int) -> str:
    """Name of a broker in the proxy."""
    return f"broker-{broker}"


@dataclass(slots=True)
class ProxiedCluster:
    """A cluster and the proxy before it."""

    cluster: Cluster
    proxy: ProxyProcess

    def cut(self, broker: int, with_parties: tuple[str, ...], others: tuple[str, ...]) -> list[int]:
        """Cut a broker off from the other brokers; the numbers of the faults.

        Args:
            broker: the broker that keeps its clients and loses its peers.
            with_parties: clients that reach this broker alone.
            others: clients that reach the other brokers alone.
        """
        alone = broker_name(broker)
        peers = [broker_name(node.id) for node in self.cluster.nodes if node.id != broker]
        faults = [
            LinkFault(sources=[alone, *with_parties], destinations=peers, up=HELD, down=HELD),
            LinkFault(sources=[*peers, *others], destinations=[alone], up=HELD, down=HELD),
        ]
        return self.proxy.begin(*faults)


@contextmanager
def proxied_cluster(directory: Path) -> Iterator[ProxiedCluster]:
    """Start three brokers behind a proxy of their own; their logs stay in the directory."""
    with ProxyProcess() as proxy:

        def advertise(node: Node) -> Node:
            name = broker_name(node.id)
            return replace(
                node,
                advertised_port=proxy.listen(name, node.port),
                advertised_controller_port=proxy.listen(name, node.controller_port),
            )

        with Cluster.start(directory=directory, settings=SETTINGS, advertise=advertise) as cluster:
            yield ProxiedCluster(cluster, proxy)

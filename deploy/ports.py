"""Ports on loopback that nobody listens on."""

import random
import socket
from collections.abc import Iterator

HOST = "127.0.0.1"

# Below the range from which Linux and macOS take ports for outgoing connections, so that nobody takes a broker's port while
# it is down for a moment.
_RANGE = range(20_000, 32_000)


def free_ports() -> Iterator[int]:
    """Free ports, in no order, so that two who look at once seldom meet; none twice."""
    return (port for port in random.SystemRandom().sample(_RANGE, len(_RANGE)) if is_free(port))


def is_free(port: int) -> bool:
    """Whether one could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the brokers do
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def answers(port: int) -> bool:
    """Whether somebody listens there now."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0

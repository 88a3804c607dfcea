"""Free ports on loopback."""

import random
import socket
from collections.abc import Iterator

HOST = "127.0.0.1"

# Below the range of ports that Linux and macOS use for outgoing connections, so that no connection
# takes the port of a broker that is down for a moment.
_RANGE = range(20_000, 32_000)


def free_ports() -> Iterator[int]:
    """Free ports in random order, none twice, so that concurrent searches rarely collide."""
    return (port for port in random.SystemRandom().sample(_RANGE, len(_RANGE)) if is_free(port))


def is_free(port: int) -> bool:
    """Whether a process could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the brokers do
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def answers(port: int) -> bool:
    """Whether a process listens on the port now."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0

"""Owners of loopback connections: the process behind a connection, from the kernel (Linux)."""

import os
import socket
import struct
import time
from pathlib import Path

_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)
_LOOPBACK = socket.inet_aton("127.0.0.1") + bytes(12)


class SocketTable:
    """Questions to the kernel about one socket each; they cost microseconds."""

    def __init__(self) -> None:
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)
        self._netlink.settimeout(1)

    def inode(self, port: int, peer_port: int) -> int | None:
        """Inode of the loopback socket at `port` that is connected to `peer_port`.

        Returns:
            None if there is no such socket, or no process has it any more.
        """
        connection = struct.pack(">HH", port, peer_port) + _LOOPBACK * 2
        request = (
            struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES)
            + connection
            + struct.pack("=III", 0, *_NO_COOKIE)
        )
        header = struct.pack("=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
        self._netlink.send(header + request)
        answer = self._netlink.recv(4096)
        _, kind = struct.unpack_from("=IH", answer)
        if kind != _SOCK_DIAG_BY_FAMILY:
            return None
        # Behind the header: four bytes, the connection (48), then expiry, two queues and the user.
        (inode,) = struct.unpack_from("=I", answer, 16 + 4 + 48 + 16)
        return inode or None


class ProcessSockets:
    """Sockets of named processes; a look costs microseconds a descriptor."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._files: dict[int, set[str]] = {}
        """By process, descriptors that were no sockets at the last look: most of a broker's."""

    def add(self, pid: int, name: str) -> None:
        """Name a process; an earlier process of that name is forgotten."""
        for other in [other for other, known in self._names.items() if known == name]:
            del self._names[other], self._files[other]
        self._names[pid], self._files[pid] = name, set()

    def owner(self, inode: int) -> str | None:
        """Name of the process that has a socket; None if none of the named ones has."""
        link = f"socket:[{inode}]"
        if (name := self._find(link)) is None:
            # A descriptor that was a file may be a socket now.
            for files in self._files.values():
                files.clear()
            name = self._find(link)
        return name

    def _find(self, link: str) -> str | None:
        for pid, name in self._names.items():
            directory, files = f"/proc/{pid}/fd", self._files[pid]
            try:
                descriptors = os.listdir(directory)  # noqa: PTH208 - paths would take longer
            except OSError:  # it has ended
                continue
            for descriptor in descriptors:
                if descriptor in files:
                    continue
                try:
                    target = os.readlink(f"{directory}/{descriptor}")  # noqa: PTH115 - likewise
                except OSError:  # closed meanwhile
                    continue
                if target == link:
                    return name
                if not target.startswith("socket:"):
                    files.add(descriptor)
        return None


def child_of(parent: int, within: float = 10.0) -> int:
    """Process id of the only child of a guard.

    Raises:
        ProcessLookupError: no child within the time.
    """
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            break
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise ProcessLookupError(f"process {parent} has no child")


def all_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped by a signal."""
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(stat.read_text().rpartition(")")[2].split()[0])
        except OSError:  # the thread has ended
            continue
    return bool(states) and all(state in "Tt" for state in states)

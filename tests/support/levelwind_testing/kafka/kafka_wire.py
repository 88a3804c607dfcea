"""A commit that expires, as old clients sent it: OffsetCommit version 2."""

import socket
import struct

NOT_COORDINATOR, LOADING = 16, 14


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def commit_that_expires(
    bootstrap: str, group: str, topic: str, partition: int, offset: int, retention: int
) -> None:
    """Commit an offset for `retention` milliseconds, at the broker that coordinates the group."""
    head = struct.pack(">hhi", 8, 2, 1) + _string("truth")
    body = _string(group) + struct.pack(">i", -1) + _string("") + struct.pack(">q", retention)
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iiq", 1, partition, offset) + _string("")
    request = head + body
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.makefile("rb")
            (size,) = struct.unpack(">i", answer.read(4))
            (error,) = struct.unpack(">h", answer.read(size)[-2:])
        if error == 0:
            return
        assert error in (NOT_COORDINATOR, LOADING), error
    raise AssertionError("no broker coordinates the group")


def offsets_partition(group: str, count: int) -> int:
    """The partition of the offsets topic, of `count`, that a group's commits are written to.

    The coordinator takes the absolute hash of a Java string (`Utils.abs`); the name is ASCII.
    """
    number = 0
    for letter in group.encode("ascii"):
        number = (31 * number + letter) & 0xFFFFFFFF
    absolute = min(number, (1 << 32) - number) & 0x7FFFFFFF
    return absolute % count

"""What the brokers tell of members, and what is said where they do not."""

import asyncio
import struct

from levelwind.daemon.config.settings import load
from levelwind.daemon.inspection.live_members import (
    describe_groups,
    described_members,
    members_by_group,
)
from levelwind.daemon.wire.client_security import ClientSecurity
from levelwind.daemon.wire.describe_requests import DescribedGroup, DescribedMember
from levelwind_testing.waiting import GENEROUS_SECONDS


def test_brokers_are_asked_at_the_addresses_that_all_clients_of_the_daemon_use(capfd):
    settings = load(None, {"bootstrap": "PLAINTEXT://127.0.0.1:1"})  # nobody listens there
    assert described_members(settings, ["g"]) == {}
    warning = capfd.readouterr().err
    assert "hosts and client ids of 1 groups are not known: g: " in warning
    assert "127.0.0.1:1" in warning
    assert "PLAINTEXT" not in warning


DESCRIBE_GROUPS, FIND_COORDINATOR, API_VERSIONS = 15, 10, 18


def test_a_coordinator_that_answers_nothing_about_a_group_is_waited_for_once():
    asked = []

    async def serve(reader, writer):
        """Answer who coordinates, always this broker, and nothing about groups."""
        while head := await reader.read(4):
            request = await reader.readexactly(struct.unpack(">i", head)[0])
            key, _, correlation = struct.unpack(">hhi", request[:8])
            host, port = writer.get_extra_info("sockname")
            if key == API_VERSIONS:
                keys = (FIND_COORDINATOR, DESCRIBE_GROUPS, API_VERSIONS)
                body = struct.pack(">hi", 0, len(keys))
                body += b"".join(struct.pack(">hhh", key, 0, 9) for key in keys)
            elif key == FIND_COORDINATOR:
                name = struct.pack(">h", len(host)) + host.encode()
                body = struct.pack(">ihhi", 0, 0, -1, 1) + name + struct.pack(">i", port)
            else:
                asked.append(key)
                continue
            writer.write(struct.pack(">ii", 4 + len(body), correlation) + body)
        writer.close()

    async def describe():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()
            async with asyncio.timeout(GENEROUS_SECONDS):
                return address, await describe_groups([address], "abc", ClientSecurity(), 0.5)

    (host, port), (described, failures) = asyncio.run(describe())
    assert described == {}
    assert failures == dict.fromkeys("abc", f"{host}:{port}: no answer in time")
    assert asked == [DESCRIBE_GROUPS]


class AnsweringConnection:
    """A connection with an answer for each group; where there is none, it never comes."""

    def __init__(self, **answers):
        self.answers, self.versions = answers, {}
        self.asked = []

    async def ask(self, request):
        self.asked.append(request.group)
        if request.group not in self.answers:
            await asyncio.get_running_loop().create_future()
        return self.answers[request.group]


def test_a_refusal_concerns_one_group_and_silence_all_that_are_left():
    member = DescribedMember("m", None, "app")
    connection = AnsweringConnection(
        a=DescribedGroup(30, "", "", "", ()),
        b=DescribedGroup(0, "Stable", "consumer", "range", (member,)),
    )
    members, failures = asyncio.run(members_by_group(connection, ["a", "b", "c", "d"], 0.1))
    assert members == {"b": (member,)}
    assert failures == {
        "a": "the coordinator answers with error 30",
        "c": "no answer in time",
        "d": "no answer in time",
    }
    assert connection.asked == ["a", "b", "c"]

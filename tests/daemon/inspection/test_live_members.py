"""What the brokers tell of members, and what is said where they do not."""

import asyncio
import struct

from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    compact_array,
    compact_string,
    int16,
    int32,
    nullable_bytes,
    string,
)
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


SILENT_SECONDS = GENEROUS_SECONDS / 2


def pass_time(seconds):
    """Let the clock of the loop go ahead."""
    loop = asyncio.get_running_loop()
    loop.time = lambda time=loop.time: time() + seconds


class OnlyBroker:
    """A broker that coordinates all groups and, unless it describes them, says no more of them.

    With each request that it leaves without an answer, `SILENT_SECONDS` pass.
    """

    def __init__(self, *, describes=False):
        self.describes = describes
        self.asked = []
        """Keys of its requests, without those for its versions."""

    async def serve(self, reader, writer):
        while head := await reader.read(4):
            request = Reader(await reader.readexactly(struct.unpack(">i", head)[0]))
            key, _ = request.int16(), request.int16()
            correlation, _ = request.int32(), request.string()
            if key != API_VERSIONS:
                self.asked.append(key)
            if key == API_VERSIONS:
                keys = (FIND_COORDINATOR, DESCRIBE_GROUPS, API_VERSIONS)
                body = int16(0) + array([int16(key) + int16(0) + int16(9) for key in keys])
            elif key == FIND_COORDINATOR:
                body = self.found(request, *writer.get_extra_info("sockname"))
            elif self.describes:
                body = self.described(request)
            else:
                pass_time(SILENT_SECONDS)
                continue
            writer.write(nullable_bytes(int32(correlation) + body))
        writer.close()

    def found(self, request, host, port):
        request.tags()
        request.int8()  # the keys are groups
        groups = request.array(lambda: request.string(compact=True), compact=True)
        address = int32(1) + compact_string(host) + int32(port) + int16(0) + b"\0" + b"\0"
        return (
            b"\0" + int32(0) + compact_array([compact_string(g) + address for g in groups]) + b"\0"
        )

    def described(self, request):
        (group,) = request.array(request.string)
        empty = int16(0) + string(group) + 3 * string("") + array([]) + int32(0)
        return int32(0) + array([empty])

    def describe(self, groups, within):
        """What it says, and its host and port."""

        async def describe():
            async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
                address = server.sockets[0].getsockname()
                async with asyncio.timeout(GENEROUS_SECONDS):
                    return address, await describe_groups(
                        [address], groups, ClientSecurity(), within
                    )

        return asyncio.run(describe())


def test_a_coordinator_that_answers_nothing_about_a_group_is_waited_for_once():
    broker = OnlyBroker()
    (host, port), (described, failures) = broker.describe("abc", SILENT_SECONDS / 2)
    assert described == {}
    assert failures == dict.fromkeys("abc", f"{host}:{port}: no answer in time")
    assert broker.asked == [FIND_COORDINATOR, DESCRIBE_GROUPS]


def test_many_groups_are_located_by_a_few_questions():
    """One each, all at once, waited behind each other for longer than an answer may take."""
    broker = OnlyBroker(describes=True)
    groups = [f"g{number}" for number in range(1500)]
    _, (described, failures) = broker.describe(groups, GENEROUS_SECONDS)
    assert described == {group: {} for group in groups}
    assert failures == {}
    assert broker.asked.count(FIND_COORDINATOR) == 2


def test_that_no_broker_names_coordinators_is_said_of_each_group():
    groups = ["a", "b"]
    nobody = describe_groups([("127.0.0.1", 1)], groups, ClientSecurity(), GENEROUS_SECONDS)
    described, failures = asyncio.run(nobody)
    assert (described, [*failures]) == ({}, groups)
    assert "127.0.0.1:1" in failures["a"]


def test_a_name_that_no_host_can_have_costs_that_broker_alone():
    """The system never sees it: Python cannot encode it."""
    groups = describe_groups([("a..b", 1)], ["g"], ClientSecurity(), GENEROUS_SECONDS)
    described, failures = asyncio.run(groups)
    assert described == {}
    assert failures["g"].startswith("a..b:1: encoding with 'idna' codec failed")


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

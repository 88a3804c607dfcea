"""Connections to real brokers, some of whose hosts are silent."""

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest

from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import (
    LAST_CORRELATION,
    ConnectionFailedError,
    open_connection,
)
from levelwind.daemon.wire.client_security import ClientSecurity, client_security
from levelwind.daemon.wire.group_requests import ApiVersionsRequest
from levelwind.daemon.wire.shared_connections import SharedConnections
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.refused_threads import REFUSAL, refused_threads
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytestmark = pytest.mark.integration

CLIENT_ID = "test"
HOURS = 4 * 3600.0
"""Time of a broker to answer, for which a test cannot wait."""


def test_a_silent_broker_holds_up_neither_the_search_for_the_coordinator_nor_for_the_others(
    client_config, fresh
):
    brokers = addresses(client_config["bootstrap.servers"])
    security, group = client_security(client_config), fresh("group")

    def found(*bootstrap):
        return asyncio.run(ask(bootstrap))

    async def ask(bootstrap):
        connections = SharedConnections(bootstrap, security, CLIENT_ID, HOURS)
        try:
            return await connections.coordinator(group), await connections.brokers()
        finally:
            connections.close()

    def has_coordinator():
        with suppress(ConnectionFailedError):
            return found(*brokers)

    wait_until("coordinator", has_coordinator)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never answers
        coordinator, others = found(silent.getsockname(), *brokers)  # long before its time is over
    assert coordinator in brokers
    assert {*others.values()} == {*brokers}


@pytest.fixture
def hole():
    """The address of a socket that answers no connection, since its queue is full."""
    with ExitStack() as opened, socket.socket() as hole:
        hole.bind(("127.0.0.2", 0))
        hole.listen(0)
        for _ in range(4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(hole.getsockname())
        yield hole.getsockname()


def test_an_address_that_does_not_answer_gives_way_to_the_next_one_of_its_host(client_config, hole):
    host, port = addresses(client_config["bootstrap.servers"])[0]

    async def versions():
        loop = asyncio.get_running_loop()
        resolve = loop.getaddrinfo

        async def resolved(_name, _port, **options):
            real = await resolve(host, port, **options)
            return [(*real[0][:4], hole), *real]

        loop.getaddrinfo = resolved
        # The system itself gives an address up only after two minutes.
        connection = await open_connection("several", port, ClientSecurity(), CLIENT_ID, 60.0)
        connection.close()
        return connection.versions

    assert ApiVersionsRequest.KEY in asyncio.run(versions())


def test_the_numbers_of_requests_begin_anew_after_the_last_one(client_config):
    (address, *_) = addresses(client_config["bootstrap.servers"])

    async def answers():
        connection = await open_connection(*address, ClientSecurity(), CLIENT_ID)
        connection._correlation = LAST_CORRELATION - 1
        try:
            return [await connection.ask(ApiVersionsRequest()) for _ in range(3)]
        finally:
            connection.close()

    first, *others = asyncio.run(answers())
    assert [*others] == [first, first]


def test_a_broker_that_owes_an_answer_is_asked_last(client_config):
    brokers = addresses(client_config["bootstrap.servers"])

    async def order():
        connections = SharedConnections(brokers, client_security(client_config), CLIENT_ID)
        try:
            first, second = [await connections.to(address) for address in brokers[:2]]
            first.send(ApiVersionsRequest(), lambda _: None)
            known = connections._known()
            assert second.awaits == ()
            return known
        finally:
            connections.close()

    first, second, *others = brokers
    assert asyncio.run(order()) == [second, first, *others]


def test_all_that_ask_a_broker_share_a_connection_and_hear_when_it_is_lost(client_config):
    brokers = addresses(client_config["bootstrap.servers"])

    async def ask_together():
        connections = SharedConnections(brokers, client_security(client_config), CLIENT_ID)
        try:
            address = brokers[0]
            opened = await asyncio.gather(*(connections.to(address) for _ in range(20)))
            assert len({*opened, await connections.to(address)}) == 1
            assert await connections.to(address, lane=1) is not opened[0]
            assert await connections.alone(address) not in opened

            questions = [connections.ask(address, ApiVersionsRequest()) for _ in range(20)]
            answers = await asyncio.gather(*questions)
            assert all(answer == answers[0] for answer in answers)

            waiting = [asyncio.create_task(opened[0].ask(ApiVersionsRequest())) for _ in range(3)]
            await asyncio.sleep(0)
            opened[0].fail("broken")
            lost = await asyncio.gather(*waiting, return_exceptions=True)
            assert [str(each) for each in lost] == ["broken"] * 3
            with pytest.raises(ConnectionFailedError, match="ended"):
                await opened[0].ask(ApiVersionsRequest())
            assert await connections.to(address) not in opened
        finally:
            connections.close()

    asyncio.run(ask_together())


def test_a_connection_that_the_broker_ends_since_nobody_asks_is_opened_anew():
    idle = {"connections.max.idle.ms": "5000"}
    with Cluster.start(1, settings=PATIENT | idle) as cluster:
        (address,) = addresses(cluster.bootstrap)

        async def ask_now_and_then():
            connections = SharedConnections([address], ClientSecurity(), CLIENT_ID)
            try:
                first = await connections.to(address)
                answer = await connections.ask(address, ApiVersionsRequest())
                ended = asyncio.Event()
                first.send(ApiVersionsRequest(), lambda _: None)
                known, first.on_lost = first.on_lost, lambda reason: (known(reason), ended.set())
                await asyncio.wait_for(ended.wait(), GENEROUS_SECONDS)
                assert await connections.ask(address, ApiVersionsRequest()) == answer
                with pytest.raises(ConnectionFailedError, match="ended"):
                    await first.ask(ApiVersionsRequest())
            finally:
                connections.close()

        asyncio.run(ask_now_and_then())


def test_a_name_that_no_thread_looks_up_is_a_broker_that_cannot_be_reached():
    """The refusal ended what the leader proxy did for a group."""
    with (
        refused_threads("asyncio"),
        pytest.raises(ConnectionFailedError, match=f"localhost:1: {REFUSAL}"),
    ):
        asyncio.run(open_connection("localhost", 1, ClientSecurity(), CLIENT_ID))

"""Connections to brokers of which some are silent, and the end of encrypted ones."""

import asyncio
import socket
from collections import deque
from contextlib import closing

import pytest

from levelwind.daemon.wire import shared_connections
from levelwind.daemon.wire.broker_connection import open_connection
from levelwind.daemon.wire.client_security import ClientSecurity, client_security
from levelwind.daemon.wire.group_requests import COORDINATOR_NOT_AVAILABLE
from levelwind.daemon.wire.poll_requests import FindCoordinatorsRequest
from levelwind.daemon.wire.shared_connections import SharedConnections
from levelwind_testing.kafka.scripted_broker import ScriptedBroker
from levelwind_testing.security.certificates import Authority

FIND = FindCoordinatorsRequest.KEY


@pytest.fixture
def silent():
    """The address of a broker that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


def asked(bootstrap, *questions, within=60.0):
    """What connections to some brokers make of questions, one after the other, in that time."""

    async def ask():
        with closing(SharedConnections(bootstrap, ClientSecurity(), "test", within)) as connections:
            async with asyncio.timeout(within):
                return [await question(connections) for question in questions]

    return asyncio.run(ask())


async def coordinators(connections):
    return await connections.by_coordinator(["g"])


def test_silent_brokers_leave_time_for_one_that_answers(broker, silent, monkeypatch):
    monkeypatch.setattr(shared_connections, "NEXT_BROKER_SECONDS", 1e6)
    (answer,) = asked([silent, broker.address], coordinators, within=6.0)
    assert answer == ({broker.address: ["g"]}, [])


def test_the_broker_that_answered_last_is_asked_first_when_its_connection_has_ended(
    broker, silent, monkeypatch
):
    monkeypatch.setattr(shared_connections, "NEXT_BROKER_SECONDS", 0.1)

    async def hang_up(connections):
        connections.fail(broker.address, "broken")
        return connections._known()

    answers = asked([silent, broker.address], coordinators, hang_up, coordinators)
    assert answers[1] == [broker.address, silent]
    assert answers[0] == answers[2] == ({broker.address: ["g"]}, [])


def test_a_broker_that_names_no_coordinators_gives_way_to_the_next_one(broker, other):
    broker.refusals[FIND] = deque([COORDINATOR_NOT_AVAILABLE])
    answers = asked([broker.address, other.address], coordinators, coordinators)
    assert answers == [({other.address: ["g"]}, [])] * 2
    assert broker.asked == [FIND], "the other one is asked first from then on"


def test_behind_an_answer_that_names_none_all_others_are_asked_at_once(
    broker, other, silent, monkeypatch
):
    monkeypatch.setattr(shared_connections, "NEXT_BROKER_SECONDS", 1e6)
    broker.refusals[FIND] = deque([COORDINATOR_NOT_AVAILABLE])
    wait, in_vain = asyncio.wait, []

    async def watched(asked, **options):
        done, pending = await wait(asked, **options)
        in_vain.extend([pending] * (not done))
        return done, pending

    monkeypatch.setattr(asyncio, "wait", watched)
    (answer,) = asked([broker.address, silent, other.address], coordinators)
    assert answer == ({other.address: ["g"]}, [])
    assert in_vain == []


def test_that_no_broker_names_a_coordinator_is_an_answer(broker, other, silent, monkeypatch):
    monkeypatch.setattr(shared_connections, "NEXT_BROKER_SECONDS", 0.1)
    for each in (broker, other):
        each.refusals[FIND] = deque([COORDINATOR_NOT_AVAILABLE])
    ((led_by, (without,)),) = asked([broker.address, other.address, silent], coordinators)
    assert (led_by, without.error) == ({}, COORDINATOR_NOT_AVAILABLE)


def test_an_encrypted_connection_leaves_no_file_open(tmp_path):
    authority = Authority(tmp_path)
    security = {"security.protocol": "ssl", "ssl.ca.location": str(authority.certificate)}

    async def opened():
        connection = await open_connection(*broker.address, client_security(security), "test")
        used = connection._transport.get_extra_info("socket")
        connection.close()
        return used

    with ScriptedBroker(tls=authority.server("broker")) as broker:
        assert asyncio.run(opened()).fileno() == -1

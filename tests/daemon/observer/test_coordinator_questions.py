"""Questions to coordinators of which some are silent, gone, changing or old."""

import socket
import threading
from collections import deque
from contextlib import ExitStack, closing
from functools import partial

import pytest
from confluent_kafka import KafkaError

from levelwind.daemon.observer import coordinator_questions
from levelwind.daemon.observer.coordinator_questions import CoordinatorQuestions
from levelwind.daemon.observer.group_commits import fetch_commits
from levelwind.daemon.wire import shared_connections
from levelwind.daemon.wire.group_requests import (
    COORDINATOR_LOADING,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    NOT_COORDINATOR,
)
from levelwind.daemon.wire.poll_requests import FetchOffsetsRequest, FindCoordinatorsRequest
from levelwind_testing.kafka.scripted_broker import COMMITTED, OLD, ScriptedBroker
from levelwind_testing.security.certificates import Authority
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

FIND, FETCH = FindCoordinatorsRequest.KEY, FetchOffsetsRequest.KEY
SHORT = 4.0
"""Seconds that are waited for a silent broker; others answer sooner, over connections that exist.
"""
PATIENT = GENEROUS_SECONDS


@pytest.fixture
def questions():
    """Makes askers, which are closed in the end."""
    with ExitStack() as made:

        def make(*addresses, **security):
            servers = ",".join(f"{host}:{port}" for host, port in addresses)
            config = {"bootstrap.servers": servers, **security}
            return made.enter_context(closing(CoordinatorQuestions(config, "me")))

        yield make


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(coordinator_questions, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(coordinator_questions, "CHANGE_SECONDS", PATIENT)
    monkeypatch.setattr(shared_connections, "NEXT_BROKER_SECONDS", PATIENT)


def answers(asker, *groups, within=PATIENT):
    """Groups with an answer, the codes of the others, and those that only librdkafka can ask."""
    committed = {}
    failures, left = asker.ask(groups, within, partial(fetch_commits, committed))
    assert all(one.offsets == {("t", 0): COMMITTED} for one in committed.values())
    return sorted(committed), {group: error.code() for group, error in failures.items()}, left


def test_many_questions_take_one_connection(broker, questions):
    asker = questions(broker.address)
    for _ in range(3):
        assert answers(asker, "g") == (["g"], {}, [])
    assert broker.connections == 1
    asker.close()
    assert answers(asker, "g") == (["g"], {}, [])
    assert broker.connections == 2


def test_a_connection_that_ended_at_rest_is_opened_anew(broker, questions):
    asker = questions(broker.address)
    for number in (1, 2):
        assert answers(asker, "g") == (["g"], {}, [])
        assert broker.connections == number
        broker.hang_up()


@pytest.mark.slow
def test_a_coordinator_that_was_silent_is_not_waited_for_with_each_question(
    broker, other, questions, monkeypatch
):
    broker.coordinators = {"hung": other.address}
    asker = questions(broker.address)
    assert answers(asker, "g", "hung") == (["g", "hung"], {}, [])
    other.silent = True
    silence = {"hung": KafkaError._TIMED_OUT}
    for _ in range(3):
        assert answers(asker, "g", "hung", within=SHORT) == (["g"], silence, [])
    assert other.asked == [FETCH] * 2
    other.silent = False
    assert answers(asker, "g", "hung") == (["g", "hung"], {}, []), "more patience asks it"
    assert answers(asker, "g", "hung", within=SHORT)[1] == {}
    other.silent = True
    monkeypatch.setattr(coordinator_questions, "REST_SECONDS", 0.0)
    asked = len(other.asked)
    for _ in range(2):
        assert answers(asker, "hung", within=SHORT) == ([], silence, [])
    assert len(other.asked) == asked + 2


def test_the_first_broker_that_names_no_coordinator_is_believed_where_none_is_asked_again(
    broker, other, questions, monkeypatch
):
    """Each of the others might hang, and would be waited for with each question."""
    monkeypatch.setattr(coordinator_questions, "CHANGE_SECONDS", 0.0)
    broker.refusals[FIND] = deque([COORDINATOR_NOT_AVAILABLE])
    found = answers(questions(broker.address, other.address), "g")
    assert found == ([], {"g": COORDINATOR_NOT_AVAILABLE}, [])
    assert other.asked == []


@pytest.mark.parametrize("key", [FIND, FETCH])
@pytest.mark.parametrize("error", [COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOADING, NOT_COORDINATOR])
def test_groups_whose_coordinator_changes_are_asked_for_again(broker, questions, key, error):
    broker.refusals[key] = deque([error, error])
    assert answers(questions(broker.address), "g") == (["g"], {}, [])


def test_a_refusal_that_lasts_is_not_asked_for_again(broker, questions):
    broker.refusals[FETCH] = deque([GROUP_AUTHORIZATION_FAILED])
    found = answers(questions(broker.address), "g")
    assert found == ([], {"g": GROUP_AUTHORIZATION_FAILED}, [])
    assert broker.asked == [FIND, FETCH]


def test_a_coordinator_that_is_missing_for_long_is_not_waited_for_with_each_question(
    broker, questions, monkeypatch
):
    monkeypatch.setattr(coordinator_questions, "CHANGE_SECONDS", 0.1)
    broker.refusals[FIND] = deque([COORDINATOR_NOT_AVAILABLE] * 1000)
    asker, missing = questions(broker.address), ([], {"g": COORDINATOR_NOT_AVAILABLE}, [])
    assert answers(asker, "g") == missing
    asked = len(broker.asked)
    assert answers(asker, "g") == missing
    assert len(broker.asked) == asked + 1


def test_a_coordinator_that_is_gone_costs_its_own_groups(broker, questions, monkeypatch):
    monkeypatch.setattr(coordinator_questions, "CHANGE_SECONDS", 0.1)
    broker.coordinators = {"gone": ("127.0.0.1", 1)}
    found = answers(questions(broker.address), "g", "gone")
    assert found == (["g"], {"gone": KafkaError._TRANSPORT}, [])


def test_groups_of_an_older_coordinator_are_left_to_librdkafka(broker, other, questions):
    broker.coordinators, other.versions = {"older": other.address}, OLD
    asker = questions(broker.address)
    assert answers(asker, "g", "older") == (["g"], {}, ["older"])
    assert other.asked == []


def test_a_name_that_no_request_can_hold_costs_the_groups_of_its_coordinator(broker, questions):
    async def refuse(_connections, _address, _groups):
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    failures, left = questions(broker.address).ask(["g"], PATIENT, refuse)
    assert {group: error.code() for group, error in failures.items()} == {"g": KafkaError._BAD_MSG}
    assert left == []


def test_names_that_cannot_be_resolved_take_no_longer_than_the_question(questions, monkeypatch):
    released, in_time = threading.Event(), []

    def resolve(*_args, **_options):
        in_time.append(released.wait(PATIENT))
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    asker = questions(("kafka.invalid", 9092))
    assert answers(asker, "g", within=0.5) == ([], {"g": KafkaError._TIMED_OUT}, [])
    asker.close()
    released.set()
    wait_until("end of the look-up", lambda: in_time)
    assert in_time == [True]


def test_encrypted_connections_leave_no_file_open(tmp_path, questions):
    authority = Authority(tmp_path)
    with ScriptedBroker(tls=authority.server("broker")) as broker:
        security = {"security.protocol": "ssl", "ssl.ca.location": str(authority.certificate)}
        asker = questions(broker.address, **security)
        for _ in range(2):
            assert answers(asker, "g") == (["g"], {}, [])
        assert broker.connections == 1
        (connection,) = asker._connections._open.values()
        socket_of_it = connection._transport.get_extra_info("socket")
        asker.close()
        assert socket_of_it.fileno() == -1

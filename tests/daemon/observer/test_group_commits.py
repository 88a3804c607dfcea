"""The way in which groups are asked for their commits, and the answers."""

import asyncio
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from levelwind.assignors.protocol.kafka.types import compact_array
from levelwind.daemon.observer import coordinator_questions
from levelwind.daemon.observer.coordinator_questions import CoordinatorQuestions
from levelwind.daemon.observer.group_commits import (
    GROUPS_ASKED,
    GroupCommits,
    commits_by_librdkafka,
    fetch_commits,
)
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.group_requests import GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR
from levelwind.daemon.wire.poll_requests import (
    PLAIN_END,
    PLAIN_PARTITION,
    FetchedGroup,
    FetchOffsetsRequest,
    FindCoordinatorsRequest,
    FoundCoordinator,
)

BROKERS = {"bootstrap.servers": "a:1"}
NEW = {FindCoordinatorsRequest.KEY: (0, 6), FetchOffsetsRequest.KEY: (0, 10)}
OLD = {FindCoordinatorsRequest.KEY: (0, 3), FetchOffsetsRequest.KEY: (0, 7)}


def plain(*offsets):
    """Partitions as a broker writes them."""
    return compact_array([PLAIN_PARTITION.pack(*one, 0, *PLAIN_END) for one in enumerate(offsets)])


class KnownBrokers:
    """Brokers whose coordinator of a group is its name up to a dash."""

    def __init__(self, versions=NEW):
        self._versions, self.questions = versions, []

    def __call__(self, *_):
        return self

    async def versions(self):
        return self._versions

    async def to(self, _address):
        return SimpleNamespace(versions=self._versions)

    def fail(self, address, reason):
        self.questions.append((address[0], reason))

    async def by_coordinator(self, groups, **_options):
        led_by, without = {}, []
        for group in groups:
            if group == "hidden":
                without.append(FoundCoordinator(group, GROUP_AUTHORIZATION_FAILED))
            else:
                led_by.setdefault((group.split("-")[0], 0), []).append(group)
        return led_by, without

    async def ask(self, address, request):
        self.questions.append(request.groups)
        if address[0] == "hung":
            await asyncio.Event().wait()
        if address[0] == "gone":
            raise ConnectionFailedError("gone:0: refused")
        return [
            FetchedGroup(group, NOT_COORDINATOR if "moved" in group else 0, {"t": plain(7, -1)})
            for group in request.groups
        ]

    def close(self):
        self.questions.append("closed")


@pytest.fixture
def brokers(monkeypatch):
    known = KnownBrokers()
    monkeypatch.setattr(coordinator_questions, "SharedConnections", known)
    return known


@pytest.fixture
def asked_of_librdkafka():
    return []


@pytest.fixture
def librdkafka(asked_of_librdkafka):
    def ask(questions, request_timeout):
        asked_of_librdkafka.append(request_timeout)
        (question,) = questions
        answer = Future()
        if question.group_id == "hidden":
            answer.set_exception(KafkaException(KafkaError(GROUP_AUTHORIZATION_FAILED)))
        else:
            offsets = (
                ("t", 0, 7, None),
                ("t", 1, -1001, None),
                ("t", 2, 9, KafkaError(NOT_COORDINATOR)),
            )
            names = ("topic", "partition", "offset", "error")
            found = [SimpleNamespace(**dict(zip(names, one, strict=True))) for one in offsets]
            answer.set_result(SimpleNamespace(topic_partitions=found))
        return {question.group_id: answer}

    return SimpleNamespace(list_consumer_group_offsets=ask)


def asked(groups, within):
    committed = {}
    with closing(CoordinatorQuestions(BROKERS, "me")) as questions:
        failures, left = questions.ask(groups, within, partial(fetch_commits, committed))
    assert left == []
    return {group: one.offsets for group, one in committed.items()}, failures


def codes(failures):
    return {group: error.code() for group, error in failures.items()}


def test_a_group_without_an_answer_costs_itself_alone(brokers):
    groups = ["up-1", "up-moved", "hung-1", "gone-1", "hidden"]
    committed, failures = asked(groups, 0.1)
    assert committed == {"up-1": {("t", 0): 7}}
    assert brokers.questions[-2:] == [("hung", "no answer in time"), "closed"]
    assert codes(failures) == {
        "up-moved": NOT_COORDINATOR,
        "hung-1": KafkaError._TIMED_OUT,
        "gone-1": KafkaError._TRANSPORT,
        "hidden": GROUP_AUTHORIZATION_FAILED,
    }
    assert failures["gone-1"].str() == "gone:0: refused"
    assert GroupCommits(BROKERS, None, "me").read(groups, 0.1) == committed


def test_a_coordinator_of_many_groups_is_asked_in_parts(brokers):
    groups = [f"up-{number}" for number in range(GROUPS_ASKED + 1)]
    assert GroupCommits(BROKERS, None, "me").read(groups, 60).keys() == {*groups}
    assert brokers.questions == [groups[:-1], groups[-1:]]


def test_nobody_is_asked_for_no_group(brokers):
    assert GroupCommits(BROKERS, None, "me").read([], 60) == {}
    assert brokers.questions == []


def test_without_any_broker_all_groups_have_the_reason(monkeypatch, brokers):
    async def versions():
        raise ConnectionFailedError("a:1: refused")

    monkeypatch.setattr(brokers, "versions", versions)
    monkeypatch.setattr(coordinator_questions, "CHANGE_SECONDS", 0.0)
    committed, failures = asked(["g", "h"], 60)
    assert (committed, codes(failures)) == ({}, dict.fromkeys("gh", KafkaError._TRANSPORT))


@pytest.mark.parametrize(
    ("security", "versions"),
    [({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, NEW), ({}, OLD)],
    ids=["OAuth", "old brokers"],
)
def test_librdkafka_asks_where_the_own_connections_cannot(
    brokers, librdkafka, asked_of_librdkafka, security, versions
):
    brokers._versions = versions
    commits = GroupCommits(BROKERS | security, librdkafka, "me")
    assert commits.read(["g", "hidden"], 60) == {"g": {("t", 0): 7}}
    assert asked_of_librdkafka == [60, 60]
    failures = commits_by_librdkafka({}, librdkafka, ["hidden"], 60)
    assert codes(failures) == {"hidden": GROUP_AUTHORIZATION_FAILED}


def test_librdkafka_is_asked_for_no_group_without_a_name(librdkafka, asked_of_librdkafka):
    committed = {}
    failures = commits_by_librdkafka(committed, librdkafka, ["", "g"], 60)
    assert (committed.keys(), asked_of_librdkafka) == ({"g"}, [60])
    assert codes(failures) == {"": KafkaError.INVALID_GROUP_ID}

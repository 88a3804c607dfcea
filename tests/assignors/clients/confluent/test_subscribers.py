"""When a group's coordinator is asked for its members: only where the brokers say that it has some.

An admin request to a coordinator may end the process (librdkafka's issue 4605). What the brokers
really answer, `test_obstacles` and `test_moving_to_managed` show.
"""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from levelwind.assignors.clients.confluent.following import subscribers

SILENT = KafkaError(KafkaError._TIMED_OUT)
GONE = KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND))


def answer(value):
    future = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class ScriptedAdmin:
    """Brokers that list some groups in some states; the coordinator answers as told, if asked."""

    def __init__(self, states, members=(), *, errors=()):
        self.states = states
        self.members = members
        self.errors = list(errors)
        self.described = 0

    def list_consumer_groups(self, **_):
        groups = [SimpleNamespace(group_id=name, state=state) for name, state in self.states]
        return answer(SimpleNamespace(valid=groups, errors=self.errors))

    def describe_consumer_groups(self, groups, **_):
        self.described += 1
        if isinstance(self.members, Exception):
            return {groups[0]: answer(self.members)}
        members = [
            SimpleNamespace(client_id=name, host="/10.0.0.1", member_id=f"{name}-1")
            for name in self.members
        ]
        return {groups[0]: answer(SimpleNamespace(members=members))}


@pytest.mark.parametrize(
    "states",
    [
        [],
        [("g", ConsumerGroupState.EMPTY), ("other", ConsumerGroupState.STABLE)],
        [("g", ConsumerGroupState.DEAD)],
    ],
    ids=["unknown to the brokers", "empty", "dead"],
)
def test_the_coordinator_of_a_group_without_members_is_not_asked(states):
    admin = ScriptedAdmin(states)
    assert subscribers.found(admin, "g", 1.0) == []
    assert admin.described == 0


@pytest.mark.parametrize(
    "state", [state for state in ConsumerGroupState if state not in subscribers.NO_MEMBERS]
)
def test_the_members_of_a_group_that_has_some_are_named(state):
    admin = ScriptedAdmin([("g", state)], members=["stray"])
    assert subscribers.found(admin, "g", 1.0) == ["stray at /10.0.0.1 (stray-1)"]


def test_a_broker_that_does_not_answer_may_be_the_one_that_knows_the_group():
    with pytest.raises(KafkaException):
        subscribers.found(ScriptedAdmin([], errors=[SILENT]), "g", 1.0)
    known = ScriptedAdmin([("g", ConsumerGroupState.STABLE)], ["stray"], errors=[SILENT])
    assert len(subscribers.found(known, "g", 1.0)) == 1


def test_a_group_that_went_meanwhile_has_no_subscribers():
    admin = ScriptedAdmin([("g", ConsumerGroupState.STABLE)], members=GONE)
    assert subscribers.found(admin, "g", 1.0) == []


def test_many_members_are_counted_rather_than_named():
    admin = ScriptedAdmin([("g", ConsumerGroupState.STABLE)], members=list("abcdefgh"))
    *named, more = subscribers.found(admin, "g", 1.0)
    assert len(named) == subscribers.MOST_SHOWN
    assert more == "and 3 more"

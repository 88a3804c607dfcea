"""The public names of the confluent-kafka client, and their documentation."""

import inspect
import re
from pathlib import Path

import pytest

from levelwind.clients import confluent
from levelwind.clients.confluent import (
    AsyncManagedConsumer,
    FencingToken,
    ManagedConsumer,
    NotOwnedError,
    OwnershipChange,
    Phase,
    SettingError,
    StraySubscriberError,
)

EVENT = re.compile(r'"(member\.[a-z_]+)[ "]')
PUBLIC = (
    AsyncManagedConsumer,
    FencingToken,
    ManagedConsumer,
    NotOwnedError,
    OwnershipChange,
    Phase,
    SettingError,
    StraySubscriberError,
)


def test_the_package_exports_exactly_its_public_names():
    assert sorted(confluent.__all__) == [public.__name__ for public in PUBLIC]


@pytest.mark.parametrize("public", PUBLIC)
def test_each_public_name_is_documented_and_listed_in_the_package(public):
    first_line = inspect.getdoc(public).splitlines()[0]
    assert first_line.endswith((".", ";"))
    assert f"`{public.__name__}`" in confluent.__doc__


def test_each_argument_of_a_consumer_is_documented():
    arguments = [name for name in inspect.signature(ManagedConsumer).parameters if name != "self"]
    documented = inspect.getdoc(ManagedConsumer).partition("Args:")[2]
    assert [name for name in arguments if f"\n    {name}: " not in documented] == []


def test_each_public_method_of_a_consumer_is_documented():
    members = inspect.getmembers(ManagedConsumer)
    public = [(name, member) for name, member in members if not name.startswith("_")]
    assert len(public) >= 16
    assert [name for name, member in public if not inspect.getdoc(member)] == []


def test_the_flavour_for_asyncio_has_the_same_calls():
    def public(one):
        return {name for name in dir(one) if not name.startswith("_")}

    # An event loop cancels a task instead of waking a thread.
    assert public(ManagedConsumer) - public(AsyncManagedConsumer) == {"wakeup", "hand_back"}
    for name, member in inspect.getmembers(AsyncManagedConsumer, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            own = inspect.signature(getattr(ManagedConsumer, name)).parameters
            assert list(inspect.signature(member).parameters) == list(own), name
            assert inspect.getdoc(member)


def test_each_phase_is_a_state_of_the_hand_over():
    assert [phase.value for phase in Phase] == [
        "joining",
        "active",
        "revoking",
        "suspended",
        "lost",
        "left",
    ]


def test_the_errors_are_of_the_kinds_that_applications_catch():
    assert issubclass(SettingError, ValueError)
    assert issubclass(NotOwnedError, RuntimeError)
    assert issubclass(StraySubscriberError, RuntimeError)


def test_the_log_events_are_those_that_operators_may_alert_on():
    sources = Path(inspect.getfile(ManagedConsumer)).parent.rglob("*.py")
    found = {event for path in sources for event in EVENT.findall(path.read_text())}
    assert sorted(found) == [
        "member.announce_failed",
        "member.assignment_received",
        "member.assignment_rejected",
        "member.close_timed_out",
        "member.commit_failed",
        "member.commit_refused",
        "member.failed",
        "member.fenced",
        "member.grant_failed",
        "member.grant_retried",
        "member.granted",
        "member.joining",
        "member.left",
        "member.lost",
        "member.not_authorized",
        "member.poll_overdue",
        "member.producer_replaced",
        "member.read_failed",
        "member.refused",
        "member.revoked",
        "member.revoking",
        "member.stray_subscriber",
        "member.throttled",
        "member.waiting_for_broker",
        "member.waiting_for_planner",
        "member.waiting_for_subscribers",
        "member.waiting_for_topics",
    ]

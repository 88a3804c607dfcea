"""The group of daemons on real brokers: one member has the lead, and hands it over."""

import threading
import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupState
from confluent_kafka.admin import AdminClient

from daemon.errors import ConfigurationError
from daemon.kafka.lead_group import LeadGroup
from daemon.proxy.static_leave import leave_static
from daemon.proxy.wire.client_security import client_security

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

SESSION_SECONDS = 3.0
LONG_SESSION_SECONDS = 30.0
"""A session that outlasts a restart on a busy machine."""


class Daemons:
    """Members of one group, and who of them owns the partition."""

    def __init__(self, client_config, topics, log):
        self.config, self.topics, self.log = client_config, topics, log
        self.owners, self.crashed, self.groups = set(), {}, {}
        self.changed = threading.Condition()
        self.session = SESSION_SECONDS

    def join(self, name, *, static=True):
        def change(owns):
            with self.changed:
                (self.owners.add if owns else self.owners.discard)(name)
                self.changed.notify_all()

        def depart():
            if static:
                security = client_security(self.config)
                assert leave_static(self.config, security, self.topics.control, name) is None

        group = self.groups[name] = LeadGroup(
            self.config,
            self.topics,
            session=self.session,
            on_change=change,
            on_crash=lambda error: self.crashed.setdefault(name, error),
            static_id=name if static else None,
            depart=depart,
            log=self.log,
        )
        group.join()
        return group

    def wait_for(self, holds, within=20.0):
        begun = time.monotonic()
        with self.changed:
            assert self.changed.wait_for(holds, within), (
                self.owners,
                self.crashed,
                self.log.events,
            )
        return time.monotonic() - begun

    def wait_for_members(self, count):
        """Wait until the group has so many members and no rebalance."""
        admin = AdminClient(self.config)
        name = self.topics.control
        for _ in range(100):
            described = admin.describe_consumer_groups([name])[name].result(10)
            if described.state == ConsumerGroupState.STABLE and len(described.members) == count:
                return
            time.sleep(0.1)
        raise AssertionError(described.state, described.members)

    def leave(self, name):
        self.groups.pop(name).leave()
        with self.changed:
            self.owners.discard(name)

    def kill(self, name):
        """End the owner without a word, as a process that is killed."""
        group = self.groups.pop(name)
        group._depart = lambda: None
        group.leave()
        with self.changed:
            self.owners.clear()


@pytest.fixture
def daemons(client_config, topics, log):
    daemons = Daemons(client_config, topics, log)
    yield daemons
    for group in daemons.groups.values():
        group.leave()


@pytest.mark.parametrize("static", [True, False])
def test_of_three_one_has_the_lead_and_hands_it_over_at_once_when_it_leaves(daemons, static):
    daemons.join("a", static=static)
    daemons.wait_for(lambda: daemons.owners == {"a"})
    daemons.join("b", static=static)
    daemons.join("c", static=static)
    time.sleep(2.0)
    assert daemons.owners == {"a"}, "a daemon that joins takes nothing"
    for left in ("a", "next"):
        [owner] = daemons.owners if left == "next" else ["a"]
        begun = time.monotonic()
        daemons.leave(owner)
        daemons.wait_for(lambda: daemons.owners, within=2.0)
        print(f"handed over {time.monotonic() - begun:.2f} s after {owner} was asked to leave")
        assert len(daemons.owners) == 1
    assert not daemons.crashed


def test_a_static_member_that_is_back_has_the_lead_before_its_session_ends(daemons):
    daemons.session = LONG_SESSION_SECONDS
    daemons.join("a")
    daemons.wait_for(lambda: daemons.owners == {"a"})
    daemons.join("b")
    # A member that dies while the group rebalances has nothing to come back to.
    daemons.wait_for_members(2)
    daemons.kill("a")
    daemons.join("a")
    seconds = daemons.wait_for(lambda: daemons.owners == {"a"}, within=LONG_SESSION_SECONDS - 5)
    print(f"the lead is back {seconds:.2f} s after the restart")


def test_a_lead_without_signs_of_life_goes_to_another_after_the_session(daemons):
    daemons.join("a")
    daemons.join("b")
    daemons.wait_for(lambda: daemons.owners)
    [owner] = daemons.owners
    daemons.kill(owner)
    seconds = daemons.wait_for(lambda: daemons.owners, within=SESSION_SECONDS + 4)
    assert daemons.owners == {"a", "b"} - {owner}
    print(f"another has the lead {seconds:.2f} s after the last sign of life")


def test_a_daemon_whose_membership_was_taken_once_joins_anew(daemons, client_config, topics):
    daemons.session = LONG_SESSION_SECONDS
    daemons.join("a")
    daemons.wait_for(lambda: daemons.owners == {"a"})
    # As a repeated request of its own, which a coordinator takes for another process's.
    repeated = Consumer(
        {
            **client_config,
            "group.id": topics.control,
            "group.instance.id": "a",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": round(LONG_SESSION_SECONDS * 1000),
        }
    )
    repeated.subscribe([topics.control])
    while "daemon.membership_fenced" not in daemons.log.names:
        repeated.poll(0.1)
    daemons.wait_for(lambda: daemons.owners == {"a"})
    repeated.close()
    assert not daemons.crashed


def test_two_daemons_of_one_name_do_not_both_go_on(daemons):
    daemons.join("a")
    daemons.wait_for(lambda: daemons.owners == {"a"})
    daemons.groups["first"] = daemons.groups.pop("a")
    daemons.join("a")
    deadline = time.monotonic() + 20
    while "a" not in daemons.crashed and time.monotonic() < deadline:
        time.sleep(0.1)
    assert isinstance(daemons.crashed["a"], ConfigurationError)
    assert "state_dir" in str(daemons.crashed["a"])
    time.sleep(1.0)
    assert sum(group._thread.is_alive() for group in daemons.groups.values()) == 1

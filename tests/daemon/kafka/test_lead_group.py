"""The group of daemons on real brokers: one member has the lead, and hands it over."""

from functools import partial

import pytest
from confluent_kafka import Consumer, ConsumerGroupState
from confluent_kafka.admin import AdminClient

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.kafka.lead_group import LeadGroup
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.static_leave import leave_static
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

SESSION_SECONDS = 3.0
LONG_SESSION_SECONDS = 250.0
"""A session that outlasts each wait: what is awaited did not come from its end. The client takes no
longer one, since it must see each poll within 300 s."""


class Daemons:
    """Members of one group, and who of them owns the partition."""

    def __init__(self, client_config, topics, log):
        self.config, self.topics, self.log = client_config, topics, log
        self.owners, self.crashed, self.groups = set(), {}, {}
        self.changes = []
        """Each name with whether it got the lead or lost it, in order."""
        self.session = SESSION_SECONDS

    def join(self, name, *, static=True, static_id=None):
        """Make a member; `static_id` is its name for the brokers, if that is another."""
        static_id = (static_id or name) if static else None

        def change(owns):
            self.changes.append((name, owns))
            (self.owners.add if owns else self.owners.discard)(name)

        def depart():
            if static:
                security = client_security(self.config)
                ask = partial(leave_static, self.config, security, self.topics.control, static_id)
                # A daemon asks once, and leaves the rest to the end of its session.
                wait_until("end of the membership", lambda: ask() is None)

        group = self.groups[name] = LeadGroup(
            self.config,
            self.topics,
            session=self.session,
            on_change=change,
            on_crash=lambda error: self.crashed.setdefault(name, error),
            static_id=static_id,
            depart=depart,
            log=self.log,
        )
        group.join()
        return group

    def wait_for(self, what, holds):
        return wait_until(what, holds, shown=lambda: (self.owners, self.crashed, self.log.events))

    def wait_for_members(self, count):
        """Wait until the group has so many members and no rebalance."""
        admin = AdminClient(self.config)
        name = self.topics.control

        def stable():
            described = described_group(admin, name)
            return described.state == ConsumerGroupState.STABLE and len(described.members) == count

        self.wait_for(f"stable group of {count}", stable)

    def leave(self, name):
        self.groups.pop(name).leave()
        self.owners.discard(name)

    def kill(self, name):
        """End the owner without a word, as a process that is killed."""
        group = self.groups.pop(name)
        group._depart = lambda: None
        group.leave()
        self.owners.discard(name)


@pytest.fixture
def daemons(client_config, topics, log):
    daemons = Daemons(client_config, topics, log)
    yield daemons
    for group in daemons.groups.values():
        group.leave()


@pytest.mark.parametrize("static", [True, False])
def test_of_three_one_has_the_lead_and_hands_it_over_at_once_when_it_leaves(daemons, static):
    daemons.session = LONG_SESSION_SECONDS
    daemons.join("a", static=static)
    daemons.wait_for("lead of a", lambda: daemons.owners == {"a"})
    daemons.join("b", static=static)
    daemons.join("c", static=static)
    daemons.wait_for_members(3)
    assert daemons.owners == {"a"}, "a daemon that joins takes nothing"
    led = ["a"]
    for _ in range(2):
        daemons.leave(led[-1])
        led += daemons.wait_for("another lead", lambda: list(daemons.owners))
    assert sorted(led) == ["a", "b", "c"]
    assert daemons.changes == [(name, True) for name in led], "who has the lead loses it to nobody"
    assert not daemons.crashed


def test_a_static_member_that_is_back_has_the_lead_before_its_session_ends(daemons):
    daemons.session = LONG_SESSION_SECONDS
    daemons.join("a")
    daemons.wait_for("lead of a", lambda: daemons.owners == {"a"})
    daemons.join("b")
    # A member that dies while the group rebalances has nothing to come back to.
    daemons.wait_for_members(2)
    daemons.kill("a")
    daemons.join("a")
    daemons.wait_for("another lead of a", lambda: daemons.owners == {"a"})
    assert daemons.changes == [("a", True)] * 2


def test_a_lead_without_signs_of_life_goes_to_another_after_the_session(daemons):
    daemons.join("a")
    daemons.join("b")
    daemons.wait_for("a lead", lambda: daemons.owners)
    [owner] = daemons.owners
    daemons.kill(owner)
    daemons.wait_for("another lead", lambda: daemons.owners)
    assert daemons.owners == {"a", "b"} - {owner}


def test_a_daemon_whose_membership_was_taken_once_joins_anew(daemons, client_config, topics):
    daemons.session = LONG_SESSION_SECONDS
    daemons.join("a")
    daemons.wait_for("lead of a", lambda: daemons.owners == {"a"})
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
    daemons.wait_for(
        "fenced membership",
        lambda: repeated.poll(0.1) or daemons.log.of("daemon.membership_fenced"),
    )
    daemons.wait_for("lead of a", lambda: daemons.owners == {"a"})
    repeated.close()
    assert not daemons.crashed


def test_two_daemons_of_one_name_do_not_both_go_on(daemons):
    daemons.join("first", static_id="a")
    daemons.wait_for("lead", lambda: daemons.owners == {"first"})
    daemons.join("second", static_id="a")
    daemons.wait_for("crash", lambda: daemons.crashed)
    [(crashed, error)] = daemons.crashed.items()
    assert isinstance(error, ConfigurationError)
    assert "state_dir" in str(error)
    # The other goes on once the brokers have taken it for the only one.
    [other] = {"first", "second"} - {crashed}
    daemons.wait_for("lead of the other", lambda: other in daemons.owners)
    daemons.wait_for_members(1)
    daemons.wait_for("its end", lambda: not daemons.groups[crashed]._thread.is_alive())
    assert daemons.groups[other]._thread.is_alive()
    assert list(daemons.crashed) == [crashed]

"""Daemons that are killed and stopped on real brokers, and members whose partitions change hands.

`tests/benchmarks/bench_takeover.py` measures how long that takes.
"""

import signal

import pytest

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import OperatorRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.config.settings import load
from levelwind.daemon.kafka.record_writer import outgoing, write
from levelwind.daemon.wall_clock import now_ms
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.supervised_group import SupervisedGroup

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FACTOR = 0.3
PARTITIONS = 6
LONG_SESSION_SECONDS = 300.0
"""Longer than any wait of a test: a daemon that leads within it has not waited for its end. The
client takes no longer one."""
SETTINGS = (
    "pipeline.run=elsewhere",
    "control.cooldown.duration=1",
    *timer_settings(Timers().scaled(FACTOR)),
    # As it is by default: so long may the brokers take to miss a leader.
    f"timers.takeover={Timers().takeover}",
    f"timers.canary={Timers().canary}",
)


class Stage(SupervisedGroup):
    """Daemons that the test starts again after their end, a topic, and members of one group."""

    def __init__(self, bootstrap, prefix, topic):
        super().__init__(bootstrap, prefix, topic, partitions=PARTITIONS, factor=FACTOR)
        self.settings = load(overrides={"bootstrap": bootstrap, "prefix": prefix})

    def all_stand_ready(self):
        """Start what has ended; wait until one daemon leads and the others stand by; return it."""
        for daemon in self.daemons:
            if not daemon.running:
                daemon.start_again()
        self.standbys_are_ready()
        return self.leader()

    def next_leader(self, terms):
        """Wait until a daemon begins to lead after so many terms; return it."""
        self.wait("next leader", lambda: self.terms() > terms)
        assert self.terms() == terms + 1, "others took over, too"
        return self.leader()

    def plans_on_request(self):
        """Ask for a plan as an operator does, and wait for it."""
        asked = len(self.plans("operator"))
        request = OperatorRecord(
            group=self.group, at=now_ms(), by="test", action="rebalance", reason="a test of plans"
        )
        records = outgoing(self.settings.topics, "control", request, partitions=1)
        write(self.settings.client(), records, timeout=30)
        self.wait("plan", lambda: len(self.plans("operator")) > asked)

    def plans(self, cause):
        return self.logged("plan.published", group=self.group, cause=cause)

    def wait_for_so_many_in_the_group_of_daemons(self, number):
        """Wait until the brokers have so many daemons in their group, all with the same view."""
        group = self.settings.topics.control

        def members():
            described = described_group(self.admin, group)
            return described.state.name == "STABLE" and len(described.members) == number

        self.wait(f"{number} daemons in their group", members)


@pytest.fixture(scope="module")
def installation(cluster, tmp_path_factory):
    """Three daemons of which one leads, for all tests of this file."""
    name = tmp_path_factory.mktemp("ha")
    stage = Stage(cluster.bootstrap, f"{name.name}.", f"{name.name}-orders")
    try:
        for daemon in ("one", "two", "three"):
            stage.start(name / daemon, *SETTINGS, pause=None)
        # Of those that start at the same moment one is given the lead.
        stage.all_stand_ready()
        assert stage.terms() == 1
        yield stage
    finally:
        stage.stop()


@pytest.fixture
def stage(installation, fresh):
    """All three daemons, and a group without members."""
    installation.all_stand_ready()
    installation.begin_group(fresh("group"))
    return installation


def test_of_three_daemons_exactly_one_takes_over_and_finishes_what_was_begun(stage):
    first = stage.leader()
    terms = stage.terms()
    stage.join("a", "b")
    stage.all_is_owned()

    # The leader is killed while partitions are on their way to a third member: those that have
    # them give them up only after that.
    former = list(stage.members)
    for member in former:
        member.hold_on()
    plans = len(stage.logged("plan.published", group=stage.group))
    stage.join("c")
    [plan] = stage.wait("plan", lambda: stage.logged("plan.published", group=stage.group)[plans:])
    first.kill()
    assert plan["group_epoch"] not in {
        entry["group_epoch"] for entry in first.logged("handover.settled", group=stage.group)
    }
    second = stage.next_leader(terms)
    assert second is not first
    assert stage.members[-1].owned == set(), "the partitions were not to be had yet"
    for member in former:
        member.let_go()
    stage.wait("shares", lambda: all(len(member.owned) == 2 for member in stage.members))
    stage.all_is_owned()
    stage.wait(
        "end",
        lambda: second.logged(
            "handover.advanced", group=stage.group, granted=PARTITIONS, revoking=0, pending=0
        ),
    )
    published = stage.logged("plan.published", group=stage.group)
    assert published[plans + 1 :] == [], "the hand-over was restarted"

    # Its successor dies, too: another of them plans.
    first.start_again()
    second.kill()
    third = stage.next_leader(terms + 1)
    stage.plans_on_request()

    # A standby that dies changes nothing.
    [standby] = [daemon for daemon in stage.daemons if daemon not in (second, third)]
    standby.kill()
    stage.wait_for_so_many_in_the_group_of_daemons(1)

    # Most members gone at once freeze the group.
    gone = stage.members[:2]
    for member in gone:
        member.child.ask_to_kill()
    for member in gone:
        member.kill()
    stage.wait("freeze", lambda: stage.logged("group.frozen", group=stage.group))
    assert stage.leader() is third
    assert stage.terms() == terms + 2
    assert stage.logged("daemon.failed") == []


def test_a_standby_evicts_a_member_that_died_with_the_leader_and_a_stop_hands_over(stage):
    terms, first = stage.terms(), stage.leader()
    stage.join("a", "b", "c")
    stage.all_is_owned()

    # The leader and a member die together: a standby takes over, and evicts the member.
    first.kill()
    stage.members.pop(0).kill()
    second = stage.next_leader(terms)
    stage.all_is_owned()

    # The killed one is back, and stands by.
    first.start_again()
    stage.standbys_are_ready()
    assert stage.leader() is second

    # A daemon that is asked to stop hands over, and the next one evicts as well.
    second.now.signal(signal.SIGTERM)
    stage.next_leader(terms + 1)
    stage.members.pop(0).kill()
    stage.all_is_owned()
    stage.wait("end", lambda: not second.running)
    stage.wait_for_so_many_in_the_group_of_daemons(2)
    stage.plans_on_request()
    assert stage.terms() == terms + 2
    assert stage.logged("daemon.failed") == []


def test_all_is_owned_again_after_the_topics_of_the_planner_were_deleted(stage):
    stage.join("a", "b")
    stage.all_is_owned()
    topics = Topics(stage.prefix)
    names = [topics.members, topics.assignments]
    terms = stage.terms()
    settled = len(stage.logged("handover.settled", group=stage.group))
    replaced = {daemon: len(daemon.logged("topics.replaced")) for daemon in stage.daemons}
    for future in stage.admin.delete_topics(names).values():
        future.result(30)
    for daemon, before in replaced.items():
        stage.wait("notice", lambda d=daemon, n=before: len(d.logged("topics.replaced")) > n)
    stage.wait("next term", lambda: stage.terms() > terms)
    stage.wait("plan", lambda: len(stage.logged("handover.settled", group=stage.group)) > settled)
    stage.all_is_owned()
    assert stage.logged("daemon.failed") == []
    stage.members.pop(0).kill()
    stage.all_is_owned()


def test_a_lead_that_is_kept_over_a_kill_or_handed_over_needs_no_end_of_a_session(
    cluster, fresh, tmp_path
):
    stage = Stage(cluster.bootstrap, fresh("long") + ".", fresh("orders"))
    settings = (*SETTINGS, f"timers.takeover={LONG_SESSION_SECONDS}")
    try:
        # A daemon alone that is killed leads again within its own session.
        first = stage.start(tmp_path / "one", *settings, pause=None)
        assert stage.leader() is first
        first.kill()
        first.start_again()
        assert stage.next_leader(1) is first

        # A daemon that stops gives the lead to another, which plans at once.
        second = stage.start(tmp_path / "two", *settings, pause=None)
        stage.standbys_are_ready()
        stage.join("a")
        stage.all_is_owned()
        first.now.signal(signal.SIGTERM)
        assert stage.next_leader(2) is second
        stage.plans_on_request()
        assert stage.logged("daemon.failed") == []
    finally:
        stage.stop()

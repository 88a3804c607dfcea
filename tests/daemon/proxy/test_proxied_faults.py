"""A proxied group on brokers of its own: leaders, brokers and daemons end, and nobody stops."""

import signal

import pytest

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.proxy.leader_proxy import CLIENT_ID
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.kafka.reassignment import lead_again
from levelwind_testing.processes.proxied_stage import ProxiedStage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SETTINGS = ("proxy.session_timeout=20",)
"""The next daemon leads within the session of the former one's proxy."""


@pytest.fixture(scope="module")
def cluster():
    with Cluster.start() as brokers:
        yield brokers


@pytest.fixture
def stage(client_config, kafka, fresh, tmp_path):
    made = ProxiedStage(client_config, kafka, fresh, tmp_path, replication=3, settings=SETTINGS)
    try:
        yield made
    finally:
        made.stop()


def test_the_lead_outlives_the_leader_a_broker_and_moves_of_the_coordinator(stage, cluster):
    stage.join("a")  # it leads
    stage.wait(stage.settled, "first member")
    stage.join("b")
    stage.wait(stage.settled, "group of its own")
    stage.start_daemon()
    stage.see_layout()
    stage.wait(lambda: stage.daemon.logged("proxy.waiting_for_lead"), "membership")

    # The leader dies without a word: its partitions have another owner once its session is over.
    stage.kill("a")
    stage.wait(stage.settled, "group without its leader")
    stage.join("c")
    stage.lead()

    # No lag names a newcomer: the leader knows it, and it gets its planned share.
    stage.reports = False
    stage.join("d")
    stage.wait(lambda: stage.follows() and len(stage.held()) == 3, "plan with the newcomer")
    stage.reports = True

    # The coordinator's broker dies, and comes again.
    lost = stage.wait(stage.coordinator, "coordinator")
    cluster.kill(lost)
    try:
        stage.wait(lambda: stage.coordinator() not in {None, lost}, "other coordinator")
        stage.level()
    finally:
        cluster.start_broker(lost)

    # The coordinator moves while all brokers are well.
    lead_again(stage.bootstrap, OFFSETS_TOPIC, stage.coordinating_partition().id)
    stage.level()
    assert stage.daemon.logged("proxy.disconnected")
    assert stage.daemon.logged("proxy.failed") == []
    assert stage.kept_the_lead_while_it_was_a_member(), stage.tails()
    print("times that the brokers dropped the proxy:", len(stage.daemon.logged("proxy.left")))
    stage.nothing_was_lost_or_shared()


def test_a_daemon_that_stands_still_and_wakes_up_leaves_the_lead_to_the_next_one(stage):
    stage.lead_two()
    first = stage.daemon
    stage.start_stand_by()
    second = stage.daemon

    # The first stands still, and another becomes the planner: only the leading daemon proxies.
    first.signal(signal.SIGSTOP)
    stage.wait(stage.leads, "lead after a take-over")
    assert stage.is_leveled(), stage.tails()
    first.signal(signal.SIGCONT)
    stage.wait(lambda: first.logged("daemon.deposed"), "end of the first term")
    assert stage.is_leveled(), stage.tails()
    assert len(proxies(stage)) == 1
    assert stage.leads()
    assert first.logged("proxy.left") == second.logged("proxy.fenced") == []
    stage.nothing_was_lost_or_shared()


def proxies(stage):
    described = described_group(stage.admin, stage.group)
    return [member for member in described.members if member.client_id == CLIENT_ID]

"""Two daemons under a supervisor, and members whose partitions they hand over, on real brokers."""

import signal
import time

import pytest

from assignors.handover.timers import Timers
from assignors.protocol.topics import Topics
from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.supervised_group import SupervisedGroup

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FACTOR = 0.2
TIMERS = Timers().scaled(FACTOR)
PARTITIONS = 6
OWNED_AGAIN_SECONDS = TIMERS.dead_after + TIMERS.grant + 5
"""The promise for the partitions of a member that died."""
SETTINGS = (
    "pipeline.run=elsewhere",
    "control.cooldown.duration=1",
    *timer_settings(TIMERS),
)


@pytest.fixture
def stage(cluster, fresh, tmp_path):
    stage = SupervisedGroup(
        cluster.bootstrap,
        fresh("two") + ".",
        fresh("orders"),
        partitions=PARTITIONS,
        factor=FACTOR,
    )
    try:
        for name in ("one", "two"):
            stage.start(tmp_path / name, *SETTINGS)
        yield stage
    finally:
        stage.stop()


def test_one_takeover_a_kill_and_the_partitions_of_the_dead_are_owned_in_time(stage):
    # Of two that start at the same moment one is given the lead.
    stage.wait("standby", lambda: stage.logged("daemon.standing_by"), 30)
    first = stage.leader()
    [second] = stage.others()
    stage.join("a", "b", "c")
    stage.all_is_owned(60)
    begun = stage.terms()
    assert begun == 1

    # The leader and a member die together: the standby takes over, and evicts the member.
    first.kill()
    died = stage.members.pop(0)
    died.kill()
    seconds = stage.all_is_owned(OWNED_AGAIN_SECONDS + TIMERS.takeover)
    print(f"owned again {seconds:.1f} s after both died")
    assert stage.leader() is second
    assert stage.terms() == begun + 1

    # The killed one is back, and stands by; a standby that dies changes nothing.
    stage.wait("restart", lambda: first.now.logged("daemon.standing_by"), 30)
    first.kill()
    time.sleep(2 * TIMERS.takeover)
    assert stage.terms() == begun + 1

    # A daemon that is asked to stop hands over at once.
    stage.wait("restart", lambda: first.now.logged("daemon.standing_by"), 30)
    asked = time.monotonic()
    second.now.child.process.send_signal(signal.SIGTERM)
    stage.wait("other leader", lambda: stage.terms() == begun + 2, 20)
    print(f"handed over in {time.monotonic() - asked:.1f} s")
    died = stage.members.pop(0)
    died.kill()
    seconds = stage.all_is_owned(OWNED_AGAIN_SECONDS)
    print(f"owned again {seconds:.1f} s after a member died")
    time.sleep(2 * TIMERS.takeover)
    assert stage.terms() == begun + 2
    assert stage.logged("daemon.failed") == []


def test_all_is_owned_again_after_the_topics_of_the_planner_were_deleted(stage):
    stage.leader()
    stage.join("a", "b")
    stage.all_is_owned(60)
    topics = Topics(stage.prefix)
    names = [topics.members, topics.assignments]
    terms, settled = stage.terms(), len(stage.logged("handover.settled"))
    begun = time.monotonic()
    for future in stage.admin.delete_topics(names).values():
        future.result(30)
    for daemon in stage.daemons:
        stage.wait("notice", lambda daemon=daemon: daemon.logged("topics.replaced"), 20)
    stage.wait("next term", lambda: stage.terms() > terms, OWNED_AGAIN_SECONDS + 10)
    stage.wait("plan", lambda: len(stage.logged("handover.settled")) > settled, OWNED_AGAIN_SECONDS)
    stage.all_is_owned(OWNED_AGAIN_SECONDS)
    print(f"owned again {time.monotonic() - begun:.1f} s after the topics were deleted")
    assert stage.logged("daemon.failed") == []
    died = stage.members.pop(0)
    died.kill()
    seconds = stage.all_is_owned(2 * OWNED_AGAIN_SECONDS)
    print(f"owned again {seconds:.1f} s after a member died")

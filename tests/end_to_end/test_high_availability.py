"""Three daemons that are killed, stopped and held, on real brokers; the times are printed."""

import os
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from assignors.handover.timers import Timers
from assignors.protocol.records import OperatorRecord, PipelineRecord
from daemon.config.settings import load
from daemon.kafka.record_writer import outgoing, write
from daemon.wall_clock import now_ms
from deploy.cluster import Cluster
from levelwind_testing.kafka.newest_record import newest_record
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.processes.daemon_process import DaemonProcess, timer_settings
from levelwind_testing.processes.supervised_group import SupervisedGroup

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FACTOR = 0.2
SCALED = Timers().scaled(FACTOR)
KILL_SECONDS, STOP_SECONDS = 10.0, 2.0
"""What the daemons promise from the end of the leader to the next plan."""
PAUSE_SECONDS = 12.0
"""Time from the end of a daemon to its next start."""
PARTITIONS = 6
SETTINGS = (
    "control.cooldown.duration=1",
    *timer_settings(SCALED),
    # As it is by default: so long may the brokers take to miss a leader.
    f"timers.takeover={Timers().takeover}",
    f"timers.canary={Timers().canary}",
)


class Stage(SupervisedGroup):
    """Three supervised daemons, a topic, and members of one group."""

    def __init__(self, bootstrap, prefix, topic, directory):
        super().__init__(bootstrap, prefix, topic, partitions=PARTITIONS, factor=FACTOR)
        self.settings = load(overrides={"bootstrap": bootstrap, "prefix": prefix})
        for name in ("one", "two", "three"):
            # Within its session a daemon that was killed would lead again itself.
            self.start(directory / name, "pipeline.run=elsewhere", *SETTINGS, pause=PAUSE_SECONDS)

    def all_stand_ready(self):
        """Wait until one daemon leads and the two others stand by; return the leader."""
        self.standbys_are_ready()
        return self.leader()

    def seconds_to_the_next_plan(self, terms, begun):
        """Ask for a plan as an operator does; return the seconds to the next leader, and to it."""
        time.sleep(0.6)  # the leader before must not follow the request
        asked = len(self.plans("operator"))
        request = OperatorRecord(
            group="group", at=now_ms(), by="test", action="rebalance", reason="the leader is gone"
        )
        records = outgoing(self.settings.topics, "control", request, partitions=1)
        write(self.settings.client(), records, timeout=10)
        self.wait("next leader", lambda: self.terms() > terms)
        leading = time.monotonic() - begun
        self.wait("plan", lambda: len(self.plans("operator")) > asked)
        return leading, time.monotonic() - begun

    def plans(self, cause):
        return [plan for plan in self.logged("plan.published") if plan["cause"] == cause]


@pytest.fixture
def stage(cluster, fresh, tmp_path):
    stage = Stage(cluster.bootstrap, fresh("ha") + ".", fresh("orders"), tmp_path)
    try:
        yield stage
    finally:
        stage.stop()


def test_of_three_daemons_exactly_one_takes_over_in_time_and_finishes_what_was_begun(stage):
    first = stage.all_stand_ready()
    stage.join("a", "b")
    stage.all_is_owned()
    terms = stage.terms()

    # The leader is killed while partitions are on their way to a third member.
    plans = len(stage.logged("plan.published"))
    stage.join("c")
    plan = stage.wait("plan", lambda: stage.logged("plan.published")[plans:])[0]
    begun = time.monotonic()
    first.kill()
    done = first.lives[-1].logged("handover.settled")
    assert plan["group_epoch"] not in {e["group_epoch"] for e in done}, "killed too late"
    stage.wait("next leader", lambda: stage.terms() > terms)
    leading = time.monotonic() - begun
    print(f"SIGKILL amid a hand-over: another leads after {leading:.2f} s")
    assert leading <= KILL_SECONDS
    stage.all_is_owned()
    assert stage.logged("plan.published")[plans + 1 :] == [], "the hand-over was restarted"
    advanced = stage.leader().now.logged("handover.advanced")
    assert (advanced[-1]["granted"], advanced[-1]["pending"]) == (PARTITIONS, 0)
    assert stage.terms() == terms + 1, "others took over, too"

    second = stage.all_stand_ready()
    assert second is not first
    terms, begun = terms + 1, time.monotonic()
    second.kill()
    leading, planned = stage.seconds_to_the_next_plan(terms, begun)
    print(f"SIGKILL: another leads after {leading:.2f} s, plans resume after {planned:.2f} s")
    assert planned <= KILL_SECONDS

    third = stage.all_stand_ready()
    terms, begun = terms + 1, time.monotonic()
    third.now.child.process.send_signal(signal.SIGTERM)
    leading, planned = stage.seconds_to_the_next_plan(terms, begun)
    print(f"SIGTERM: another leads after {leading:.2f} s, plans resume after {planned:.2f} s")
    assert planned <= STOP_SECONDS

    # A standby that dies changes nothing, and there was one take-over for each leader that ended.
    stage.all_stand_ready()
    stage.others()[0].kill()
    time.sleep(Timers().takeover + 2)
    assert stage.terms() == terms + 1
    assert stage.logged("daemon.failed") == []

    # Most members gone at once freeze the group.
    for member in stage.members[:2]:
        member.kill()
    stage.wait("freeze", lambda: stage.logged("group.frozen"))


def test_a_daemon_alone_that_is_killed_leads_again_before_its_session_ends(
    cluster, fresh, tmp_path
):
    settings = (f"prefix={fresh('alone')}.", "pipeline.run=elsewhere", *SETTINGS)
    daemon = DaemonProcess(cluster.bootstrap, tmp_path / "state", *settings)
    daemon.wait_for("leader", lambda: daemon.logged("daemon.leading"))
    daemon.kill()
    killed = time.monotonic()
    daemon = DaemonProcess(cluster.bootstrap, tmp_path / "state", *settings)
    started = daemon.wait_for("start", lambda: daemon.logged("daemon.started"))[0]
    leading = daemon.wait_for("leader", lambda: daemon.logged("daemon.leading"))[0]
    seconds = _time(leading) - _time(started)
    print(
        f"a lone daemon leads {seconds:.2f} s after its start, "
        f"{time.monotonic() - killed:.2f} s after it was killed"
    )
    assert seconds < Timers().takeover - 1
    daemon.stop()


def _time(entry):
    return datetime.fromisoformat(entry["time"]).timestamp()


@pytest.fixture
def brokers():
    """Brokers of one test: a coordinator whose partition somebody else wrote into serves none."""
    with Cluster.start(settings=PATIENT) as cluster:
        yield cluster


def test_a_change_of_leader_does_not_restart_the_pipeline_and_rejected_input_freezes(
    brokers, fresh, tmp_path
):
    """The leader is held, so that another takes over: its child goes on, and is left alone."""
    prefix, topic = fresh("child") + ".", fresh("orders")
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    settings = (f"prefix={prefix}", *SETTINGS)
    first = DaemonProcess(brokers.bootstrap, tmp_path / "one", *settings)
    second = None
    try:
        first.wait_for("pipeline", lambda: first.logged("pipeline.caught_up"), 150)
        second = DaemonProcess(brokers.bootstrap, tmp_path / "two", *settings)
        second.wait_for("standby", lambda: second.logged("daemon.standing_by"))
        config = load(overrides={"bootstrap": brokers.bootstrap, "prefix": prefix})
        before = newest_record(config, "triggers", PipelineRecord)
        [pid] = _children(first.child.process.pid)
        os.kill(pid, signal.SIGSTOP)
        held = time.monotonic()
        try:
            second.wait_for("leader", lambda: second.logged("daemon.leading"))
            print(f"another leads {time.monotonic() - held:.2f} s after the leader was held")
            # Longer than the other waits for the record of a pipeline that ended with its daemon.
            time.sleep(16)
        finally:
            os.kill(pid, signal.SIGCONT)
        first.wait_for("deposed", lambda: first.logged("daemon.deposed"))
        assert second.logged("pipeline.elsewhere")
        assert second.logged("pipeline.starting") == []
        after = newest_record(config, "triggers", PipelineRecord)
        assert after.instance == before.instance
        assert after.batches > before.batches
        assert first.logged("pipeline.died") == []

        garbage = Producer({"bootstrap.servers": brokers.bootstrap, "client.id": "__admin_client"})
        for number in range(5_000):
            garbage.produce("__consumer_offsets", b"\0\1garbage", b"%d" % number, partition=0)
        garbage.flush(30)
        begun = time.monotonic()
        frozen = second.wait_for("freeze", lambda: second.logged("planning.frozen"), 60)
        print(f"frozen {time.monotonic() - begun:.1f} s after the garbage: {frozen[0]['detail']}")
        assert frozen[0]["reason"] == "rejects"
        second.wait_for("thaw", lambda: second.logged("planning.thawed", reason="rejects"), 60)

        # The daemon that has the pipeline stops: the leader starts its own.
        first.stop()
        begun = time.monotonic()
        second.wait_for("pipeline", lambda: second.logged("pipeline.starting"), 40)
        print(f"the leader starts its own {time.monotonic() - begun:.1f} s after the host stopped")
    finally:
        first.stop()
        if second is not None:
            second.stop()


def _children(pid):
    """The processes that a guard started."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

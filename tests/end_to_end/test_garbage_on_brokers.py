"""Garbage in topics that are read, on brokers of its own, and a pipeline that outlives a lead.

Garbage in the offsets topic breaks the coordinators that load it later: nobody shares the brokers.
"""

import json
import signal
from datetime import datetime

import pytest
from confluent_kafka import Producer

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import PipelineRecord
from levelwind.daemon.config.settings import load
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.committing_group import RECORDS, CommittingGroup
from levelwind_testing.kafka.newest_record import newest_record
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.processes.daemon_process import DaemonProcess, timer_settings
from levelwind_testing.processes.whole_loop import Loop
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

PREFIX = "garbage."
TIMERS = Timers().scaled(0.5)
SETTINGS = (f"prefix={PREFIX}", "control.cooldown.duration=1", *timer_settings(TIMERS))
WAITS_MS = 20_000
"""Twice the interval of the pipeline's records: the leader waits for one and a half of it."""
START_SECONDS = 300.0
"""The longest wait for a start of Spark on a busy machine."""


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """One broker, and a daemon whose pipeline has caught up."""
    with Cluster.start(1, settings=PATIENT) as cluster:
        loop = Loop(cluster.bootstrap, tmp_path_factory.mktemp("one"), PREFIX, TIMERS, SETTINGS)
        try:
            loop.daemon.wait_for(
                "pipeline", lambda: loop.daemon.logged("pipeline.caught_up"), START_SECONDS
            )
            yield loop
        finally:
            loop.daemon.stop()


def test_garbage_in_any_topic_that_is_read_is_kept_or_counted_and_stops_nothing(loop):
    for topic in ("__consumer_offsets", f"{PREFIX}metadata", f"{PREFIX}members"):
        loop.send(topic, 0, b"{not json", key=b"\xff garbage")
    assert loop.producer.flush(30) == 0
    kept = loop.read(
        "dead-letters",
        lambda records: (
            {json.loads(key)[0] for key in records} >= {"__consumer_offsets", f"{PREFIX}metadata"}
        ),
    )
    assert all(value["reason"] for value in kept.values())
    loop.daemon.wait_for("the rejection", lambda: loop.daemon.logged("record.rejected"))
    readers = CommittingGroup(loop.bootstrap, PREFIX, "orders")
    readers.commit(40)
    loop.daemon.wait_for("lag", lambda: readers.lag_is(RECORDS - 40))
    readers.close()
    assert loop.daemon.child.poll() is None


def test_a_change_of_leader_does_not_restart_the_pipeline_and_rejected_input_freezes(
    loop, tmp_path
):
    """The leader is held, so that another takes over: its child goes on, and is left alone."""
    config = load(overrides={"bootstrap": loop.bootstrap, "prefix": PREFIX})

    def pipeline():
        return newest_record(config, "triggers", PipelineRecord)

    first = loop.daemon
    second = DaemonProcess(loop.bootstrap, tmp_path / "two", *SETTINGS)
    try:
        second.wait_for("standby", lambda: second.logged("daemon.standing_by"))
        before = pipeline()
        first.signal(signal.SIGSTOP)
        try:
            (leading,) = second.wait_for("leader", lambda: second.logged("daemon.leading"))
            # Longer than the other waits for the record of a pipeline that ended with its daemon.
            took_over_at = 1000 * datetime.fromisoformat(leading["time"]).timestamp()
            wait_until(
                "records of the pipeline",
                lambda: pipeline().at > took_over_at + WAITS_MS,
                pause=1.0,
                shown=second.tail,
            )
        finally:
            first.signal(signal.SIGCONT)
        first.wait_for("deposed", lambda: first.logged("daemon.deposed"))
        assert second.logged("pipeline.elsewhere")
        assert second.logged("pipeline.starting") == []
        after = pipeline()
        assert after.instance == before.instance
        assert after.batches > before.batches
        assert first.logged("pipeline.died") == []

        garbage = Producer({"bootstrap.servers": loop.bootstrap, "client.id": "__admin_client"})
        for number in range(5_000):
            garbage.produce("__consumer_offsets", b"\0\1garbage", b"%d" % number, partition=0)
        assert garbage.flush(30) == 0
        frozen = second.wait_for("freeze", lambda: second.logged("planning.frozen"))
        assert frozen[0]["reason"] == "rejects"
        second.wait_for("thaw", lambda: second.logged("planning.thawed", reason="rejects"))

        # The daemon that has the pipeline stops: the leader starts its own.
        first.stop()
        second.wait_for("pipeline", lambda: second.logged("pipeline.starting"))
    finally:
        second.stop()

"""A pipeline that no daemon started, beside two daemons of which the leader is killed."""

import pytest

from levelwind.assignors.handover.timers import Timers
from levelwind_testing.kafka.committing_group import RECORDS, CommittingGroup
from levelwind_testing.processes.daemon_process import DaemonProcess, PipelineProcess

pytestmark = [pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(300)]


def test_the_pipeline_goes_on_when_the_leading_daemon_is_killed(cluster, fresh, tmp_path):
    prefix = fresh("apart") + "."
    readers = CommittingGroup(cluster.bootstrap, prefix, fresh("orders"))
    settings = (
        f"prefix={prefix}",
        "pipeline.run=elsewhere",
        f"timers.takeover={Timers().takeover}",
    )
    names = ("one", "two")
    daemons = [DaemonProcess(cluster.bootstrap, tmp_path / name, *settings) for name in names]
    first, second = daemons
    pipeline = None
    try:
        first.wait_for("leader", lambda: any(d.logged("daemon.leading") for d in daemons))
        if second.logged("daemon.leading"):
            first, second = second, first
        pipeline = PipelineProcess(cluster.bootstrap, tmp_path / "pipeline", f"prefix={prefix}")
        readers.commit(40)
        pipeline.wait_for("lag", lambda: readers.lag_is(RECORDS - 40), 150)
        first.wait_for("progress", lambda: first.logged("pipeline.reporting"))
        before = readers.pipeline()

        first.kill()
        readers.commit(90)
        second.wait_for("leader", lambda: second.logged("daemon.leading"))
        pipeline.wait_for("lag of the new commit", lambda: readers.lag_is(RECORDS - 90), 30)
        second.wait_for("progress", lambda: second.logged("pipeline.reporting"))

        after = pipeline.wait_for(
            "progress after the kill",
            lambda: (record := readers.pipeline()).at > before.at and record,
            30,
        )
        assert (after.instance, after.epoch, after.daemon) == (before.instance, before.epoch, None)
        assert after.batches > before.batches
        for daemon in daemons:
            assert daemon.logged("pipeline.starting") == []
            assert daemon.logged("pipeline.unreported") == []
        assert len(pipeline.logged("pipeline.started")) == 1
    finally:
        readers.close()
        if pipeline is not None:
            pipeline.stop()
        for daemon in daemons:
            daemon.stop()

"""The pipeline's checkpoint in HDFS, with the pipeline on YARN, and in S3.

A driver is killed, and the next one goes on where it stopped.
"""

from uuid import uuid4

import pytest

from levelwind_testing.kafka.committing_group import RECORDS, CommittingGroup
from levelwind_testing.processes.cluster_pipeline import ClusterPipeline
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.hadoop_cluster import hadoop_cluster
from levelwind_testing.processes.s3_server import s3_server

pytestmark = [pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(900)]


class Stage:
    """A daemon, and a group without members whose lag the pipeline publishes."""

    def __init__(self, brokers, archive, directory, name):
        self.bootstrap = brokers.bootstrap
        self.archive = archive
        self.directory = directory
        self.settings = (f"prefix={name}.", "pipeline.run=elsewhere")
        self.group = CommittingGroup(brokers.bootstrap, f"{name}.", f"orders-{name}")
        self.daemon = DaemonProcess(brokers.bootstrap, directory / "daemon", *self.settings)

    def goes_on(self, spark, checkpoint, settings=()):
        """Kill a pipeline on a cluster; the next one goes on from its checkpoint."""
        self.daemon.wait_for("the lead", lambda: self.daemon.logged("daemon.leading"))
        pipeline = ClusterPipeline(
            spark,
            self.archive,
            self.directory / "pipeline",
            (
                f"bootstrap={self.bootstrap}",
                *self.settings,
                f"pipeline.checkpoint={checkpoint}",
                *settings,
            ),
        )
        try:
            self.group.commit(40)
            pipeline.start()
            pipeline.wait_for("lag", lambda: self.group.lag_is(RECORDS - 40))
            first = pipeline.wait_for("progress", self.group.pipeline)
            pipeline.kill()

            self.group.commit(90)
            pipeline.start()
            pipeline.wait_for("lag of the new commit", lambda: self.group.lag_is(RECORDS - 90))
            pipeline.wait_for("progress", lambda: self.group.pipeline().instance != first.instance)
            assert pipeline.logged("pipeline.checkpoint_set_aside") == []
            (caught_up,) = pipeline.wait_for(
                "the end of the input", lambda: pipeline.logged("pipeline.caught_up")
            )
            assert not caught_up["rebuilt"]
        finally:
            if pipeline.child is not None:
                pipeline.kill()

    def close(self):
        self.group.close()
        self.daemon.stop()


@pytest.fixture
def stage(brokers, archive, tmp_path):
    stage = Stage(brokers, archive, tmp_path, f"files-{uuid4().hex[:8]}")
    yield stage
    stage.close()


def test_a_pipeline_on_yarn_goes_on_from_its_checkpoint_in_hdfs(stage, tmp_path):
    directory = tmp_path / "hadoop"
    directory.mkdir()
    with hadoop_cluster(directory) as hadoop:
        executors = "pipeline.spark.spark.executor.instances=2"
        stage.goes_on(hadoop, f"{hadoop.file_system}/levelwind/checkpoint", (executors,))


def test_a_pipeline_goes_on_from_its_checkpoint_in_s3(stage, spark, tmp_path):
    with s3_server(tmp_path / "s3.log") as s3:
        settings = (f"pipeline.spark.{name}={value}" for name, value in s3.spark_settings.items())
        stage.goes_on(spark, f"{s3.uri}/checkpoint", settings)

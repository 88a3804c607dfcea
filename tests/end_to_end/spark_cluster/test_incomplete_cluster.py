"""A set-up that lacks something ends with a line that names it, and harms no checkpoint."""

import json
import os
from pathlib import Path

import pytest

from levelwind.deploy.jars import classpath
from levelwind.deploy.ports import HOST, free_ports
from levelwind_testing.pipeline.installation import Installation
from levelwind_testing.processes.cluster_pipeline import (
    ClusterPipeline,
    batches_done,
    own_installation,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        "FAULTS_KILLS" not in os.environ, reason="ten starts: `make cluster-faults`"
    ),
]

TOPIC, GROUP = "work", "readers"
NO_JARS = ("--set", "pipeline.spark.spark.jars=")
IMPATIENT = ("--set", "pipeline.progress_timeout=10")
"""The least time after which a pipeline without executors is given up."""


def spark_setting(name: str, value: str) -> tuple[str, str]:
    return "--set", f"pipeline.spark.{name}={value}"


@pytest.fixture(scope="module")
def lw(brokers) -> Installation:
    lw = Installation(bootstrap=brokers.bootstrap, prefix="lacking.", replication=1)
    lw.create(TOPIC)
    lw.fill(TOPIC, [10])
    lw.observe(TOPIC)
    lw.commit(GROUP, TOPIC, {0: 1})
    lw.sample(TOPIC)
    return lw


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("lacking")


@pytest.fixture(scope="module")
def pipeline(lw, spark, archive, directory) -> ClusterPipeline:
    """A pipeline with a healthy checkpoint, and input that it has not read."""
    settings = own_installation(lw.bootstrap, lw.prefix, directory)
    pipeline = ClusterPipeline(spark, archive, directory, settings)
    pipeline.start()
    pipeline.to_the_end()
    pipeline.kill()
    lw.commit(GROUP, TOPIC, {0: 2})
    return pipeline


def lacks(archive: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """By what is missing: the options of the command, and how the reason begins."""
    shipped = ("--archive", str(archive))
    jars = ":".join(map(str, classpath("spark")))
    unreachable = f"spark://{HOST}:{next(free_ports())}"
    return {
        "jars": ((*shipped, *NO_JARS), "the Kafka client is not on Spark's class path"),
        "jars on executors": (
            (*shipped, *NO_JARS, *spark_setting("spark.driver.extraClassPath", jars)),
            "a class is missing",
        ),
        "libraries": ((), "a Python module is missing"),
        "interpreter": (
            (*shipped, *spark_setting("spark.pyspark.python", "./environment/bin/none")),
            "the Python interpreter of Spark's workers is missing",
        ),
        "executors": (
            (*shipped, *spark_setting("spark.executor.memory", "64g"), *IMPATIENT),
            "Spark lost its executors, or was refused resources (no executors for",
        ),
        "master": (
            (*shipped, "--master", unreachable),
            "the master of the Spark cluster does not answer",
        ),
        "a master's name": ((*shipped, "--master", "nonsense"), "Spark's JVM ended"),
        "a master's name again": ((*shipped, "--master", "nonsense"), "Spark's JVM ended"),
    }


def test_what_a_set_up_lacks_is_named_and_the_checkpoint_goes_on(
    lw, pipeline, archive, directory, capsys
):
    healthy = directory / "checkpoint"
    done = batches_done(healthy / "query")
    assert done >= 0
    for lack, (options, reason) in lacks(archive).items():
        pipeline.start_with(*options)
        assert pipeline.wait_for_end(240) == 1, f"{lack}: {pipeline.tail()}"
        failed = pipeline.logged("pipeline.failed")
        assert failed, f"{lack}: {pipeline.tail()}"
        assert failed[-1]["error"].startswith(reason), lack
        assert failed[-1].get("cause", "machine") == "machine", lack
        assert not failed[-1].get("rebuild"), lack
        marks = {file.name for file in healthy.glob("*.json")}
        assert marks <= {"shape.json", "unverified.json"}, lack
        with capsys.disabled():
            print(f"without {lack}: {failed[-1]['error']}")
    pipeline.start_with("--archive", str(archive) + ".absent")
    assert pipeline.wait_for_end() != 0
    assert any("there is no archive" in line for line in pipeline.noise), pipeline.tail()
    pipeline.start()
    # The batch that the others began is the last one; the query then finds nothing to read.
    pipeline.to_the_end()
    assert lw.latest("lag")[("lag", GROUP, TOPIC)]["committed"] == [2]
    assert batches_done(healthy / "query") > done
    assert pipeline.logged("pipeline.checkpoint_set_aside") == []
    assert json.loads((healthy / "shape.json").read_text())["prefix"] == lw.prefix
    pipeline.kill()

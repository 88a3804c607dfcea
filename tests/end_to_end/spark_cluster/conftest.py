"""Brokers, a Spark cluster of two workers, and the archive that its executors run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from levelwind.deploy import distribution
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.processes.spark_cluster import StandaloneSpark, standalone_spark


@pytest.fixture(scope="package")
def brokers() -> Iterator[Cluster]:
    """Brokers of these tests alone: the offsets topic holds nothing else."""
    with Cluster.start(1, settings=PATIENT) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with standalone_spark(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, archive, _ = distribution.build(tmp_path_factory.mktemp("dist"), compresslevel=1)
    return archive

"""The rehearsal of a start, as `make setup` runs it."""

import os
import subprocess

import pytest

from levelwind.daemon.pipeline import rehearsal
from levelwind.daemon.pipeline.process import spark_archive
from levelwind.deploy.bootstrap import cache
from levelwind.deploy.cluster import broker_archive
from levelwind.deploy.jars import classpath
from levelwind.deploy.java import java
from levelwind.streaming.spark import session
from levelwind.streaming.spark.jvm import driver_jvm

pytestmark = [pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(1200)]


def maps(archive, class_path):
    """Whether a JVM with this class path maps an archive; it must not start otherwise."""
    options = (f"-XX:SharedArchiveFile={archive}", "-Xshare:on")
    command = [java(), *options, "-cp", class_path, "-version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_rehearsal_writes_archives_that_the_jvms_map(monkeypatch, tmp_path):
    jars = cache() / "maven"
    (tmp_path / "levelwind").mkdir()
    (tmp_path / "levelwind" / "maven").symlink_to(jars)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    steps = []
    rehearsal.rehearse(steps.append)
    assert len(steps) == 1
    brokers, spark = classpath("brokers"), classpath("spark")
    of_broker, of_spark = broker_archive(java(), brokers), spark_archive(spark)
    assert maps(of_broker, os.pathsep.join(map(str, brokers)))
    settings = session.options(spark, parallelism=1)
    assert maps(of_spark, driver_jvm.class_path(settings))
    assert not maps(of_spark, os.pathsep.join(map(str, brokers)))
    rehearsal.rehearse(steps.append)
    assert len(steps) == 1, "archives that exist are not written again"
    assert sorted(of_spark.parent.iterdir()) == sorted([of_broker, of_spark])

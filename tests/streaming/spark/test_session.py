"""Settings of the session: what holds for one machine is set for `local` alone."""

from pathlib import Path

import pytest

from levelwind.streaming.spark import session
from levelwind.streaming.spark.settings import is_local

JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))


def test_nothing_that_follows_from_one_machine_is_set_on_a_cluster() -> None:
    local, cluster = session.options(JARS, 4), session.cluster_options(JARS)
    own = {"spark.jars", "spark.python.unix.domain.socket.dir"}
    assert {name: local[name] for name in cluster if name in local} == {
        name: value for name, value in cluster.items() if name not in own
    }
    assert set(local) - set(cluster) == {
        "spark.master",
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.driver.extraClassPath",
        "spark.executor.extraClassPath",
        *session.NOTHING_SHOWN,
        "spark.python.daemon.module",
        "spark.hadoop.fs.file.impl",
        "spark.sql.streaming.checkpointFileManagerClass",
    }
    assert not [value for value in cluster.values() if "127.0.0.1" in value]
    assert cluster["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert "spark.jars" not in session.cluster_options(())


def test_who_shows_sparks_interface_sees_what_spark_shows() -> None:
    chosen = {"spark.ui.enabled": "true"}
    hidden, shown = session.options(JARS, 2), session.options(JARS, 2, chosen)
    assert hidden["spark.ui.enabled"] == "false"
    assert shown == {n: v for n, v in hidden.items() if n not in session.NOTHING_SHOWN} | chosen


def test_a_class_path_that_the_settings_choose_leaves_the_connector_on_it() -> None:
    chosen = {"spark.driver.extraClassPath": "/opt/hadoop/*", "spark.driver.memory": "2g"}
    settings = session.options(JARS, 1, chosen)
    assert settings["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar:/opt/hadoop/*"
    assert settings["spark.executor.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert settings["spark.driver.memory"] == "2g"
    assert session.options((), 1, chosen)["spark.driver.extraClassPath"] == "/opt/hadoop/*"


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[4]", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("k8s://https://host:6443", False),
        ("yarn", False),
    ],
)
def test_a_master_is_local_or_a_cluster(master: str, local: bool) -> None:
    assert is_local({"spark.master": master}) is local


def test_without_a_master_the_session_is_local() -> None:
    assert is_local({})


def test_a_checkpoint_in_s3_is_committed_by_an_upload_and_not_by_a_rename() -> None:
    (manager,) = session.checkpoint_options("s3a://bucket/levelwind").values()
    assert manager.endswith("AbortableStreamBasedCheckpointFileManager")
    assert session.checkpoint_options("hdfs://host/levelwind") == {}
    assert session.checkpoint_options(Path("/state")) == {}

"""The pipeline without a daemon: what is sent to a cluster, and its watch over itself."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.daemon.errors import PipelineFailedError
from levelwind.daemon.pipeline import process, standalone
from levelwind.daemon.pipeline.standalone import SelfWatch, Shipping, run, ship_archive
from levelwind.deploy.jars import locked


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The orders that the process was started with."""
    orders = []
    monkeypatch.setattr(process, "run", lambda order, _: orders.append(order) or 1)
    monkeypatch.setattr(standalone, "classpath", lambda _: (Path("/jars/a.jar"),))
    monkeypatch.setattr(SelfWatch, "start", lambda _: None)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.chdir(tmp_path)
    return orders


def spark_of(order):
    return order.settings.pipeline.spark


def test_on_this_machine_nothing_is_shipped(started):
    assert run(Settings(), Shipping(master="local[3]")) == 1
    (order,) = started
    assert spark_of(order) == {"spark.master": "local[3]"}
    assert order.jars == (Path("/jars/a.jar"),)


def test_a_cluster_gets_the_packages_and_the_jars_from_here(started, monkeypatch):
    def start(order, _):
        """Import the packages as an executor does; they are gone when the process has ended."""
        shipped = spark_of(order)["spark.submit.pyFiles"]
        assert Path(shipped).name == "levelwind.zip"
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]);"
            "import levelwind.streaming.messages.packing; print(levelwind.streaming.__file__)"
        )
        command = [sys.executable, "-I", "-c", code, shipped]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert found.startswith(shipped)
        started.append(order)
        return 1

    monkeypatch.setattr(process, "run", start)
    run(Settings(), Shipping(master="spark://host:7077"))
    (order,) = started
    assert order.jars == (Path("/jars/a.jar"),)


def test_jars_by_their_coordinates_are_those_of_the_lock(started):
    run(Settings(), Shipping(master="yarn", packages=True))
    (order,) = started
    assert order.jars == ()
    assert spark_of(order)["spark.jars.packages"].split(",") == [
        jar.coordinates for jar in locked("spark")
    ]


def test_settings_of_the_operator_win_over_what_is_shipped(started, tmp_path):
    archive = tmp_path / "a.tar.gz"
    archive.touch()
    own = {"spark.master": "yarn", "spark.pyspark.python": "/opt/python"}
    run(Settings(pipeline=PipelineSection(spark=own)), Shipping(archive=archive))
    (order,) = started
    assert spark_of(order)["spark.pyspark.python"] == "/opt/python"
    assert spark_of(order)["spark.archives"] == f"{archive}#environment"


def test_what_spark_submit_was_given_is_left_alone(started, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    run(Settings(), Shipping())
    (order,) = started
    assert (spark_of(order), order.jars) == ({}, ())


def test_the_archives_python_is_this_interpreter_on_the_drivers_own_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.tar.gz").touch()
    settings = ship_archive(Path("a.tar.gz"))
    assert settings["spark.archives"] == f"{tmp_path}/a.tar.gz#environment"
    found = subprocess.run(
        [settings["spark.pyspark.python"], "-c", "import sys; print(sys.executable)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == sys.executable


def test_an_archive_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(PipelineFailedError, match=r"no archive .*/none\.tar\.gz: `make dist`"):
        ship_archive(tmp_path / "none.tar.gz")


@pytest.mark.parametrize(
    ("heartbeat", "said_at", "ended_at"),
    [({"progress": False}, 110.0, 120.0), ({"progress": False, "fed": True}, 10.0, 20.0)],
    ids=["that falls silent", "whose query reads nothing of its input"],
)
def test_a_process_says_so_and_ends_itself(monkeypatch, heartbeat, said_at, ended_at):
    monkeypatch.setattr("levelwind.daemon.pipeline.liveness.signs_of_life.FIRST_SIGN_SECONDS", 0.0)
    now, ended, said = [0.0], threading.Event(), []
    watch = SelfWatch(answer_timeout=20.0, progress_timeout=300.0, end=ended.set)

    def pause(seconds):
        assert not ended.is_set()
        now[0] += seconds
        if now[0] <= 100:
            watch.emit({"event": "pipeline.heartbeat", **heartbeat})

    def warning(event, **_):
        said.append((event, now[0]))

    log = SimpleNamespace(warning=warning, error=warning)
    monkeypatch.setattr(standalone, "log", log)
    monkeypatch.setattr(standalone, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=pause))
    watch.start()
    assert ended.wait(120)
    assert said == [("pipeline.quiet", said_at), ("pipeline.silent", ended_at)]

import os
import socket
import subprocess
import sys

import pytest

from levelwind.streaming.spark.settings import WORKER_DAEMON
from levelwind_testing.processes.tree_watch import Held, TreeWatch, held_by, role_of
from levelwind_testing.waiting import wait_until


def watched(files, *, every=10):
    """A watch that saw these numbers of open files, one in every ten batches."""
    watch = TreeWatch()
    for look, number in enumerate(files):
        watch.add(look * every, {"daemon: JVM": Held(1, files=number)})
    return watch


def test_a_file_in_fifty_batches_is_a_leak():
    (leak,) = watched(range(100, 160), every=50).leaks()
    assert leak == "daemon: JVM: files 100 -> 140 in 2000 batches"


@pytest.mark.parametrize(
    "files",
    [[100] * 60, [100 + look % 7 for look in range(60)], range(160, 100, -1)],
    ids=["as many", "more until they are collected", "fewer"],
)
def test_what_is_closed_in_the_end_is_no_leak(files):
    assert watched(files).leaks() == []


def test_a_few_more_in_a_short_time_may_be_forgiven():
    assert watched([100, 100, 100, 101, 101, 102]).leaks() != []
    assert watched([100, 100, 100, 101, 101, 102]).leaks(besides=2) == []
    assert watched([100, 110, 120, 130, 140, 150]).leaks(besides=2) != []


def test_a_role_that_appears_later_grows_from_nothing():
    watch = watched([1] * 6)
    watch.looks[4:] = [(at, {**held, "daemon: workers": Held(9)}) for at, held in watch.looks[4:]]
    assert watch.leaks() == ["daemon: workers: processes 0 -> 9 in 40 batches"]


def test_each_process_has_the_role_that_its_own_command_names():
    jvm = f"java org.apache.spark.deploy.SparkSubmit --conf daemon.module={WORKER_DAEMON}"
    assert role_of(jvm) == "JVM"
    assert role_of(f"python -m {WORKER_DAEMON} pyspark.worker") == "workers"
    assert role_of("python -m levelwind.daemon.pipeline.process settings.json") == "pipeline"
    assert (
        role_of("python deploy/guard.py 5 python -m levelwind.daemon.pipeline.process") == "guards"
    )
    assert role_of("sh") == "others"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_process_holds_is_counted(tmp_path):
    script = (
        "import pathlib, socket, sys, time; s = [socket.socket() for _ in range(5)];"
        " f = [open(sys.argv[1] + name, 'w') for name in ('1.sst', '2.sst', '3.log')];"
        " pathlib.Path(f[0].name).unlink(); print(1, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, f"{tmp_path}/"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        held = held_by({"child": child.pid})["child: others"]
        child.kill()
    assert (held.processes, held.tables, held.sockets, held.threads) == (1, 2, 5, 1)
    assert held.files >= 5 + 4
    assert held.kib > 1000
    wait_until("end", lambda: not held_by({"child": child.pid}))
    with socket.socket():
        assert held_by({"this": os.getpid()})["this: others"].sockets >= 1

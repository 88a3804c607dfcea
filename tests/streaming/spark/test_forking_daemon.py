"""The daemon of Spark's Python workers: what it has imported, and that it forks without threads."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from levelwind.streaming.spark.settings import WORKER_DAEMON

LINUX = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")


def python(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.slow
def test_nothing_is_left_to_import_or_to_collect_and_no_thread_runs():
    program = f"""
import gc, importlib, os, sys
daemon = importlib.import_module("{WORKER_DAEMON}")
daemon.preload()
print(daemon.threads(), gc.get_freeze_count() > 50_000, len(gc.get_objects()) < 5_000)
needed = ("pyarrow", "numpy", "levelwind.streaming.spark.query", "pyspark.worker")
print(*[name for name in needed if name not in sys.modules])
if (child := os.fork()) == 0:
    import pyarrow, pyarrow.compute
    print(pyarrow.compute.sum(pyarrow.array(range(100_000))), flush=True)
    importlib.import_module("pyspark.testing.utils")  # as with the first state
    print("pandas" in sys.modules, flush=True)
    importlib.import_module("pandas")
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    # Pandas, which takes as long to import as all else, is there for whoever asks for it.
    assert python(program) == ["1", "True", "True", "4999950000", "False", "0"]


@contextmanager
def daemon(**environment):
    process = subprocess.Popen(
        [sys.executable, "-m", WORKER_DAEMON, "pyspark.worker"],
        env=os.environ | {"PYTHON_WORKER_FACTORY_SECRET": "s"} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert len(process.stdout.read(4)) == 4  # its port
        yield Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    finally:
        process.communicate()  # as Spark ends it: by closing its standard input


@pytest.mark.slow
@LINUX
def test_it_is_ready_as_sparks_own_is():
    with daemon() as command:
        assert WORKER_DAEMON in " ".join(command)


@pytest.mark.slow
@LINUX
def test_where_a_library_starts_a_thread_all_the_same_workers_import_for_themselves():
    with daemon(JE_ARROW_MALLOC_CONF="background_thread:true") as command:
        assert "pyspark.daemon" in command

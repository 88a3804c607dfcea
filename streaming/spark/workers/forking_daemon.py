"""Daemon that Spark's Python workers are forked from, with what they need imported already.

Spark's own imports nothing, so that each worker imports all, which takes 0.8 s of CPU and 80 MiB,
and collects garbage after each task among 80,000 objects that never are, 50 ms of CPU for each task
of a batch. Here imports are done once and their memory is shared, and the collector leaves them
alone.

No thread may run when a process forks. So the libraries are told to start none; should one start
some nevertheless, as another version of it might, the workers import for themselves again.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import daemon

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Variables by which the libraries start no threads."""
GIVE_BACK = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Variables by which they keep less memory that is free: Arrow's own pool kept 30 to 50 MiB more a
worker after batches of 20,000 lag records, and was no quicker."""
IMPORTED = (
    "numpy.ma",  # Arrow asks for it with the first array
    "pyspark.worker",
    "pyspark.sql.streaming.stateful_processor_util",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "levelwind.streaming.spark.query",
    "levelwind.streaming.spark.row_handlers",
)
"""Modules that, with what they import, the workers need."""
ASKED_WITH_STATE = "pyspark.testing.utils"
"""Where pyspark looks with a worker's first state whether there is NumPy: the module tries all
libraries that pyspark's own tests use, pandas among them."""


def preload() -> None:
    """Import what the workers need, and keep it out of the way of the garbage collector."""
    for name, value in {**NO_THREADS, **GIVE_BACK}.items():
        os.environ.setdefault(name, value)
    import pyarrow as pa  # noqa: PLC0415 - it reads the variables

    with _without("pandas"):
        pa.array([0])
    for module in IMPORTED:
        with suppress(ImportError):  # a worker that needs it says so itself
            importlib.import_module(module)
    with _without("pandas"), suppress(ImportError):
        importlib.import_module(ASKED_WITH_STATE)
    gc.collect()
    gc.freeze()


@contextmanager
def _without(package: str) -> Iterator[None]:
    """Have a package seem to be missing for a while.

    Arrow looks for pandas once, at its first conversion, to recognise a series, and pyspark once,
    before the first state. The workers convert no series, and pandas takes as long to import as all
    else together; then its 30,000 objects are searched for garbage after each task.
    """
    finder = _Missing(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Missing:
    """A finder of modules that says of one package that there is none."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name == self._package:
            raise ModuleNotFoundError(f"no module named {name!r}", name=name)


def threads() -> int:
    """Number of this process's threads; 1 where the system does not say."""
    tasks = Path("/proc/self/task")
    return sum(1 for _ in tasks.iterdir()) if tasks.is_dir() else 1


if __name__ == "__main__":
    preload()
    if threads() > 1:
        command = [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]]
        os.execv(sys.executable, command)  # noqa: S606 - Spark's own daemon, without a shell
    daemon.manager()

"""Spark session of the pipeline: quiet, with RocksDB as the state store.

By default it is local and on loopback. Of a cluster (`spark.master` is `spark://…`, `k8s://…` or
`yarn`) nothing is assumed: what follows from one machine for all, the interpreter, the paths of
jars and the addresses, is set for `local` alone. `spark-submit` has made the session's settings
before this process began; they win over those of this module.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark.jvm import driver_jvm
from levelwind.streaming.spark.settings import (
    LATE_OPTIMIZATION,
    SEVERAL_TASKS,
    WORKER_DAEMON,
    is_local,
    is_submitted,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

PYTHON = "spark.pyspark.python"
"""Spark's setting of the interpreter of the Python workers."""
STATE_PARTITIONS = "spark.sql.shuffle.partitions"
STATE_STORE_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT_JVM_OPTIONS = "spark.driver.defaultJavaOptions"
EXTRA_JVM_OPTIONS = "spark.driver.extraJavaOptions"
SHORT_LIVED_BATCHES = ("-XX:SurvivorRatio=4",)
"""The share of the serial collector's young generation that survivors have.

The rows and states of a batch are dead when it ends. With a tenth, as Java has it, some megabytes
of each batch became old, and the whole heap was collected again and again: 0.3 to 0.5 s in which
nothing else goes on."""
HEAP_GIVEN_BACK = ("-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40")
"""Shares of the heap that a collection of the whole leaves free, in percent.

With Java's 40 and 70 a heap that grew as it read a backlog stayed as it was for good."""
FIRST_HEAP = "-XX:InitialHeapSize=160m"
"""The heap that the JVM begins with, a little more than what lives in a small cluster's.

By Java it is a 64th of the machine's memory, and a third of it, the young generation, is soon
used up to its end, whatever the cluster's size."""
FREED_BY_LIBRARIES = "-XX:TrimNativeHeapInterval=5000"
"""Milliseconds after which memory that RocksDB and others freed goes back to the system; a Java
that does not know the option ignores it."""
METASPACE = "-XX:MetaspaceSize=192m"
"""What Spark's classes take: below it, Java collects the whole heap as it loads them, twice."""
LOCAL_FILE_SYSTEM = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""A local file system that asks the JVM, and writes the same checksums as Hadoop's own.

Without its native library Hadoop's own starts a process for each file that it creates or renames,
about a hundred a batch."""
CHECKPOINT_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""The manager that uses Hadoop's older interface, which `LOCAL_FILE_SYSTEM` implements."""
UPLOADING_FILE_MANAGER = (
    "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
)
"""The manager of Spark's module `spark-hadoop-cloud` for S3."""
NOTHING_SHOWN = {
    "spark.ui.enabled": "false",
    "spark.ui.liveUpdate.period": "-1",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "50",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
}
"""No web interface of Spark's, and little of what it would show.

Without an interface, too, Spark keeps the plan's text and the figures of the last thousand batches:
48 MB of the heap after 700 of them."""
CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
WORKER_SOCKETS = {"spark.python.unix.domain.socket.dir": "/tmp"}  # noqa: S108 - named at random
"""Where an executor's sockets are: a container of YARN has its own temporary directory at a path
that is longer than the name of a socket may be."""
LONGEST_SOCKET_DIRECTORY = 60
"""Characters of a path that leave room for the name of a socket, of 43 among at most 103."""


def options(
    jars: Sequence[Path], parallelism: int, chosen: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Settings for a local pipeline, under Spark's names; the arguments are those of `create`.

    Class paths that are chosen come after the jars, without which no pipeline runs.
    """
    own = {
        "spark.master": f"local[{parallelism}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": WORKER_DAEMON,
        "spark.hadoop.fs.file.impl": LOCAL_FILE_SYSTEM,
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILE_MANAGER,
    }
    class_paths = {
        name: os.pathsep.join([*map(str, jars), *filter(None, [chosen.get(name)])])
        for name in CLASS_PATHS
    }
    hidden = {} if chosen.get("spark.ui.enabled") == "true" else NOTHING_SHOWN
    return common_options() | worker_sockets() | own | hidden | dict(chosen) | class_paths


def worker_sockets() -> dict[str, str]:
    """Settings with which Spark's sockets are among its temporary files, if names have room."""
    has_room = len(tempfile.gettempdir()) <= LONGEST_SOCKET_DIRECTORY
    return {} if has_room else WORKER_SOCKETS


def checkpoint_options(directory: Path | str) -> dict[str, str]:
    """Settings for a checkpoint in a file system, under Spark's names.

    A rename in S3 is a copy and no commit: instead an upload is completed, or aborted.
    """
    if str(directory).startswith("s3a:"):
        return {"spark.sql.streaming.checkpointFileManagerClass": UPLOADING_FILE_MANAGER}
    return {}


def cluster_options(jars: Sequence[Path]) -> dict[str, str]:
    """Settings for a pipeline on a cluster, which gets the jars from the driver."""
    shipped = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    return common_options() | WORKER_SOCKETS | shipped


def common_options() -> dict[str, str]:
    """Settings for the pipeline wherever it runs, under Spark's names."""
    return {
        "spark.app.name": "levelwind",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # With a limit in bytes Spark computes the size of a batch after each record, a quarter of
        # the time of handing records to Python. Instead: so few records that they fit in memory
        # even if each is as large as a broker allows.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # Over TCP each task of a small batch waits 40 ms for a delayed acknowledgement of its peer.
        "spark.python.unix.domain.socket.enabled": "true",
        # It is a variable of some workers' environment: with it each kind of operator would have a
        # daemon and workers of its own.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE_PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # By default 64 for each value of an operator and partition, filled with outdated values.
        "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB": "8",
        # Otherwise the connector's discovery leaves out internal topics, and it silently reads
        # nothing.
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
        # All rules are in event time: a batch without input has no effect.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # By default Spark asks for the ends of the input a hundred times a second, which is most of
        # what an idle pipeline costs.
        "spark.sql.streaming.pollingDelay": "200ms",
        # Each partition of the input has a consumer, which each batch asks in the same order. Of
        # more than 64, the default, the one that is asked next was always given up just now.
        "spark.kafka.consumer.cache.capacity": "10000",
        # The buffer of a broadcast, of which a batch has eight of some kilobytes each; 4 MiB by
        # default, that Java fills with zeros and collects again: a tenth of what a batch allocates.
        "spark.broadcast.blockSize": "64k",
        # Spark optimizes the same plan with each batch until a round changes nothing. The first one
        # finds all there is to find: a test holds it.
        "spark.sql.optimizer.maxIterations": "1",
        # Spark makes projections of their own for each partition of the input and batch, and
        # generates the code of each anew, only to find that it is compiled: beside fifty partitions
        # a fifth of the JVM's CPU. Rows of a backlog are projected as fast without.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
    }


def default_jvm_options(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Options of a local session's JVM; those of the collector unless the settings choose another.

    A start compiles thousands of methods with the optimizing compiler that then hardly run: half of
    its CPU time. With thresholds ten times Java's, only what stays hot is compiled by it.
    """
    chosen = settings.get(EXTRA_JVM_OPTIONS, "")
    # Java asks for no variable of the environment: its files, and by default Spark's, would be
    # among those of all processes.
    temporary = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    common = (temporary, METASPACE, FREED_BY_LIBRARIES, *LATE_OPTIMIZATION)
    if re.search(r"-XX:\+Use\w+GC\b", chosen):
        return common
    return ("-XX:+UseSerialGC", FIRST_HEAP, *SHORT_LIVED_BATCHES, *HEAP_GIVEN_BACK, *common)


def create(
    jars: Sequence[Path],
    *,
    parallelism: int = SEVERAL_TASKS,
    spark: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
    jvm_options: Sequence[str] = (),
) -> SparkSession:
    """Start Spark, or take the one that `spark-submit` has started this process with.

    The Python workers of a local session run this interpreter, with the same modules.

    Args:
        jars: the Kafka connector and what it needs, as deploy resolves them; a cluster gets them
            from this process.
        parallelism: the most tasks of a local session that work at the same time.
        spark: settings of Spark's that override those of this module, but for `CLASS_PATHS` of a
            local session, which they extend.
        log_level: level of Spark's own log, on standard error.
        jvm_options: options of the JVM of a local session; those of `spark` win.
    """
    chosen = dict(spark or {})
    if is_submitted():
        settings = common_options() | WORKER_SOCKETS
        settings = {
            name: settings[name] for name in settings.keys() - submitted_settings()
        } | chosen
    elif is_local(chosen):
        settings = options(jars, parallelism, chosen)
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        own_options = shlex.join([*jvm_options, *default_jvm_options(settings)])
        settings.setdefault(DEFAULT_JVM_OPTIONS, own_options)
        driver_jvm.start(settings)
    else:
        settings = cluster_options(jars) | chosen
        if PYTHON in settings:  # its place in spark-submit's environment
            os.environ["PYSPARK_PYTHON"] = settings[PYTHON]
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def start_workers(session: SparkSession) -> None:
    """Start the Python workers of a local session, whose imports nothing has to wait for then.

    Spark starts them with the first task that needs one, which is that of the first batch.
    """
    with suppress(Py4JError):  # whoever uses the session says that its JVM has ended
        session.sparkContext.parallelize([0], 1).foreach(id)


def submitted_settings() -> dict[str, str]:
    """The settings of Spark's that `spark-submit` was given."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - as pyspark's own modules do
    return dict(SparkConf().getAll())


def jvm(session: SparkSession) -> subprocess.Popen[bytes] | None:
    """The process of a session's JVM, a child of this process; None under `spark-submit`."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - pyspark has no other access
    process: subprocess.Popen[bytes] | None = gateway.proc
    return process


def is_everywhere(session: SparkSession) -> bool:
    """Whether tasks of a session run on other machines, or may."""
    return not is_local({"spark.master": session.sparkContext.master})


WORKING = "Processing new data"
"""Spark's message in the status of a query that works on a batch."""


def is_working(session: SparkSession, query: StreamingQuery | None) -> bool:
    """Ask the JVM whether a query works on a batch.

    Args:
        session: the session of the query.
        query: the query; None where it has not been started, which needs an answer as well.

    Raises:
        Py4JError: the JVM does not answer any more.
    """
    if query is None:
        java: Any = session._jvm  # noqa: SLF001 - pyspark has no other access to its JVM
        java.java.lang.System.nanoTime()
        return False
    # One call: pyspark's own `status` makes one for each of its figures.
    status = json.loads(query._jsq.status().json())  # noqa: SLF001 - as above
    return bool(status["isTriggerActive"]) and status["message"] == WORKING


def executors(session: SparkSession) -> int:
    """Ask the JVM for the number of a session's executors, besides the driver.

    Raises:
        Py4JError: the JVM does not answer any more.
    """
    java: Any = session.sparkContext._jsc  # noqa: SLF001 - pyspark has no other access to its JVM
    return int(java.sc().getExecutorMemoryStatus().size()) - 1


def end_jvm(session: SparkSession) -> int:
    """End a session's JVM in good order and wait for it; return its exit code."""
    process = jvm(session)
    if process is None:
        raise PipelineError("spark-submit started the JVM, and ends it")
    if process.stdin is not None:
        process.stdin.close()
    return process.wait()

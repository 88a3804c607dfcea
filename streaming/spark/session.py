"""Spark session of the pipeline: local, on loopback, quiet, with RocksDB as the state store."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from streaming.spark.jvm import driver_jvm

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

STATE_STORE_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT_JVM_OPTIONS = "spark.driver.defaultJavaOptions"
EXTRA_JVM_OPTIONS = "spark.driver.extraJavaOptions"
LATE_OPTIMIZATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
LOCAL_FILE_SYSTEM = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""A local file system that asks the JVM, and writes the same checksums as Hadoop's own.

Without its native library Hadoop's own starts a process for each file that it creates or renames,
about a hundred a batch."""
WORKER_DAEMON = "streaming.spark.workers.forking_daemon"
"""The module that Spark's Python workers are forked by; not imported here, since it preloads."""
CHECKPOINT_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""The manager that uses Hadoop's older interface, which `LOCAL_FILE_SYSTEM` implements."""


def options(jars: Sequence[Path], parallelism: int) -> dict[str, str]:
    """Settings for the pipeline, under Spark's names; the arguments are those of `create`."""
    classpath = os.pathsep.join(map(str, jars))
    return {
        "spark.master": f"local[{parallelism}]",
        "spark.app.name": "levelwind",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(parallelism),
        # With a limit in bytes Spark computes the size of a batch after each record, a quarter of
        # the time of handing records to Python. Instead: so few records that they fit in memory
        # even if each is as large as a broker allows.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # Over TCP each task of a small batch waits 40 ms for a delayed acknowledgement of its peer.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": WORKER_DAEMON,
        # It is a variable of some workers' environment: with it each kind of operator would have a
        # daemon and workers of its own.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.hadoop.fs.file.impl": LOCAL_FILE_SYSTEM,
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILE_MANAGER,
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
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
    }


def quick_start(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Options of the JVM for a start that costs less, unless the settings choose a collector.

    A start compiles thousands of methods with the optimizing compiler that then hardly run: half of
    its CPU time. With thresholds ten times Java's, only what stays hot is compiled by it.
    """
    chosen = settings.get(EXTRA_JVM_OPTIONS, "")
    collector = () if re.search(r"-XX:\+Use\w+GC\b", chosen) else ("-XX:+UseSerialGC",)
    return (*collector, *LATE_OPTIMIZATION)


def create(
    jars: Sequence[Path],
    *,
    parallelism: int = 2,
    spark: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
    jvm_options: Sequence[str] = (),
) -> SparkSession:
    """Start Spark in this process; its Python workers run this interpreter, with the same modules.

    Args:
        jars: the Kafka connector and what it needs, as deploy resolves them.
        parallelism: number of concurrent tasks, and of partitions of the state.
        spark: settings of Spark's that override those of `options`.
        log_level: level of Spark's own log, on standard error.
        jvm_options: options of the JVM; those of `spark` win.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = options(jars, parallelism) | dict(spark or {})
    settings.setdefault(DEFAULT_JVM_OPTIONS, shlex.join([*jvm_options, *quick_start(settings)]))
    driver_jvm.start(settings)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def jvm(session: SparkSession) -> subprocess.Popen[bytes]:
    """The process of a session's JVM, a child of this process."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - pyspark has no other access
    process: subprocess.Popen[bytes] = gateway.proc
    return process


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


def end_jvm(session: SparkSession) -> int:
    """End a session's JVM in good order and wait for it; return its exit code."""
    process = jvm(session)
    if process.stdin is not None:
        process.stdin.close()
    return process.wait()

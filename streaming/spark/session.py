"""A Spark session for the pipeline: on this machine, quiet, on loopback, with RocksDB as the state store."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Without Hadoop's native library its own local file system starts a process for each file that it creates or renames,
# about a hundred a batch. This one asks the JVM instead, and keeps checksums just so; it is a file system of the older
# interface, which the other checkpoint manager uses.
FILES = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def options(jars: Sequence[Path], parallelism: int) -> dict[str, str]:
    """Spark's settings, each under its own name."""
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
        # Without a limit in bytes the size of a batch is not reckoned after each record, a quarter of what it took to hand
        # them to Python; so few records of a broker's that they fit at their largest.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # Over TCP each task of a small batch waits 40 ms for an acknowledgement that its peer delays.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.hadoop.fs.file.impl": FILES,
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Without it the connector leaves internal topics out of its discovery, and silently reads nothing.
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
        # Our rules know only event time: a batch without input has nothing to say.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Spark asks for the ends of the input a hundred times a second, and most of what a pipeline at rest costs is that.
        "spark.sql.streaming.pollingDelay": "200ms",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
    }


def create(
    jars: Sequence[Path],
    *,
    parallelism: int = 2,
    spark: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
) -> SparkSession:
    """Start Spark in this process; its Python workers run this interpreter, and so find our modules.

    Args:
        jars: the connector's, as deploy resolves them.
        parallelism: tasks at a time, and partitions of the state.
        spark: settings that go before ours.
        log_level: of Spark's own log, on standard error.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    for name, value in (options(jars, parallelism) | dict(spark or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session

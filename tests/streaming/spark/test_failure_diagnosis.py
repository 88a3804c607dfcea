"""Diagnosis of the texts with which Spark 4.2 died, as of damaged files or a full disk."""

import json
from pathlib import Path

import pytest

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.paths import TEMPORARY_PREFIX
from levelwind.streaming.spark.failure_diagnosis import FailureCause, diagnose

DEATHS = Path(__file__).parents[2] / "data" / "spark_deaths.jsonl"
"""Texts of deaths that were provoked, most of their frames left out; `how` says by what."""
PROVOKED = [json.loads(line) for line in DEATHS.read_text().splitlines()]

LOADING = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."
SPARKS_OWN = "spark-1591335c-e26c-431d-a68e-83c94f032c49"
STORES_OWN = "StateStoreId(opId=0,partId=1,name=default)-7196d2f8-4507-4d03-a21f-bb4f050b9f55"
"""Names of Spark's temporary directories."""

CAUSES = [
    (
        FailureCause.CHECKPOINT,
        "Failed to read log file file:/c/query/offsets/2. Incomplete log file",
    ),
    (
        FailureCause.CHECKPOINT,
        "Unexpected end-of-input in field name\n=== Streaming Query ===\nIdentifier: x",
    ),
    (FailureCause.MACHINE, "no executors for 300 s: the cluster's workers have too little memory"),
    (
        FailureCause.MACHINE,
        "Multiple streaming queries are concurrently using file:/c/query/commits.",
    ),
    (
        FailureCause.MACHINE,
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs",
    ),
    # The class without a cause: Spark gives it to an outage of the file system and to damage.
    (FailureCause.UNKNOWN, f"{LOADING}"),
    (FailureCause.UNKNOWN, f"{LOADING}\nCaused by: java.lang.IllegalStateException: closed"),
    *(
        (FailureCause.CHECKPOINT, f"{LOADING}\nCaused by: {damage}")
        for damage in (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/1.changelog at 0",
            "java.io.EOFException: Stream ended prematurely",
            "java.io.FileNotFoundException: No such file or directory: s3a://b/q/state/0/0/2.zip",
            (
                "org.apache.hadoop.ipc.RemoteException(java.io.FileNotFoundException): File does"
                " not exist: /q/state/0/0/2.zip\n\tat org.apache.hadoop.ipc.Client.call(Client:1)"
            ),
            "java.util.zip.ZipException: zip END header not found",
            "org.rocksdb.RocksDBException: Sst file size mismatch: /tmp/s/000009.sst",
        )
    ),
    (
        FailureCause.CHECKPOINT,
        "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error reading delta file",
    ),
    # As the sources of Hadoop and its clients have them, and the kernel's texts of NFS.
    *(
        (FailureCause.MACHINE, f"{opening}\nCaused by: {outage}")
        for opening in (LOADING, "java.lang.RuntimeException: x")
        for outage in (
            "java.io.IOException: Stale file handle",
            "java.io.IOException: Transport endpoint is not connected",
            (
                "java.net.ConnectException: Call From w1/10.0.0.7 to nn:8020 failed on connection"
                " exception: java.net.ConnectException: Connection refused"
            ),
            (
                "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.hdfs.server.namenode."
                "SafeModeException): Name node is in safe mode."
            ),
            (
                "java.io.EOFException: End of File Exception between local host is: w1;"
                " destination host is: nn:8020"
            ),
            (
                "org.apache.hadoop.fs.s3a.AWSServiceIOException: open s3a://b/q/state/0/0/3:"
                " S3Exception: Please reduce your request rate. (Service: S3, Status Code: 503)"
            ),
            (
                "java.nio.file.AccessDeniedException: s3a://b/q: The provided token has expired"
                " (Service: S3, Status Code: 400)"
            ),
            "java.net.SocketTimeoutException: Read timed out",
            (
                "java.lang.IllegalArgumentException: java.net.UnknownHostException: nn"
                "\n\tat org.apache.hadoop.security.SecurityUtil.buildTokenService(S.java:465)"
            ),
            (
                "software.amazon.awssdk.core.exception.SdkClientException: Received an"
                " UnknownHostException when attempting to interact with a service."
            ),
            "javax.net.ssl.SSLException: Connection reset",
        )
    ),
    (
        FailureCause.MACHINE,
        "[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] RocksDB instance could not be acquired",
    ),
    # No replica answers: the machines that have one may be away, or the block gone for good.
    *(
        (
            FailureCause.UNKNOWN,
            f"{opening}\nCaused by: org.apache.hadoop.hdfs.BlockMissingException: BP-1 file=/q/1",
        )
        for opening in (LOADING, "java.lang.RuntimeException: x")
    ),
    *(
        (
            FailureCause.MACHINE,
            f"{LOADING}\nCaused by: java.nio.file.NoSuchFileException: {directory}/000123.sst",
        )
        for directory in (
            f"/t/{TEMPORARY_PREFIX}8gov2v_i/{SPARKS_OWN}/{STORES_OWN}",
            f"/t/{SPARKS_OWN}/executor-60aa3b60-b55b-403b-be93-cd802fb6d37d",
            f"/yarn/appcache/application_1_0001/{STORES_OWN}",
        )
    ),
    # Directories of the checkpoint may have any name.
    *(
        (FailureCause.CHECKPOINT, f"{opening}Exception: {directory}/query/state/0/0/1.changelog")
        for opening in (
            f"{LOADING}\nCaused by: java.io.FileNotFound",
            (
                "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error\n"
                "Caused by: java.io.FileNotFound"
            ),
        )
        for directory in (
            f"File does not exist: hdfs://nn/{TEMPORARY_PREFIX}prod",
            f"/var/lib/{TEMPORARY_PREFIX}8gov2v_i",
            "/data/spark-checkpoints",
        )
    ),
    # The brokers' trouble is theirs, whatever the connections below them say.
    (
        FailureCause.CLUSTER,
        (
            "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n"
            "Caused by: org.apache.kafka.common.config.ConfigException: No resolvable bootstrap"
            " urls given in bootstrap.servers"
        ),
    ),
    (
        FailureCause.CLUSTER,
        (
            "org.apache.kafka.common.errors.DisconnectException\n"
            "Caused by: java.io.IOException: Connection reset by peer"
        ),
    ),
    # Faults of Spark's own order of calls, which another start does not repeat.
    (FailureCause.UNKNOWN, "[STATE_STORE_OPERATION_OUT_OF_ORDER] State store operation=abort"),
    (FailureCause.UNKNOWN, "[STATE_STORE_COMMIT_VALIDATION_FAILED] Expected 2 commits but got 1"),
    (
        FailureCause.CHECKPOINT,
        "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator",
    ),
    (FailureCause.CHECKPOINT, "streaming.packing.PackingError: topic state of version 1, not 2"),
    (
        FailureCause.CHECKPOINT,
        (
            "java.lang.IllegalStateException: Partition t-0's offset was changed from 9 to 0, "
            "some data may have been missed"
        ),
    ),
    (
        FailureCause.MACHINE,
        (
            "[CANNOT_WRITE_STATE_STORE] An error\n"
            "Caused by: java.io.IOException: No space left on device"
        ),
    ),
    (
        FailureCause.MACHINE,
        "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device",
    ),
    (
        FailureCause.CLUSTER,
        "Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
    ),
    (
        FailureCause.CLUSTER,
        (
            "Caused by: org.apache.kafka.common.config.ConfigException: "
            "No resolvable bootstrap urls given in bootstrap.servers"
        ),
    ),
    (
        FailureCause.CLUSTER,
        (
            "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is"
            " 8400000 bytes when serialized which is larger than 8388608, which is the value of the"
            " max.request.size configuration."
        ),
    ),
    # As Spark's sources have them.
    (
        FailureCause.MACHINE,
        (
            "Lost task 1.0 in stage 3.0 (TID 5) (10.0.0.7 executor 2): ExecutorLostFailure "
            "(executor 2 exited caused by one of the running tasks) Reason: Container killed"
        ),
    ),
    (
        FailureCause.MACHINE,
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\n"
            "Caused by: java.lang.UnsatisfiedLinkError: librocksdbjni.so: cannot open shared object"
        ),
    ),
    (
        FailureCause.MACHINE,
        "Job 7 cancelled because SparkContext was shut down",
    ),
    (
        FailureCause.MACHINE,
        "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
    ),
    (
        FailureCause.MACHINE,
        "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
    ),
    (
        FailureCause.MACHINE,
        "An error occurred while calling o76.start: Answer from Java side is empty",
    ),
    # What RocksDB 9.8 says of a damaged table, in its class and through Spark's server of states.
    *(
        (FailureCause.CHECKPOINT, f"{raised}: {message}")
        for raised in ("PySparkRuntimeError: a topic's state", "org.rocksdb.RocksDBException")
        for message in (
            "block checksum mismatch: stored(context removed) = 396, computed = 417, type = 4",
            "Bad table magic number: expected 9863518390377041911, found 0 in /tmp/s/000009.sst",
            "Sst file size mismatch: /tmp/s/000009.sst. Expected 6054864, actual size 3027432",
            "[STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED] Row checksum verification failed",
        )
    ),
    # Any other refusal may come from damage, too: it must not be tried again for ever.
    (
        FailureCause.UNKNOWN,
        (
            "PySparkRuntimeError: a topic's state: Protocol message contained an invalid tag"
            " (zero).\n\tat org.apache.spark.api.python.BasePythonRunner.checksum(Runner.scala:1)"
        ),
    ),
    (FailureCause.MACHINE, "PySparkRuntimeError: a topic's state: No space left on device"),
    # py4j has no more to say of a JVM that ends during a call.
    (FailureCause.MACHINE, "An error occurred while calling o321.start"),
    (
        FailureCause.UNKNOWN,
        "An error occurred while calling o321.start.\n: java.lang.NullPointerException",
    ),
    (FailureCause.UNKNOWN, "java.lang.NullPointerException"),
]


@pytest.mark.parametrize(("cause", "text"), CAUSES)
def test_a_death_has_its_cause(cause: FailureCause, text: str) -> None:
    assert diagnose(text).cause is cause


@pytest.mark.parametrize("death", PROVOKED, ids=lambda death: death["how"])
def test_a_death_that_was_provoked_has_its_cause(death: dict[str, str]) -> None:
    failure = diagnose(death["text"])
    assert failure.cause.value == death["cause"]
    assert "\n" not in failure.summary


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("errors.RecordTooLargeException: The request included a message", "max.message.bytes"),
        ("errors.TimeoutException: Expiring 2 record(s) for l-0:120000 ms", "max.message.bytes"),
        ("java.io.IOException: Too many open files", "LimitNOFILE"),
    ],
)
def test_a_limit_that_was_reached_is_named(text: str, named: str) -> None:
    assert named in diagnose(text).summary


def test_a_record_whose_time_spark_cannot_read_is_named() -> None:
    (death,) = [death for death in PROVOKED if "nanoseconds" in death["how"]]
    failure = diagnose(death["text"])
    assert failure.cause is FailureCause.CLUSTER
    assert (
        "topic levelwind.metadata partition 0 offset 2 has timestamp value 17960" in failure.summary
    )
    replays = Topics(prefix="levelwind.").replays
    replayed = diagnose(death["text"].replace("levelwind.metadata", replays))
    assert replayed.cause is FailureCause.CHECKPOINT, "a new one begins behind the record"
    assert f"topic {replays} partition 0 offset 2 has" in replayed.summary
    bare = diagnose("Job aborted\nCaused by: java.lang.ArithmeticException: long overflow")
    assert bare.cause is FailureCause.CLUSTER


def test_a_missing_module_is_named() -> None:
    (death,) = [death for death in PROVOKED if "not installed" in death["how"]]
    assert (
        "ModuleNotFoundError: No module named 'no_such_module'" in diagnose(death["text"]).summary
    )


def test_what_the_store_said_is_named() -> None:
    text = """Job aborted due to stage failure
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/e/levelwind/streaming/spark/stored_topics.py", line 97, in _answers
    raise PySparkRuntimeError(f"a topic's state: {error}")
pyspark.errors.exceptions.base.PySparkRuntimeError: a topic's state: assertion failed

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""
    failure = diagnose(text)
    assert failure.cause is FailureCause.UNKNOWN
    assert "PySparkRuntimeError: a topic's state: assertion failed" in failure.summary


def test_the_summary_is_one_line_with_the_innermost_cause() -> None:
    text = """Job aborted due to stage failure
\tat org.apache.spark.Scheduler.run(Scheduler.scala:1)
Caused by: org.apache.spark.SparkException: Task failed
\tat org.apache.spark.Task.run(Task.scala:1)
\t... 3 more
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
    summary = diagnose(text).summary
    assert "\n" not in summary
    assert summary.endswith("(java.io.IOException: No space left on device)")
    assert "make room" in summary


def test_the_exception_of_a_call_is_named_and_not_the_call() -> None:
    text = """An error occurred while calling o321.start.
: java.lang.IllegalStateException: cannot do it
\tat org.apache.spark.sql.classic.StreamingQueryManager.startQuery(StreamingQueryManager.scala:1)
\tat java.base/java.lang.Thread.run(Unknown Source)
"""
    assert diagnose(text).summary == "java.lang.IllegalStateException: cannot do it"


def test_even_an_empty_text_has_a_summary() -> None:
    assert diagnose("").summary == "no reason given"


def test_a_session_that_was_stopped_before_it_began_names_the_master() -> None:
    error = (
        "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
        ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n"
        "This stopped SparkContext was created at:"
    )
    failure = diagnose(error)
    assert failure.cause is FailureCause.MACHINE
    assert failure.summary.startswith("the master of the Spark cluster does not answer")

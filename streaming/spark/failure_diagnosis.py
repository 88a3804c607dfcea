"""Diagnosis of a query's death from Spark's error text: its cause, and a line for an operator.

Guarantees: a checkpoint is given up only for its own damage. Trouble of the machine or the cluster
(a full disk, a missing jar, module or interpreter, a killed process, a lost executor, an absent
broker, a missing right, a file system that does not answer) passes, and the checkpoint is continued
afterwards, however often it happens. So the rules of the machine come first: a query without its
classes or its workers fails to load its state as well. Spark gives whatever fails meanwhile the
class `CANNOT_LOAD_STATE_STORE.UNCATEGORIZED`, which therefore blames nothing: the causes below it
name the damage. The texts are those that Spark 4.2 was seen to die with. An unknown text does not
blame the checkpoint; the caller does, if queries die again and again before their first batch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile


class FailureCause(Enum):
    """The cause of a query's end."""

    MACHINE = "machine"
    """The disk, the memory, the installation or Spark's processes; the same checkpoint serves once
    they are in order again."""
    CLUSTER = "cluster"
    """Kafka does not answer, refuses a request, or holds a record that Spark cannot read."""
    CHECKPOINT = "checkpoint"
    """The checkpoint is damaged, or its offsets do not exist in the topics any more."""
    UNKNOWN = "unknown"
    """No rule matches the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The diagnosis of a query that ended."""

    cause: FailureCause
    summary: str
    """One line for the log: the meaning, what to do if that is known, Spark's innermost cause."""


_NO_ROOM = "there is no room left on the disk of the checkpoint or of Spark's own files"
_RULES: tuple[tuple[FailureCause, str, re.Pattern[str]], ...] = (
    # The machine's trouble first: a full disk also garbles what is written to it.
    (
        FailureCause.MACHINE,
        f"{_NO_ROOM}: make room; the query continues from its last batch",
        re.compile(r"No space left on device|Disk quota exceeded|File too large"),
    ),
    (
        FailureCause.MACHINE,
        "the Python interpreter of Spark's workers is missing or broken: install levelwind anew",
        re.compile(
            r"Cannot run program \"|PYTHON_VERSION_MISMATCH|Python in worker has different version"
            r"|(EOFException|Exception) occurred while reading the port number from"
        ),
    ),
    (
        FailureCause.MACHINE,
        "a Python module is missing: install levelwind anew, or send its archive to executors",
        re.compile(r"\b(ModuleNotFoundError|(PySpark)?ImportError): .*"),
    ),
    (
        FailureCause.MACHINE,
        "a class is missing, or of another version: install levelwind's jars anew",
        re.compile(
            r"ClassNotFoundException|NoClassDefFoundError|NoSuch(Method|Field)Error|LinkageError"
            r"|AbstractMethodError|IncompatibleClassChangeError|UnsatisfiedLinkError|VerifyError"
            r"|UnsupportedClassVersionError|ExceptionInInitializerError"
            r"|DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source"
        ),
    ),
    (
        FailureCause.MACHINE,
        (
            "as many files are open as the system allows the process: raise that limit"
            " (LimitNOFILE of a systemd unit, ulimit -n)"
        ),
        re.compile(r"Too many open files"),
    ),
    (
        FailureCause.MACHINE,
        "the files of the checkpoint cannot be written: check its file system and permissions",
        re.compile(r"Read-only file system|Permission denied|Input/output error"),
    ),
    (
        FailureCause.MACHINE,
        "there is not enough memory",
        re.compile(
            r"OutOfMemoryError|\bMemoryError\b|Cannot allocate memory|UNABLE_TO_ACQUIRE_MEMORY"
            r"|unable to create (new )?native thread|Resource temporarily unavailable"
        ),
    ),
    (
        FailureCause.MACHINE,
        "a Python worker was killed, as the kernel does when memory runs out",
        re.compile(
            r"Python worker (exited unexpectedly|failed to connect back)|PYTHON_WORKER_\w*EXITED"
            # Input or output that failed between the JVM and a worker, not below an operator.
            r"|(IO|EOF|Socket)Exception[^\n]*\n(\s*at java\.[^\n]*\n)+"
            r"\s*at org\.apache\.spark\.api\.python\.(PythonWorkerFactory|BasePythonRunner)"
        ),
    ),
    (
        FailureCause.MACHINE,
        "Spark's JVM ended, or did not start: see the lines before",
        re.compile(
            r"JAVA_GATEWAY_EXITED|Answer from Java side is empty|Py4JNetworkError"
            r"|Error while (sending|receiving|sending or receiving)\b"
            r"|An error occurred while trying to connect to the Java server"
            # py4j's text where no answer came, not even an error with its trace.
            r"|\AAn error occurred while calling [\w.$]+\s*\Z"
        ),
    ),
    (
        FailureCause.MACHINE,
        "the master of the Spark cluster does not answer: check spark.master of pipeline.spark",
        # A session whose master never answered is stopped while it starts its scheduler, or before
        # it is handed over.
        re.compile(
            r"NullPointerException: [^\n]*TaskScheduler\.postStartHook"
            r"|All masters are unresponsive"
            r"|calling None\.org\.apache\.spark\.sql\.classic\.SparkSession\b"
            r"[\s\S]*stopped SparkContext"
        ),
    ),
    (
        FailureCause.MACHINE,
        "Spark lost its executors, or was refused resources",
        re.compile(
            r"ExecutorLostFailure|Lost executor|Remote RPC client disassociated"
            r"|SparkContext (was|has been) shut down|stopped SparkContext"
            r"|Master removed our application"
            r"|Initial job has not accepted any resources|no executors for \d+ s"
            r"|Container killed|OOMKilled"
            r"|FetchFailed(Exception)?\b|MetadataFetchFailedException|RpcTimeoutException"
            r"|java\.net\.BindException|Address already in use"
        ),
    ),
    (
        FailureCause.MACHINE,
        "another pipeline works on the same checkpoint: end it, or give each its own",
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently"),
    ),
    (
        FailureCause.MACHINE,
        (
            "tasks did not learn the end offsets of their batch: the checkpoint was deleted, or"
            " executors do not reach the driver (pipeline.driver_port, spark.driver.host)"
        ),
        re.compile(r"the end offsets of batch \d+ (are not known|cannot be read)"),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint has offsets that the topics do not: a topic was deleted or truncated",
        re.compile(r"some data may have been missed|KAFKA_DATA_LOSS|OffsetOutOfRange"),
    ),
    (
        FailureCause.CHECKPOINT,  # a new one does not read the replays that were there before
        (
            "a replay has a time so far ahead that Spark cannot read it, as one in nanoseconds: the"
            " rebuilt state passes it"
        ),
        re.compile(
            r"(?P<named>Record at topic \S*replays partition \d+ offset \d+"
            r" has timestamp value -?\d+)"
        ),
    ),
    (
        FailureCause.CLUSTER,
        (
            "a record has a time so far ahead that Spark cannot read it, as one in nanoseconds:"
            " take it away as docs/operations.md says; the state is rebuilt then"
        ),
        re.compile(
            r"(?P<named>Record at topic \S+ partition \d+ offset \d+ has timestamp value -?\d+)"
            r"|ArithmeticException: long overflow"
        ),
    ),
    (
        FailureCause.CLUSTER,
        "the pipeline's user lacks a right: `levelwind acls --role pipeline` prints what grants it",
        re.compile(r"\w+AuthorizationException: .*"),
    ),
    (
        FailureCause.CLUSTER,
        (
            "max.message.bytes of a topic is smaller than when the pipeline started, and the next"
            " start cuts records to it; or it is unknown for want of the right DescribeConfigs"
            " (`levelwind acls --role pipeline`)"
        ),
        re.compile(r"RecordTooLargeException: .*"),
    ),
    (
        FailureCause.CLUSTER,
        (
            "brokers did not take records within delivery.timeout.ms: they do not answer, or"
            " max.message.bytes of a topic is smaller than when the pipeline started, and the next"
            " start cuts records to it"
        ),
        # The client splits a refused batch of several records into ones of its own limit for ever.
        re.compile(r"TimeoutException: Expiring \d+ record.*"),
    ),
    (
        FailureCause.CLUSTER,
        "the Kafka cluster does not answer, or refuses a request",
        re.compile(
            r"org\.apache\.kafka\.common\.(errors\.|KafkaException|config\.ConfigException)"
        ),
    ),
    # Below the brokers' rules, whose clients speak of connections, too; above those of damage: a
    # file that was read in part looks cut.
    (
        FailureCause.MACHINE,
        (
            "the checkpoint's file system, or another of Spark's processes, does not answer or"
            " refuses a request: the query goes on from its last batch once that is mended"
        ),
        re.compile(
            r"\b(UnknownHost|Connect|NoRouteToHost|PortUnreachable|Socket|SocketTimeout"
            r"|ConnectTimeout|SSL\w*|NoHttpResponse|HttpChannelEOF|SdkClient|AWS\w+|AccessDenied"
            r"|SafeMode|Standby|Retriable|AbfsRestOperation)Exception\b"
            r"|[Ss]tatus [Cc]ode: (401|403|408|429|5\d\d)\b|End of File Exception between local"
            r"|Stale file handle|Transport endpoint|Connection (timed out|reset|refused)"
            r"|Host is down|No route to host|Remote I/O error|\bETIMEDOUT\b"
        ),
    ),
    (
        FailureCause.MACHINE,
        "the JVM's own files are gone or locked; another start has new ones",
        re.compile(
            r"UNRELEASED_THREAD_ERROR"
            # Spark's names in its temporary directories, on any machine: a checkpoint's own may be
            # any other.
            r"|(NoSuchFile|FileNotFound)Exception: [^\n]*"
            r"/((spark|blockmgr)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/|StateStoreId\(opId=)"
        ),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint's log of offsets or of commits is damaged",
        re.compile(
            r"Incomplete log file"
            r"|batch \d+ doesn't exist|Malformed log|UnsupportedLogVersion"
            r"|JsonEOFException|JsonParseException"
            r"|Unexpected (end-of-input|character)|com\.fasterxml\.jackson"
        ),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint's state is damaged, or of another version",
        re.compile(
            r"CANNOT_LOAD_STATE_STORE\.(?!UNCATEGORIZED|FAILED_TO_GET_CHANGELOG_WRITER)\w+"
            r"|CANNOT_LOAD_STATE_STORE\.UNCATEGORIZED[\s\S]*"
            r"((EOF|FileNotFound|NoSuchFile|Zip)Exception|Stream (is corrupted|ended prematurely))"
            # Not Spark's order of its own calls, which another start does not repeat.
            r"|\bSTATE_STORE_(?!OPERATION_OUT_OF_ORDER|HANDLE_NOT_INITIALIZED|INVALID_STA\w+"
            r"|COMMIT_VALIDATION_FAILED|UNEXPECTED_EMPTY_FILE_IN_ROCKSDB_ZIP)\w+"
            r"|STATEFUL_PROCESSOR_\w+|STREAMING_STATEFUL_OPERATOR_\w+"
            r"|Stateful operators in the metadata|ChecksumException|CHECKSUM_VERIFICATION"
            r"|\bPackingError\b"
            # Spark's server of states hands on RocksDB's message alone, without the class; and
            # RocksDB's own class leaves out the word "Corruption" that its code is.
            r"|(RocksDBException|Error: a topic's state): .*([Cc]orrupt|[Cc]hecksum|magic number"
            r"|mismatch|truncated|[Bb]ad (block|entry)|too short)"
        ),
    ),
)


def diagnose(error: str) -> Failure:
    """Diagnose why a query ended; `error` is the text that Spark gives."""
    line = innermost_cause(error)
    for cause, meaning, pattern in _RULES:
        if (found := pattern.search(error)) is not None:
            return Failure(
                cause=cause, summary=f"{meaning} ({found.groupdict().get('named') or line})"
            )
    return Failure(cause=FailureCause.UNKNOWN, summary=line)


def innermost_cause(error: str) -> str:
    """The most telling line of a stack trace: the innermost cause, or a Python worker's error.

    Below py4j's own first line, which names a call, the exception follows after a colon.
    """
    lines = [line.strip() for line in error.splitlines()]
    for prefix in ("Caused by: ", ": ", ""):
        found = [
            line
            for line in lines
            if line.startswith(prefix) and line and not _STACK_FRAME.match(line)
        ]
        if found:
            line = found[-1] if prefix == "Caused by: " else found[0]
            raised = _python_error(error) if line.endswith(_TRACEBACK) else ""
            return (raised or line.removeprefix(prefix))[:_MAX_LENGTH]
    return "no reason given"


def _python_error(error: str) -> str:
    """The last line of the last traceback of Python in a stack trace; empty without one."""
    _, _, below = error.rpartition(_TRACEBACK)
    lines = list(takewhile(lambda line: not _STACK_FRAME.match(line.strip()), below.splitlines()))
    return next((line for line in reversed(lines) if line and not line[0].isspace()), "")


_TRACEBACK = "Traceback (most recent call last):"
_STACK_FRAME = re.compile(r"at \S+\(|\.\.\. \d+ more|===")
_MAX_LENGTH = 400

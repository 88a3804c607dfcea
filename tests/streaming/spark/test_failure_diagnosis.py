"""Diagnosis of the texts with which Spark 4.2 died, as of damaged files or a full disk."""

import pytest

from streaming.spark.failure_diagnosis import FailureCause, diagnose

CAUSES = [
    (
        FailureCause.CHECKPOINT,
        "Failed to read log file file:/c/query/offsets/2. Incomplete log file",
    ),
    (
        FailureCause.CHECKPOINT,
        "Unexpected end-of-input in field name\n=== Streaming Query ===\nIdentifier: x",
    ),
    (
        FailureCause.CHECKPOINT,
        "Multiple streaming queries are concurrently using file:/c/query/commits.",
    ),
    (
        FailureCause.CHECKPOINT,
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs",
    ),
    (
        FailureCause.CHECKPOINT,
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.",
    ),
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
    (FailureCause.UNKNOWN, "java.lang.NullPointerException"),
]


@pytest.mark.parametrize(("cause", "text"), CAUSES)
def test_a_death_has_its_cause(cause: FailureCause, text: str) -> None:
    assert diagnose(text).cause is cause


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


def test_even_an_empty_text_has_a_summary() -> None:
    assert diagnose("").summary == "no reason given"

"""What keeps the pipeline's process from its query, in one event with its cause."""

import pytest

from levelwind.daemon.config.settings import Settings
from levelwind.daemon.errors import ClusterUnavailableError, ConfigurationError
from levelwind.daemon.pipeline import process as pipeline_process
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.deploy.errors import SetupError
from levelwind.streaming.errors import (
    AccessDenied,
    ClusterUnreachable,
    PipelineError,
    TopicMissing,
)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ModuleNotFoundError("No module named 'pyspark'"), "machine"),
        (BlockingIOError(11, "Resource temporarily unavailable"), "machine"),
        (SetupError("there is no Java"), "machine"),
        (
            # As `HadoopFiles` has it, of an outage that ends a query for the same cause later.
            PipelineError(
                "the checkpoint in s3a://b/c cannot be read: java.net.SocketTimeoutException: Read"
            ),
            "machine",
        ),
        (PipelineError("the checkpoint in /c cannot be written: Permission denied"), "machine"),
        (PipelineError("org.apache.kafka.common.errors.DisconnectException: x"), "cluster"),
        (ClusterUnreachable("TimeoutException"), "cluster"),
        (AccessDenied("the pipeline's user lacks READ on topic t"), "cluster"),
        (TopicMissing("topic t does not exist"), "cluster"),
        (ClusterUnavailableError("the cluster does not answer"), "cluster"),
        (PipelineError("on a Spark cluster pipeline.checkpoint must be a URI"), "unknown"),
        (ConfigurationError("kafka: no such setting"), "unknown"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_what_keeps_the_process_from_its_query_is_logged_with_its_cause(
    monkeypatch, log, error, cause
):
    monkeypatch.setattr(pipeline_process, "log", log)

    def refused(*_):
        raise error

    monkeypatch.setattr(pipeline_process, "_run", refused)
    assert pipeline_process.run(PipelineOrder(settings=Settings(), jars=())) == 1
    (event,) = log.events
    assert (event["event"], event["level"]) == ("pipeline.failed", "error")
    assert (event["cause"], event["rebuild"]) == (cause, False)
    assert str(error.args[-1]) in event["error"]

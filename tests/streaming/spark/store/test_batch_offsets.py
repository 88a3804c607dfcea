"""End offsets of a batch, from Spark's log of offsets."""

from pathlib import Path

import pytest

from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark.store.batch_offsets import OffsetsFiles, current_batch, end_offsets

LOG = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n'
    '{"__consumer_offsets":{"1":12,"0":7},"lw.metadata":{"0":3}}'
)


def logged(query: Path, content: str) -> OffsetsFiles:
    (query / "offsets").mkdir(parents=True)
    (query / "offsets" / "4").write_text(content)
    return OffsetsFiles(query)


def test_the_end_offsets_of_a_batch_are_those_that_spark_planned(tmp_path: Path) -> None:
    log = logged(tmp_path, LOG)
    assert end_offsets(log, 4, "__consumer_offsets") == {0: 7, 1: 12}
    assert end_offsets(log, 4, "lw.metadata") == {0: 3}


@pytest.mark.parametrize(
    "content",
    ["v1\n{}\n-", "v1\n{}\n{cut", "", 'v1\n{}\n{"t":[]}', LOG.replace("__consumer", "no")],
)
def test_a_task_fails_rather_than_go_on_without_the_end_offsets(
    tmp_path: Path, content: str
) -> None:
    with pytest.raises(PipelineError, match="the end offsets of batch 4"):
        end_offsets(logged(tmp_path, content), 4, "__consumer_offsets")
    with pytest.raises(PipelineError, match="the end offsets of batch 5 are not known"):
        end_offsets(OffsetsFiles(tmp_path), 5, "__consumer_offsets")


def test_there_is_no_batch_outside_of_a_task() -> None:
    assert current_batch() is None

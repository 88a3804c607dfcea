"""End offsets of a batch, from Spark's log of offsets."""

from pathlib import Path

import pytest

from streaming.spark.batch_offsets import current_batch, end_offsets

LOG = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n'
    '{"__consumer_offsets":{"1":12,"0":7},"lw.metadata":{"0":3}}'
)


def logged(query: Path, content: str) -> Path:
    (query / "offsets").mkdir(parents=True)
    (query / "offsets" / "4").write_text(content)
    return query


def test_the_end_offsets_of_a_batch_are_those_that_spark_planned(tmp_path: Path) -> None:
    query = logged(tmp_path, LOG)
    assert end_offsets(query, 4, "__consumer_offsets") == {0: 7, 1: 12}
    assert end_offsets(query, 4, "lw.metadata") == {0: 3}


@pytest.mark.parametrize(
    "content", ["v1\n{}\n-", "v1\n{}\n{cut", "", LOG.replace("__consumer", "no")]
)
def test_end_offsets_that_cannot_be_read_are_unknown(tmp_path: Path, content: str) -> None:
    assert end_offsets(logged(tmp_path, content), 4, "__consumer_offsets") is None
    assert end_offsets(tmp_path, 5, "__consumer_offsets") is None


def test_there_is_no_batch_outside_of_a_task() -> None:
    assert current_batch() is None

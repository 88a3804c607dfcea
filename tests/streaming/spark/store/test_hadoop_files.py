"""Files of a checkpoint through Hadoop's FileSystem, on one whose paths are no paths here."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark.checkpoint import CheckpointShape, prepare
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles
from levelwind.streaming.spark.store.hadoop_files import HadoopFiles, open_files
from levelwind_testing.pipeline.mounted_files import mount

pytestmark = pytest.mark.integration

SHAPE = CheckpointShape(cluster_id="C", prefix="levelwind.")


def test_both_forms_of_files_do_the_same(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    hadoop = open_files(spark, mount(spark, tmp_path / "remote"))
    assert isinstance(hadoop, HadoopFiles)
    for files in (hadoop, LocalFiles(tmp_path / "local")):
        assert files.read("a") is None
        assert files.names("") == []
        assert files.names("none") == []
        files.delete("a")
        for content in (b"one", b"", bytes(range(256)) * 100):
            files.write("a", content)
            assert files.read("a") == content
        files.write("b", b"x")
        files.delete("a")
        assert (files.read("a"), files.names("")) == (None, ["b"])
    assert hadoop.requests == 14


def test_a_start_is_counted_in_requests(spark: SparkSession, tmp_path: Path) -> None:
    uri = mount(spark, tmp_path)
    first = prepare(open_files(spark, uri), SHAPE, now="t0")
    assert first.location == f"{uri}/query-t0"
    for log, lines in (("offsets", b'v1\n{}\n{"t":{"0":1}}'), ("commits", b"v1\n{}")):
        (tmp_path / "query-t0" / log).mkdir(parents=True)
        for number in range(100):
            (tmp_path / "query-t0" / log / str(number)).write_bytes(lines)
    files = open_files(spark, uri)
    again = prepare(files, SHAPE, now="t1")
    assert (again.name, again.set_aside) == ("query-t0", None)
    assert isinstance(files, HadoopFiles)
    assert files.requests <= 40


@pytest.mark.parametrize("uri", ["nosuch://host/a", "viewfs://nowhere/a"])
def test_a_file_system_that_cannot_be_opened_is_named(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PipelineError, match=uri):
        open_files(spark, uri)

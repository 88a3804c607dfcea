"""Fixtures of the pipeline's tests: a Spark session and the golden records."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from levelwind.daemon.pipeline.process import class_data_options
from levelwind.deploy.jars import classpath
from levelwind.streaming.spark import session
from levelwind_testing.pipeline.offsets_reference_codec import Golden

GOLDEN = Path(__file__).parents[1] / "data" / "consumer_offsets.jsonl"


@pytest.fixture(scope="session")
def golden() -> Mapping[str, Golden]:
    """Records of `__consumer_offsets` by name, as Kafka 4.3.1 wrote them.

    The file says beside each how it was produced.
    """
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    return {line["name"]: Golden.of(line) for line in lines}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests, since the first streaming query is slow.

    Its JVM compiles fast rather than well.
    """
    options = {
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        # Tests wait for the news that there is nothing to read, which comes every 10 s by default.
        "spark.sql.streaming.noDataProgressEventInterval": "200",
    }
    jars = classpath("spark")
    spark = session.create(
        jars, spark=options, log_level="OFF", jvm_options=class_data_options(jars)
    )
    yield spark
    spark.stop()

"""What Spark's driver needs of the operators when it asks each for its states."""

import subprocess
import sys

import pytest
from pyspark.serializers import CloudPickleSerializer

from levelwind.assignors.protocol.topics import Topics
from levelwind.streaming.bucket.state import VALUES
from levelwind.streaming.output import OutputTopics
from levelwind.streaming.rules.skew import SkewRule
from levelwind.streaming.spark.processors import GroupProcessor, TopicProcessor
from levelwind.streaming.topic.state import LagRule

PROGRAM = """
import sys
import pyspark.sql.streaming.transform_with_state_driver_worker
from pyspark.serializers import CloudPickleSerializer
before = set(sys.modules)
processor = CloudPickleSerializer().loads(sys.stdin.buffer.read())

class Handle:
    def getMapState(self, name, *_): print(name)
    def getValueState(self, name, *_): print(name)

processor.init(Handle())
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - {"levelwind"}))
"""
TOPICS = Topics()
PROCESSORS = {
    "topics": (TopicProcessor(LagRule(end_kind="stable"), 2), ["topics"]),
    "groups": (
        GroupProcessor(
            VALUES,
            SkewRule(),
            TOPICS,
            OutputTopics(topics=TOPICS, lag=1, triggers=1, dead_letters=1, most_bytes={}),
        ),
        list(VALUES),
    ),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_an_operator_declares_its_states_without_the_libraries_of_its_work(name):
    """The driver asks one operator after the other, and each import delays the first lag twice."""
    processor, states = PROCESSORS[name]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=CloudPickleSerializer().dumps(processor),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().split() == states

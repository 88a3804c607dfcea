"""The writer of the metadata topic when its producer fails."""

import pytest

from assignors.protocol.topics import Topics
from daemon.observer.cluster_probe import UnansweredError
from daemon.observer.metadata_topic import MetadataTopic
from levelwind_testing.kafka.failed_producer import FailedProducer


def test_a_producer_that_failed_for_good_is_replaced_before_the_next_samples(log):
    topic = MetadataTopic({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, Topics("lw."), log)
    topic._producer = failed = FailedProducer()
    with pytest.raises(UnansweredError, match="sequence desynchronization"):
        topic.offer([])
    assert topic._producer is not failed
    assert log.names == ["observer.producer_renewed"]
    topic.offer([])

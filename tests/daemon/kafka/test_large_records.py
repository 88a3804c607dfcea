"""Plans and assignments larger than a message, on real brokers with their default limits."""

import pytest

from levelwind.assignors.protocol.records import GroupRecord, MemberAssignment
from levelwind.assignors.protocol.records.cutting import cut
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind.daemon.kafka.publisher import Publisher
from levelwind.daemon.kafka.record_writer import outgoing
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind_testing.large_records import LARGE

pytestmark = pytest.mark.integration

PARTITIONS = 4


@pytest.mark.parametrize("record", LARGE.values(), ids=LARGE)
def test_a_large_record_is_published_with_the_default_limits_and_read_back_whole(
    client_config, topics, log, eventually, record
):
    publisher = Publisher(client_config, topics, timeout=30, log=log)
    publisher.init()
    messages = [
        message
        for part in cut(record)
        for message in outgoing(topics, "assignments", part, PARTITIONS)
    ]
    assert len(messages) > 1
    publisher.publish(messages)

    def found():
        reassembly = Reassembly()
        read = [
            reassembly.take(item.record)
            for item in read_to_end(client_config, topics, ("assignments",))
        ]
        return [whole for whole in read if isinstance(whole, GroupRecord | MemberAssignment)]

    eventually(found)  # a commit returns before its markers are in the log
    assert found() == [record]
    publisher.close()

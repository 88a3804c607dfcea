"""Members of a group, from the records of its coordinator."""

import struct

from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.streaming.group.ownership import owners_of, with_coordinator_record
from levelwind.streaming.group.state import GroupState
from levelwind.streaming.messages.rows import Raw
from levelwind_testing.pipeline.offsets_reference_codec import group_key, string


def sized(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def member(name: str, subscription: bytes, assignment: bytes) -> bytes:
    head = string(name) + struct.pack(">h", -1) + string("client") + string("/host")
    return head + struct.pack(">ii", 300, 45) + sized(subscription) + sized(assignment)


def group_of(*members: bytes) -> GroupState:
    value = struct.pack(">h", 3) + string("consumer") + struct.pack(">i", 8) + string("range")
    value += struct.pack(">hqi", -1, 99, len(members)) + b"".join(members)
    raw = Raw(
        topic="__consumer_offsets",
        partition=0,
        offset=0,
        timestamp=1000,
        key=group_key("g"),
        value=value,
    )
    return with_coordinator_record(GroupState(), raw)


OWNS = ConsumerAssignment(partitions={"t": (0, 1)}).encode()
NOTHING = ConsumerAssignment(partitions={}).encode()
READS = ConsumerSubscription(topics=("t",)).encode()
READS_NOTHING = ConsumerSubscription(topics=()).encode(0)


def test_a_member_that_reads_no_topic_as_the_leader_proxy_is_no_capacity() -> None:
    state = group_of(
        member("busy", READS, OWNS),
        member("spare", READS, NOTHING),
        member("proxy", READS_NOTHING, NOTHING),
        member("proxied by librdkafka", READS_NOTHING, b""),
    )
    assert [owner.name for owner in owners_of(state)] == ["busy", "spare"]


def test_a_member_counts_that_owns_something_or_cannot_be_read() -> None:
    state = group_of(member("odd", READS_NOTHING, OWNS), member("foreign", b"\0\1", NOTHING))
    assert {owner.name for owner in owners_of(state)} == {"odd", "foreign"}

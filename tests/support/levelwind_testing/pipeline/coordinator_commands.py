"""A log with records of a group coordinator and of a planner; owners in a lag record."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.records import PlannedRacks, PlannedTopic
from levelwind_testing.pipeline.local_pipeline import OFFSETS
from levelwind_testing.pipeline.offsets_reference_codec import (
    compact,
    group_key,
    string,
    uvarint,
)
from levelwind_testing.pipeline.scripted_log import ID, SECOND, Story, name_of


def consumer_key(version: int, group: str, member: str | None = None) -> bytes:
    return struct.pack(">h", version) + string(group) + (b"" if member is None else string(member))


def metadata_value(
    rack: str | None,
    instance: str | None = None,
    topics: Sequence[str] = ("t",),
    regex: str | None = None,
) -> bytes:
    null = uvarint(0)
    instance_text, rack_text, regex_text = (
        null if text is None else compact(text.encode()) for text in (instance, rack, regex)
    )
    return (
        b"\x00\x00"
        + instance_text
        + rack_text
        + compact(b"client")
        + compact(b"/host")
        + uvarint(len(topics) + 1)
        + b"".join(compact(topic.encode()) for topic in topics)
        + regex_text
        + struct.pack(">i", 300_000)
        + null
        + b"\x00"
    )


def current_value(
    assigned: Mapping[bytes, Sequence[int]], revoking: Mapping[bytes, Sequence[int]]
) -> bytes:
    def topics(partitions_by_id: Mapping[bytes, Sequence[int]]) -> bytes:
        each = [
            topic_id
            + uvarint(len(partitions) + 1)
            + b"".join(struct.pack(">i", partition) for partition in partitions)
            + b"\x00"
            for topic_id, partitions in partitions_by_id.items()
        ]
        return uvarint(len(each) + 1) + b"".join(each)

    return struct.pack(">hiib", 0, 2, 1, 0) + topics(assigned) + topics(revoking) + b"\x00"


def classic_member(name: str, subscription: bytes, assignment: bytes) -> bytes:
    """A member in the metadata of a classic group."""

    def sized(content: bytes) -> bytes:
        return struct.pack(">i", len(content)) + content

    head = string(name) + struct.pack(">h", -1) + string("client") + string("/host")
    return head + struct.pack(">ii", 300, 45) + sized(subscription) + sized(assignment)


def classic_value(members: Sequence[bytes]) -> bytes:
    """The metadata of a classic group, of version 3."""
    value = struct.pack(">h", 3) + string("consumer") + struct.pack(">i", 8) + string("range")
    return value + struct.pack(">hqi", -1, 99, len(members)) + b"".join(members)


class Groups(Story):
    """With the words of a coordinator of groups."""

    def rebalance(
        self,
        at: float,
        group: str,
        members: Mapping[str, tuple[Sequence[str] | None, Mapping[str, tuple[int, ...]]]],
        rack: str | None = None,
    ) -> None:
        """A generation of a classic group: by member, what it subscribes to and what it owns.

        None: its subscription cannot be read.
        """
        written = [
            classic_member(
                name,
                b"\x00\x01"
                if topics is None
                else ConsumerSubscription(topics=tuple(topics), rack=rack).encode(),
                ConsumerAssignment(partitions=owned).encode(),
            )
            for name, (topics, owned) in members.items()
        ]
        self.add(OFFSETS, int(at * SECOND), group_key(group), classic_value(written))

    def introduce(
        self,
        at: float,
        group: str,
        member: str,
        rack: str | None,
        instance: str | None = None,
        topics: Sequence[str] = ("t",),
        regex: str | None = None,
    ) -> None:
        self.add(
            OFFSETS,
            int(at * SECOND),
            consumer_key(5, group, member),
            metadata_value(rack, instance, topics, regex),
        )

    def resolve(self, at: float, group: str, regex: str, topics: Sequence[str]) -> None:
        """What an expression matches; none: nobody subscribes to it any more."""
        names = b"".join(compact(topic.encode()) for topic in topics)
        value = b"\x00\x00" + uvarint(len(topics) + 1) + names + bytes(16) + b"\x00"
        self.add(
            OFFSETS, int(at * SECOND), consumer_key(16, group, regex), value if topics else None
        )

    def assign(
        self,
        at: float,
        group: str,
        member: str,
        assigned: Mapping[bytes, Sequence[int]],
        revoking: Mapping[bytes, Sequence[int]] | None = None,
    ) -> None:
        value = current_value(assigned, revoking or {})
        self.add(OFFSETS, int(at * SECOND), consumer_key(8, group, member), value)

    def leave(self, at: float, group: str, member: str) -> None:
        for version in (8, 5):
            self.add(OFFSETS, int(at * SECOND), consumer_key(version, group, member), None)


def plan_of(racks: Sequence[Sequence[str]], at: float, topic_id: bytes = ID) -> PlannedTopic:
    planned = PlannedRacks(at=int(at * SECOND), racks=tuple(map(tuple, racks)))
    return PlannedTopic(id=name_of(topic_id), partitions=len(racks), racks=planned)


def owners(found: Mapping[str, Any]) -> list[str | None]:
    if "owner" not in found:
        return [None] * len(found["lag"])
    return [None if number < 0 else found["members"][number] for number in found["owner"]]

"""A log with records of a KIP-848 group coordinator and of a planner; owners in a lag record."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from levelwind.assignors.protocol.records import PlannedRacks, PlannedTopic
from levelwind_testing.pipeline.local_pipeline import OFFSETS
from levelwind_testing.pipeline.offsets_reference_codec import compact, string, uvarint
from levelwind_testing.pipeline.scripted_log import ID, SECOND, Story, name_of


def consumer_key(version: int, group: str, member: str | None = None) -> bytes:
    return struct.pack(">h", version) + string(group) + (b"" if member is None else string(member))


def metadata_value(
    rack: str | None, instance: str | None = None, topics: Sequence[str] = ("t",)
) -> bytes:
    null = uvarint(0)
    texts = [null if text is None else compact(text.encode()) for text in (instance, rack)]
    return (
        b"\x00\x00"
        + b"".join(texts)
        + compact(b"client")
        + compact(b"/host")
        + uvarint(len(topics) + 1)
        + b"".join(compact(topic.encode()) for topic in topics)
        + null
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


class Groups(Story):
    """With the words of a coordinator of KIP-848 groups."""

    def introduce(
        self,
        at: float,
        group: str,
        member: str,
        rack: str | None,
        instance: str | None = None,
        topics: Sequence[str] = ("t",),
    ) -> None:
        self.add(
            OFFSETS,
            int(at * SECOND),
            consumer_key(5, group, member),
            metadata_value(rack, instance, topics),
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

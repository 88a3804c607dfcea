"""Valid bytes of every foreign format: the seeds of mutation tests."""

import json
import struct
from pathlib import Path

from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.kafka.sticky_user_data import StickyUserData
from levelwind_testing.pipeline.offsets_reference_codec import (
    commit_key,
    commit_value,
    compact,
    group_key,
    string,
    uvarint,
)

DATA = Path(__file__).parents[3] / "data"
OWNED = {"orders": (0, 1, 7), "ü": (5,)}

SUBSCRIPTION = ConsumerSubscription(
    topics=("orders", "ü"), user_data=b"data", owned=OWNED, generation=41, rack="a"
)
ASSIGNMENT = ConsumerAssignment(partitions=OWNED, user_data=b"data")
SUBSCRIPTIONS = [SUBSCRIPTION.encode(version) for version in range(4)]
ASSIGNMENTS = [ASSIGNMENT.encode(version) for version in range(4)]
USER_DATA = [StickyUserData(held=OWNED, generation=41).encode(version) for version in (0, 1)] + [
    b"\0\0\0\7"
]


def group_metadata(version: int) -> bytes:
    """A group with two members, as its coordinator writes it down."""
    flexible = version >= 4

    def text(value: str) -> bytes:
        return compact(value.encode()) if flexible else string(value)

    def raw(value: bytes) -> bytes:
        return compact(value) if flexible else struct.pack(">i", len(value)) + value

    null = uvarint(0) if flexible else struct.pack(">h", -1)
    member = text("id") + (null if version >= 3 else b"") + text("client") + text("/host")
    member += (struct.pack(">i", 300) if version >= 1 else b"") + struct.pack(">i", 45)
    member += raw(SUBSCRIPTIONS[3]) + raw(ASSIGNMENTS[1]) + (b"\0" if flexible else b"")
    members = (uvarint(3) if flexible else struct.pack(">i", 2)) + member * 2
    head = (
        struct.pack(">h", version) + text("consumer") + struct.pack(">i", 8) + text("range") + null
    )
    return (
        head
        + (struct.pack(">q", 99) if version >= 2 else b"")
        + members
        + (b"\0" if flexible else b"")
    )


GROUPS = [group_metadata(version) for version in range(5)]


def _golden() -> list[tuple[bytes, bytes | None]]:
    lines = map(json.loads, (DATA / "consumer_offsets.jsonl").read_text().splitlines())
    return [
        (
            bytes.fromhex(line["key"]),
            None if line["value"] is None else bytes.fromhex(line["value"]),
        )
        for line in lines
    ]


# Keys and values of the offsets topic.
OFFSETS: list[tuple[bytes, bytes | None]] = [
    *_golden(),
    *(
        (commit_key("group", "topic", 3, version % 2), commit_value(9, 77, version))
        for version in range(5)
    ),
    (
        commit_key("group", "topic", 3),
        commit_value(9, 77, 4, "note", ((0, b"x" * 16), (3, b"newer"))),
    ),
    *((group_key("group"), group) for group in GROUPS),
    (struct.pack(">h", 5) + string("group"), b"\0\0rest"),
]


def _records() -> list[tuple[str, bytes, bytes]]:
    rack_sets = {"sets": [["a", "b"], []], "of": [0, 1]}
    values = [
        ("metadata", ["broker", 1], {"v": 1, "at": 5, "rack": "a", "online": True}),
        (
            "metadata",
            ["topic", "t"],
            {
                "v": 1,
                "at": 5,
                "id": "i",
                "leader": [1, -1],
                "replicas": [[1, 2], [2]],
                "isr": [[1], []],
            }
            | {"racks": [["a"], []]},
        ),
        (
            "metadata",
            ["offsets", "t"],
            {"v": 2, "at": 5, "id": "i", "begin": [0, 1], "stable": [5, -1], "high": [6, -1]},
        ),
        (
            "lag",
            ["lag", "g", "t"],
            {
                "v": 2,
                "at": 5,
                "id": "i",
                "end_kind": "stable",
                "committed": [1, -1],
                "committed_at": [4, -1],
            }
            | {
                "begin": [0, 0],
                "end": [9, 9],
                "lag": [8, 9],
                "lost": [0, 0],
                "stale": [1],
                "racks": [["a"], []],
            }
            | {"source": {"o/1": 7}},
        ),
        (
            "triggers",
            ["skew", "g"],
            {"v": 1, "kind": "skew", "group": "g", "at": 5, "since": 4, "source": {"o/1": 7}}
            | {
                "evidence": {
                    "skew": 1.9,
                    "threshold": 1.5,
                    "lag": 9,
                    "floor": 1,
                    "members": {"m": 9},
                }
            },
        ),
        (
            "triggers",
            ["racks", "g"],
            {"v": 1, "kind": "racks", "group": "g", "at": 5, "since": 4, "source": {}}
            | {"evidence": {"partitions": 1, "topics": {"t": {"0": {"from": ["a"], "to": ["b"]}}}}},
        ),
        (
            "dead_letters",
            ["o", 1, 7],
            {
                "v": 1,
                "at": 5,
                "topic": "o",
                "partition": 1,
                "offset": 7,
                "reason": "r",
                "key": "AA==",
                "value": None,
            },
        ),
        (
            "members",
            ["m", "g", "i", "n"],
            {
                "v": 2,
                "client": "c",
                "client_version": "1",
                "topics": ["t"],
                "rack": None,
                "priority": 3,
            }
            | {"capacity": 1.0, "state": "active", "acked_epoch": 2, "owned": {"t": "0-9,14"}}
            | {"nack": {"epoch": 1, "code": "x"}, "features": ["f"], "heartbeat": 9}
            | {"planner_epoch": 1, "starting": {"t": "14"}, "transactional_id": None}
            | {"hold_ms": 20_000, "commit_ms": 12_000, "max_poll_interval_ms": 300_000},
        ),
        (
            "members",
            ["canary"],
            {"v": 1, "planner_epoch": 3, "instance": "i", "number": 7, "state": "leading"},
        ),
        (
            "assignments",
            ["planner"],
            {"v": 1, "planner_epoch": 3, "instance": "i", "started_at": 5},
        ),
        (
            "assignments",
            ["g", "g"],
            {
                "v": 2,
                "mode": "managed",
                "planner_epoch": 3,
                "group_epoch": 4,
                "plan_id": "p",
                "strategy": "lag",
            }
            | {
                "cause": "r",
                "inputs": {"lag_at": 5, "metadata_at": None},
                "computed_at": 6,
                "digest": "d",
            }
            | {"topics": {"t": {"id": "i", "partitions": 2, "racks": {"at": 5} | rack_sets}}}
            | {"members": [{"instance": "i", "incarnation": "n", "rack": "a", "capacity": 2.5}]}
            | {"score": {"before": None, "after": {"spread": 1, "cross_rack": None}}},
        ),
        (
            "assignments",
            ["m", "g", "i", "n"],
            {
                "v": 1,
                "planner_epoch": 3,
                "group_epoch": 4,
                "member_epoch": 4,
                "state": "active",
                "rack": "a",
            }
            | {
                "assigned": {"t": "0-1"},
                "pending": {},
                "revoking": {"t": "7"},
                "capacity": 1.0,
                "reason": "",
            },
        ),
        (
            "control",
            ["operator", "g"],
            {"v": 1, "at": 5, "by": "me", "action": "rebalance", "reason": ""},
        ),
    ]
    return [
        (topic, json.dumps(key).encode(), json.dumps(value).encode())
        for topic, key, value in values
    ]


# Topic, key and value of levelwind's records.
RECORDS = _records()

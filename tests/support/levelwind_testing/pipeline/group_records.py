"""Random group records, encoded by the coordinator's own classes, and the expected decoding.

As a script (`PYTHONPATH=tests/support python -m levelwind_testing.pipeline.group_records`) it
prints tests/data/group_records.jsonl: a few records of every kind and version, encoded in a Java
process by the classes of Kafka's group coordinator.
"""

import base64
import json
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.deploy.jars import classpath
from levelwind.streaming.decoding.classic_group import ClassicMember, Membership
from levelwind.streaming.decoding.consumer_group import (
    CurrentAssignment,
    GroupEpoch,
    GroupPartitions,
    MemberMetadata,
    ResolvedRegex,
    TargetAssignment,
    TargetEpoch,
)
from levelwind_testing.processes.java_process import JavaProcess

# By key version: the name of the coordinator's class, whether its key names a member, and the
# versions of its value.
KINDS: dict[int, tuple[str, str | None, tuple[int, ...]]] = {
    2: ("GroupMetadata", None, (0, 1, 2, 3, 4)),
    3: ("ConsumerGroupMetadata", None, (0,)),
    4: ("ConsumerGroupPartitionMetadata", None, (0,)),
    5: ("ConsumerGroupMemberMetadata", "memberId", (0,)),
    6: ("ConsumerGroupTargetAssignmentMetadata", None, (0,)),
    7: ("ConsumerGroupTargetAssignmentMember", "memberId", (0,)),
    8: ("ConsumerGroupCurrentMemberAssignment", "memberId", (0,)),
    16: ("ConsumerGroupRegularExpression", "regularExpression", (0,)),
}
RACKLESS_SUBSCRIPTIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A record: what it says, in the words of Kafka's schema."""

    kind: int
    version: int
    key: dict[str, Any]
    value: dict[str, Any]


class Coordinator:
    """The coordinator's classes, in a Java process."""

    def __init__(self, process: JavaProcess) -> None:
        jvm = process.gateway.jvm
        self._generated = jvm.org.apache.kafka.coordinator.group.generated
        self._messages = jvm.org.apache.kafka.common.protocol.MessageUtil
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()

    def encode(self, record: Written) -> tuple[bytes, bytes]:
        """The bytes of its key and value."""
        name = KINDS[record.kind][0]
        keys = getattr(self._generated, f"{name}KeyJsonConverter")
        values = getattr(self._generated, f"{name}ValueJsonConverter")
        key = keys.read(self._mapper.readTree(json.dumps(record.key)), 0)
        value = values.read(self._mapper.readTree(json.dumps(record.value)), record.version)
        return (
            bytes(self._messages.toCoordinatorTypePrefixedBytes(key)),
            bytes(self._messages.toVersionPrefixedBytes(record.version, value)),
        )


@contextmanager
def coordinator() -> Iterator[Coordinator]:
    with closing(JavaProcess(classpath("brokers"), "-Xmx256m", "-XX:TieredStopAtLevel=1")) as java:
        yield Coordinator(java)


# -- random records


def record(rng: random.Random, kind: int, version: int) -> Written:
    """Any record of a kind."""
    names = KINDS[kind][1]
    group = {"group" if kind == 2 else "groupId": _text(rng)}
    key = group if names is None else {**group, names: _text(rng)}
    return Written(kind=kind, version=version, key=key, value=_VALUES[kind](rng, version))


def _text(rng: random.Random) -> str:
    return "".join(rng.choice("ab.-_Äß日🦊") for _ in range(rng.choice((1, 2, 3, 5, 8, 130))))


def _maybe(rng: random.Random) -> str | None:
    return _text(rng) if rng.random() < 0.6 else None


def _int(rng: random.Random) -> int:
    return rng.choice((0, 1, 300, 2**31 - 1, rng.randrange(2**31)))


def _some(rng: random.Random, make: Any, most: int = 4) -> list[Any]:
    return [make() for _ in range(rng.randrange(most))]


def _epoch(rng: random.Random, _: int) -> dict[str, Any]:
    return {"epoch": _int(rng), "metadataHash": rng.choice((0, rng.randrange(2**62)))}


def _partition_metadata(rng: random.Random, _: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        racks = _some(
            rng, lambda: {"partition": _int(rng), "racks": _some(rng, lambda: _text(rng))}
        )
        return {
            "topicId": _uuid(rng),
            "topicName": _text(rng),
            "numPartitions": _int(rng),
            "partitionMetadata": racks,
        }

    return {"topics": _some(rng, topic)}


def _member(rng: random.Random, _: int) -> dict[str, Any]:
    def protocol() -> dict[str, Any]:
        return {"name": _text(rng), "metadata": _base64(rng.randbytes(rng.randrange(200)))}

    return {
        "instanceId": _maybe(rng),
        "rackId": _maybe(rng),
        "clientId": _text(rng),
        "clientHost": _text(rng),
        "subscribedTopicNames": _some(rng, lambda: _text(rng), 20),
        "subscribedTopicRegex": _maybe(rng),
        "rebalanceTimeoutMs": _int(rng),
        "serverAssignor": _maybe(rng),
        "classicMemberMetadata": rng.choice(
            # A session of 0 without protocols is the default, and left out: a reader takes that for
            # none.
            (
                None,
                {
                    "sessionTimeoutMs": 1 + rng.randrange(2**31 - 1),
                    "supportedProtocols": _some(rng, protocol),
                },
            )
        ),
    }


def _target_epoch(rng: random.Random, _: int) -> dict[str, Any]:
    return {
        "assignmentEpoch": _int(rng),
        "assignmentTimestamp": rng.choice((0, rng.randrange(2**41))),
    }


def _target(rng: random.Random, _: int) -> dict[str, Any]:
    return {
        "topicPartitions": [_topic_partitions(rng, epochs=False) for _ in range(rng.randrange(4))]
    }


def _current(rng: random.Random, _: int) -> dict[str, Any]:
    return {
        "memberEpoch": _int(rng),
        "previousMemberEpoch": _int(rng),
        "state": rng.choice((0, 1, 2, 127)),
        "assignedPartitions": _some(rng, lambda: _topic_partitions(rng, epochs=True)),
        "partitionsPendingRevocation": _some(rng, lambda: _topic_partitions(rng, epochs=True)),
    }


def _topic_partitions(rng: random.Random, *, epochs: bool) -> dict[str, Any]:
    partitions = rng.sample(range(200), rng.choice((0, 1, 5, 150)))
    value: dict[str, Any] = {"topicId": _uuid(rng), "partitions": partitions}
    if epochs and rng.random() < 0.7:
        value["assignmentEpochs"] = [_int(rng) for _ in partitions]
    return value


def _regex(rng: random.Random, _: int) -> dict[str, Any]:
    topics = _some(rng, lambda: _text(rng))
    return {"topics": topics, "version": rng.randrange(2**62), "timestamp": rng.randrange(2**41)}


def _group(rng: random.Random, version: int) -> dict[str, Any]:
    protocol_type = rng.choice(("consumer", "consumer", "connect"))

    def member() -> dict[str, Any]:
        subscription = ConsumerSubscription(
            topics=tuple(_some(rng, lambda: _text(rng))),
            rack=_maybe(rng),
            owned={_text(rng): (3, 4)},
        )
        assignment = ConsumerAssignment(
            partitions={
                _text(rng): tuple(sorted(rng.sample(range(99), 3))) for _ in range(rng.randrange(3))
            }
        )
        value: dict[str, Any] = {
            "memberId": _text(rng),
            "clientId": _text(rng),
            "clientHost": _text(rng),
            "sessionTimeout": _int(rng),
            "subscription": _base64(subscription.encode(rng.randrange(4))),
            "assignment": _base64(rng.choice((b"", assignment.encode(rng.randrange(4))))),
        }
        if version >= 1:
            value["rebalanceTimeout"] = _int(rng)
        if version >= 3:
            value["groupInstanceId"] = _maybe(rng)
        return value

    value: dict[str, Any] = {
        "protocolType": protocol_type,
        "generation": _int(rng),
        "protocol": _maybe(rng),
        "leader": _maybe(rng),
        "members": _some(rng, member),
    }
    if version >= 2:
        value["currentStateTimestamp"] = rng.choice((-1, rng.randrange(2**41)))
    return value


_VALUES = {
    2: _group,
    3: _epoch,
    4: _partition_metadata,
    5: _member,
    6: _target_epoch,
    7: _target,
    8: _current,
    16: _regex,
}


def _uuid(rng: random.Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# -- expected results of decoding


def group_of(record: Written) -> str:
    return str(record.key["group" if record.kind == 2 else "groupId"])


def expected(record: Written) -> Any:
    """Result that a decoder has to give for the value."""
    value = record.value
    match record.kind:
        case 2:
            return _expected_group(record)
        case 3:
            return GroupEpoch(epoch=value["epoch"])
        case 4:
            topics = {t["topicId"]: (t["topicName"], t["numPartitions"]) for t in value["topics"]}
            return GroupPartitions(topics=topics)
        case 5:
            classic = value["classicMemberMetadata"]
            return MemberMetadata(
                instance_id=value["instanceId"],
                rack=value["rackId"],
                client_id=value["clientId"],
                topics=tuple(value["subscribedTopicNames"]),
                regex=value["subscribedTopicRegex"],
                assignor=value["serverAssignor"],
                protocols=None
                if classic is None
                else tuple(entry["name"] for entry in classic["supportedProtocols"]),
            )
        case 6:
            return TargetEpoch(epoch=value["assignmentEpoch"])
        case 7:
            return TargetAssignment(partitions=_by_id(value["topicPartitions"]))
        case 8:
            return CurrentAssignment(
                epoch=value["memberEpoch"],
                state=value["state"],
                assigned=_by_id(value["assignedPartitions"]),
                revoking=_by_id(value["partitionsPendingRevocation"]),
            )
        case _:
            return ResolvedRegex(topics=tuple(value["topics"]))


def _by_id(listed: list[dict[str, Any]]) -> dict[str, tuple[int, ...]]:
    return {entry["topicId"]: tuple(sorted(entry["partitions"])) for entry in listed}


def _expected_group(record: Written) -> Membership:
    value = record.value
    consumer = value["protocolType"] == "consumer"
    return Membership(
        generation=value["generation"],
        protocol=value["protocol"],
        members=tuple(map(_expected_member, value["members"])) if consumer else (),
    )


def _expected_member(value: dict[str, Any]) -> ClassicMember:
    subscription, assignment = (
        base64.b64decode(value[name]) for name in ("subscription", "assignment")
    )
    with_rack = subscription[1] > RACKLESS_SUBSCRIPTIONS
    subscribed = ConsumerSubscription.decode(subscription)
    return ClassicMember(
        member_id=value["memberId"],
        instance_id=value.get("groupInstanceId"),
        client_id=value["clientId"],
        rack=subscribed.rack if with_rack else None,
        assigned=ConsumerAssignment.decode(assignment).partitions if assignment else {},
        topics=subscribed.topics,
    )


def main() -> None:
    rng = random.Random(848)
    with coordinator() as classes:
        for kind, (name, _, versions) in KINDS.items():
            for version in versions:
                for _ in range(2):
                    made = record(rng, kind, version)
                    key, value = classes.encode(made)
                    print(
                        json.dumps(
                            {
                                "produced": f"{name} of version {version}, "
                                "by the classes of Kafka 4.3.1's coordinator",
                                "kind": kind,
                                "version": version,
                                "says": [made.key, made.value],
                                "key": key.hex(),
                                "value": value.hex(),
                            },
                            ensure_ascii=False,
                        )
                    )


if __name__ == "__main__":
    main()

"""A plan in rack ids: what a carrier tells the brokers' assignor `levelwind`.

    rack id   levelwind-plan/1:7.12:0/2:8d3fa1c0:eJx…
              planner epoch and group epoch, number of the part and of all parts,
              CRC-32 of the plan, base64url of a part of what zlib has compressed
    plan      [string name] members | [16 bytes topic id, [owner]] topics

Numbers, lengths among them, are LEB128; an owner is 0 for nobody, and n for the n-th member. A name
is a `group.instance.id`, or the member id of a member without one. The assignor follows the newest
plan of which all parts are there. Source: `CarriedPlan` in deploy/coordinator.
"""

from __future__ import annotations

import binascii
import re
import zlib
from base64 import b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.kafka.types import uvarint
from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.partition_ranges import Partitions

MARK = "levelwind-plan/"
"""Beginning of a carrier's rack id, whatever the version."""
MOST_CHARACTERS = 32_767
"""Length of the longest rack id that a broker takes."""
MOST_PARTS = 64
"""The most parts, each of them a carrier, that the assignor puts together."""
MOST_BYTES = 4 << 20
"""The most bytes of a plan, unpacked, that the assignor reads."""
TOPIC_ID_BYTES = 16
_EPOCH = re.compile(rf"{MARK}1:(\d{{1,18}})\.(\d{{1,18}}):")
_LONGEST_HEAD = len(f"{MARK}1:{10**18}.{10**18}:63/64:{0:08x}:")


def rack_ids(
    epoch: tuple[int, int],
    assignments: Mapping[str, Partitions],
    topic_ids: Mapping[str, str],
    *,
    characters: int = MOST_CHARACTERS,
) -> tuple[str, ...]:
    """Rack ids that carry a plan together, one for each carrier.

    Args:
        epoch: planner epoch and group epoch; the assignor follows the newest.
        assignments: partitions by topic of each member, by its name.
        topic_ids: Kafka's id of each topic, as records of topics have it.
        characters: the most characters of a rack id.

    Raises:
        WireError: the plan has no room in the rack ids that the assignor reads, or a topic's id is
            none of Kafka's.
    """
    plan = _plan(assignments, topic_ids)
    text = urlsafe_b64encode(zlib.compress(plan, 9)).rstrip(b"=").decode()
    room = characters - _LONGEST_HEAD
    bodies = [text[begin : begin + room] for begin in range(0, len(text), room)]
    if len(bodies) > MOST_PARTS or len(plan) > MOST_BYTES:
        raise WireError(
            f"a plan of {len(plan)} bytes, in {len(bodies)} rack ids, is larger than the brokers'"
            f" assignor reads: {MOST_BYTES} bytes in {MOST_PARTS}"
        )
    planner_epoch, group_epoch = epoch
    head = f"{MARK}1:{planner_epoch}.{group_epoch}"
    checksum = f"{zlib.crc32(plan):08x}"
    return tuple(
        f"{head}:{number}/{len(bodies)}:{checksum}:{body}" for number, body in enumerate(bodies)
    )


def epoch_of(rack_id: str) -> tuple[int, int] | None:
    """Planner epoch and group epoch of the plan that a rack id carries a part of; None without."""
    found = _EPOCH.match(rack_id)
    return None if found is None else (int(found[1]), int(found[2]))


def _plan(assignments: Mapping[str, Partitions], topic_ids: Mapping[str, str]) -> bytes:
    members = sorted(assignments)
    owners: dict[str, dict[int, int]] = {}
    for number, member in enumerate(members, 1):
        for topic, partitions in assignments[member].items():
            owners.setdefault(topic, {}).update(dict.fromkeys(partitions, number))
    parts = [uvarint(len(members))]
    for name in map(str.encode, members):
        parts += [uvarint(len(name)), name]
    parts.append(uvarint(len(owners)))
    for topic, of_topic in sorted(owners.items()):
        size = max(of_topic, default=-1) + 1
        parts += [_topic_id(topic_ids[topic]), uvarint(size)]
        parts += [uvarint(of_topic.get(partition, 0)) for partition in range(size)]
    return b"".join(parts)


def _topic_id(text: str) -> bytes:
    try:
        raw = b64decode(text + "==", b"-_")
    except binascii.Error:
        raw = b""
    if len(raw) != TOPIC_ID_BYTES:
        raise WireError(f"{text!r} is no id of a topic")
    return raw

"""The door of a problem: each field checked and turned into a column.

Law: what is wrong is said by the name of whose it is (`topic 't0'`, `member 'm1'`), the field, and what is expected.
Nothing that the numbers claim is allocated before it is checked against the bound.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from itertools import count as counting
from typing import TYPE_CHECKING, Any

import numpy as np

from assignors.columns import Floats, Ints, Longs, in_java_order, starts, utf16, within

if TYPE_CHECKING:
    from assignors.group import Member, Topic

MAX_PARTITIONS = 10_000_000
ROWS = {
    list,
    tuple,
    set,
    frozenset,
}  # plain collections; what else is one is asked of its class, which takes longer


class ProblemError(ValueError):
    """A problem that cannot be posed; the message says whose field is wrong and what to do."""


def topic_names(topics: Mapping[str, "Topic"]) -> list[str]:
    """The topics' names, checked."""
    for name in topics:
        if not isinstance(name, str):
            raise ProblemError(f"topic {name!r}: its name must be a string")
    return list(topics)


def members_in_order(members: Iterable["Member"]) -> list["Member"]:
    """The members by ascending id, each id once."""
    by_id: dict[str, Member] = {}
    for member in members:
        if not isinstance(member.id, str):
            raise ProblemError(f"member {member.id!r}: its id must be a string")
        if member.id in by_id:
            raise ProblemError(f"member {member.id!r}: given twice; give every member an id of its own")
        by_id[member.id] = member
    return [by_id[name] for name in in_java_order(by_id)]


def partition_counts(names: Sequence[str], topics: Sequence["Topic"]) -> Longs:
    """Partitions of each topic."""
    counts = [topic.partitions for topic in topics]
    for name, count in zip(names, counts, strict=True):
        if not _is_integer(count) or count < 0:
            raise ProblemError(f"topic {name!r}: partitions must be an integer from 0 up, not {count!r}")
    if sum(counts) > MAX_PARTITIONS:
        raise ProblemError(
            f"topics: {sum(counts)} partitions are more than the {MAX_PARTITIONS} of one problem; split it"
        )
    return np.array(counts, dtype=np.int64)


def lags(names: Sequence[str], topics: Sequence["Topic"], topic_start: Longs) -> Longs:
    """The lag of each dense partition."""
    column = np.zeros(topic_start[-1], dtype=np.int64)
    for index, topic in enumerate(topics):
        if topic.lags is None:
            continue
        values = _per_partition("lags", names[index], topic.partitions, topic.lags)
        whole = len(values) == 0 or (np.issubdtype(values.dtype, np.integer) and values.min() >= 0)
        if not whole or (len(values) and values.max() > np.iinfo(np.int64).max):
            raise ProblemError(f"topic {names[index]!r}: lags must be integers from 0 up, below 2**63")
        column[topic_start[index] : topic_start[index + 1]] = values
    return column


def rates(names: Sequence[str], topics: Sequence["Topic"], topic_start: Longs) -> Floats:
    """The rate of each dense partition."""
    return _figures("rates", names, topics, [topic.rates for topic in topics], topic_start, 0.0)


def traffic(names: Sequence[str], topics: Sequence["Topic"], topic_start: Longs) -> Floats:
    """The bytes a second of each dense partition; where nothing is known all weigh the same."""
    return _figures("bytes", names, topics, [topic.bytes for topic in topics], topic_start, 1.0)


def racks(
    names: Sequence[str], topics: Sequence["Topic"], members: Sequence["Member"]
) -> tuple[tuple[str, ...], Longs, Ints, Ints]:
    """Rack names, the replica racks of each dense partition as starts and racks, and each member's rack."""
    per_partition: list[Collection[str]] = []
    for name, topic in zip(names, topics, strict=True):
        per_partition.extend(_replica_racks(name, topic))
    own = [member.rack for member in members]
    for member in members:
        _check_name("rack", member.rack, member.id)
    which, rows = _distinct_rows(per_partition)
    ordered = in_java_order({*chain.from_iterable(rows)}.union(rack for rack in own if rack is not None))
    code: dict[str | None, int] = {rack: index for index, rack in enumerate(ordered)}
    code[None] = -1
    coded = [sorted({code[rack] for rack in row}) for row in rows]
    begin, flat = starts([len(row) for row in coded]), np.array([*chain.from_iterable(coded)], dtype=np.int32)
    sizes = np.diff(begin)[which]
    replica_rack = flat[within(sizes) + np.repeat(begin[which], sizes)]
    start = starts(sizes)
    member_rack = np.fromiter(map(code.__getitem__, own), dtype=np.int32, count=len(own))
    return tuple(ordered), start, replica_rack, member_rack


def instances(members: Sequence["Member"]) -> tuple[str | None, ...]:
    """Each member's static identity; two members cannot share one."""
    holder: dict[str, str] = {}
    if not any(member.instance_id is not None for member in members):
        return (None,) * len(members)
    for member in members:
        _check_name("instance_id", member.instance_id, member.id)
        if member.instance_id is None:
            continue
        if member.instance_id in holder:
            raise ProblemError(
                f"member {member.id!r}: instance_id {member.instance_id!r} is also {holder[member.instance_id]!r}'s; "
                "give each its own"
            )
        holder[member.instance_id] = member.id
    return tuple(member.instance_id for member in members)


def roster(instance_ids: Sequence[str | None]) -> Ints:
    """Members in Kafka's order: static ones first by instance id, then the rest by member id (KIP-345)."""
    static = [(utf16(name), index) for index, name in enumerate(instance_ids) if name is not None]
    rest = [index for index, name in enumerate(instance_ids) if name is None]
    return np.array([index for _, index in sorted(static)] + rest, dtype=np.int32)


def interned(field: str, values: Sequence[str | None], ids: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Names in order, and each member's index in them or -1."""
    if not any(value is not None for value in values):
        return (), np.full(len(values), -1, dtype=np.int32)
    for value, owner in zip(values, ids, strict=True):
        _check_name(field, value, owner)
    ordered = in_java_order({value for value in values if value is not None})
    code: dict[str | None, int] = {name: index for index, name in enumerate(ordered)}
    return tuple(ordered), np.array([code.get(value, -1) for value in values], dtype=np.int32)


def integers(field: str, values: Sequence[int], ids: Sequence[str]) -> Longs:
    """A member's 32-bit number, as Kafka's wire has it."""
    if set(map(type, values)) == {int} and min(values) >= -(2**31) and max(values) < 2**31:
        return np.array(values, dtype=np.int64)  # as nearly always; what is wrong is looked for one by one
    for value, owner in zip(values, ids, strict=True):
        if not _is_integer(value) or not -(2**31) <= value < 2**31:
            raise ProblemError(f"member {owner!r}: {field} must be a 32-bit integer, not {value!r}")
    return np.array(values, dtype=np.int64)


def capacities(values: Sequence[float], ids: Sequence[str]) -> Floats:
    """What each member can carry, relative to the others."""
    if set(map(type, values)) == {float} and min(values) > 0 and math.isfinite(sum(values)):
        return np.array(values, dtype=np.float64)
    for value, owner in zip(values, ids, strict=True):
        sound = isinstance(value, int | float) and not isinstance(value, bool)
        if not sound or not math.isfinite(value) or value <= 0:
            raise ProblemError(f"member {owner!r}: capacity must be a finite number above 0, not {value!r}")
    return np.array(values, dtype=np.float64)


def _figures(
    field: str,
    names: Sequence[str],
    topics: Sequence["Topic"],
    given: Sequence[Sequence[float] | None],
    topic_start: Longs,
    unknown: float,
) -> Floats:
    column = np.full(topic_start[-1], unknown, dtype=np.float64)
    for index, (name, topic, figures) in enumerate(zip(names, topics, given, strict=True)):
        if figures is None:
            continue
        values = _per_partition(field, name, topic.partitions, figures)
        if not _is_number(values) or not bool(np.all(np.isfinite(values) & (values >= 0))):
            raise ProblemError(f"topic {name!r}: {field} must be finite numbers from 0 up")
        column[topic_start[index] : topic_start[index + 1]] = values
    return column


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(values: np.ndarray[Any, Any]) -> bool:
    return (
        len(values) == 0
        or np.issubdtype(values.dtype, np.integer)
        or np.issubdtype(values.dtype, np.floating)
    )


def _check_name(field: str, value: object, owner: str) -> None:
    if value is not None and not isinstance(value, str):
        raise ProblemError(f"member {owner!r}: {field} must be a string or left out, not {value!r}")


def _per_partition(field: str, name: str, partitions: int, values: Sequence[float]) -> np.ndarray[Any, Any]:
    try:
        column = np.asarray(values)
    except ValueError:
        column = np.zeros((0, 0))
    if column.ndim != 1 or len(column) != partitions:
        raise ProblemError(
            f"topic {name!r}: {field} must be a list of one number for each of its {partitions} partitions"
        )
    return column


def _replica_racks(name: str, topic: "Topic") -> Sequence[Collection[str]]:
    if topic.replica_racks is None:
        return [()] * topic.partitions
    if isinstance(topic.replica_racks, str) or len(topic.replica_racks) != topic.partitions:
        raise ProblemError(
            f"topic {name!r}: replica_racks must be a list of racks for each of its {topic.partitions} partitions"
        )
    kinds = set(map(type, topic.replica_racks))
    if not kinds <= ROWS and not all(
        issubclass(kind, Collection) and not issubclass(kind, str) for kind in kinds
    ):
        raise ProblemError(f"topic {name!r}: replica_racks must hold a list of racks for each partition")
    return topic.replica_racks


def _distinct_rows(rows: list[Collection[str]]) -> tuple[Longs, list[tuple[str, ...]]]:
    """Which of the distinct rows each row is, and these: hardly more than there are ways to spread replicas."""
    number: defaultdict[tuple[str, ...], int] = defaultdict(counting().__next__)
    try:
        which = np.fromiter(map(number.__getitem__, map(tuple, rows)), dtype=np.int64, count=len(rows))
        named = all(issubclass(kind, str) for kind in set(map(type, chain.from_iterable(number))))
    except TypeError:
        named = False
    if not named:
        raise ProblemError("topics: replica_racks must hold names of racks, each a string")
    return which, list(number)

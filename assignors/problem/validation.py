"""Validation of a problem: each field is checked and turned into a column.

Guarantees: an error names the topic or member (`topic 't0'`, `member 'm1'`), the field, and what is
expected. No memory is allocated for a claimed number before the number is checked against its
bound. A field is checked for all topics or members at once, by the types of its values; the one
wrong value is searched only after the check has failed.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from itertools import count as counting
from typing import Any

import numpy as np

from levelwind.assignors.problem.columns import (
    LEAST_FIGURE,
    MOST_FIGURE,
    Bools,
    Floats,
    Ints,
    Longs,
    in_java_order,
    utf16,
)
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic

MAX_PARTITIONS = 10_000_000
"""Partitions of one problem."""
MAX_RACK_TABLE_BYTES = 2**28
"""Racks times rack sets of one problem: each pair takes a byte."""


def topic_names(topics: Mapping[str, Topic]) -> list[str]:
    """Names of the topics, checked."""
    if not _are(str, topics):
        wrong = next(name for name in topics if not isinstance(name, str))
        raise ProblemError(f"topic {wrong!r}: its name must be a string")
    return list(topics)


def members_in_order(members: Iterable[Member]) -> list[Member]:
    """Members by ascending id; every id is unique."""
    listed = list(members)
    ids = [member.id for member in listed]
    if not _are(str, ids):
        wrong = next(name for name in ids if not isinstance(name, str))
        raise ProblemError(f"member {wrong!r}: its id must be a string")
    by_id = dict(zip(ids, listed, strict=True))
    if len(by_id) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ProblemError(f"member {twice!r}: given twice; give every member an id of its own")
    return [by_id[name] for name in in_java_order(by_id)]


def partition_counts(names: Sequence[str], topics: Sequence[Topic]) -> Longs:
    """Number of partitions of each topic (T)."""
    counts = [topic.partitions for topic in topics]
    if set(map(type, counts)) != {int} or min(counts) < 0:
        for name, count in zip(names, counts, strict=True):
            if not _is_integer(count) or count < 0:
                raise ProblemError(
                    f"topic {name!r}: partitions must be an integer from 0 up, not {count!r}"
                )
    if sum(counts) > MAX_PARTITIONS:
        raise ProblemError(
            f"topics: {sum(counts)} partitions are more than the {MAX_PARTITIONS} of one problem;"
            " split it"
        )
    return np.array(counts, dtype=np.int64)


def lags(names: Sequence[str], topics: Sequence[Topic], topic_start: Longs) -> Longs:
    """Lag of each dense partition (P), in records."""
    column = np.zeros(topic_start[-1], dtype=np.int64)
    for index, topic in enumerate(topics):
        if topic.lags is None:
            continue
        values = _per_partition("lags", names[index], topic.partitions, topic.lags)
        whole = len(values) == 0 or (np.issubdtype(values.dtype, np.integer) and values.min() >= 0)
        if not whole or (len(values) and values.max() > np.iinfo(np.int64).max):
            raise ProblemError(
                f"topic {names[index]!r}: lags must be integers from 0 up, below 2**63"
            )
        column[topic_start[index] : topic_start[index + 1]] = values
    return column


def rates(names: Sequence[str], topics: Sequence[Topic], topic_start: Longs) -> Floats:
    """Records that arrive per second in each dense partition (P); 0 where unknown."""
    return _figures("rates", names, topics, [topic.rates for topic in topics], topic_start, 0.0)


def traffic(names: Sequence[str], topics: Sequence[Topic], topic_start: Longs) -> Floats:
    """Bytes that arrive per second in each dense partition (P); where unknown, all weigh 1."""
    return _figures("bytes", names, topics, [topic.bytes for topic in topics], topic_start, 1.0)


def replica_racks(
    names: Sequence[str], topics: Sequence[Topic]
) -> tuple[tuple[str, ...], Ints, Bools]:
    """Racks of the replicas (R), rack set of each partition (P), racks of each set (K x R+1)."""
    which, rows = _distinct_rows(_replica_racks(names, topics))
    ordered, code = _coded(chain.from_iterable(rows))
    coded = [tuple(sorted({code[rack] for rack in row})) for row in rows]
    sets = sorted(set(coded))
    rack_local = _empty_rack_table(len(sets), len(ordered))
    set_of_rack = np.repeat(np.arange(len(sets)), [*map(len, sets)])
    rack_local[set_of_rack, [*chain.from_iterable(sets)]] = True
    number = {row: index for index, row in enumerate(sets)}
    return ordered, np.array([number[row] for row in coded], dtype=np.int32)[which], rack_local


def member_racks(
    racks: tuple[str, ...], rack_local: Bools, members: Sequence[Member]
) -> tuple[tuple[str, ...], Bools, Ints]:
    """Names of all racks (R), racks of each set (K x R+1), and rack of each member (M).

    The racks include those that have members and no replica.
    """
    own = [member.rack for member in members]
    _check_names("rack", own, members)
    ordered, code = _coded(chain(own, racks))
    if len(ordered) > len(racks):
        wider = _empty_rack_table(len(rack_local), len(ordered))
        wider[:, [code[rack] for rack in racks]] = rack_local[:, :-1]
        rack_local = wider
    return ordered, rack_local, np.array([*map(code.__getitem__, own)], dtype=np.int32)


def _empty_rack_table(sets: int, racks: int) -> Bools:
    if sets * racks > MAX_RACK_TABLE_BYTES:
        raise ProblemError(
            f"topics: replica_racks name {racks} racks in {sets} combinations, which is too many;"
            " use fewer racks"
        )
    return np.zeros((sets, racks + 1), dtype=np.bool_)


def containers(members: Sequence[Member]) -> tuple[tuple[str, ...], Ints]:
    """Names of the containers, and container of each member (M) or -1."""
    given = [member.container for member in members]
    _check_names("container", given, members)
    if set(given) <= {None}:
        return (), np.full(len(given), -1, dtype=np.int32)
    ordered, code = _coded(given)
    return ordered, np.array([*map(code.__getitem__, given)], dtype=np.int32)


def instances(members: Sequence[Member]) -> tuple[str | None, ...]:
    """Static identity of each member (M), or None; two members cannot share one."""
    given = tuple([member.instance_id for member in members])
    _check_names("instance_id", given, members)
    if len(set(given)) == len(given) - max(given.count(None) - 1, 0):
        return given
    holder: dict[str, str] = {}
    for member in members:
        if member.instance_id in holder:
            raise ProblemError(
                f"member {member.id!r}: instance_id {member.instance_id!r} is also"
                f" {holder[member.instance_id]!r}'s; give each its own"
            )
        if member.instance_id is not None:
            holder[member.instance_id] = member.id
    return given


def members_in_kafka_order(instance_ids: Sequence[str | None]) -> Ints:
    """Members in Kafka's order (KIP-345): static ones by instance id, then others by member id."""
    if set(instance_ids) <= {None}:
        return np.arange(len(instance_ids), dtype=np.int32)
    static = [(utf16(name), index) for index, name in enumerate(instance_ids) if name is not None]
    rest = [index for index, name in enumerate(instance_ids) if name is None]
    return np.array([index for _, index in sorted(static)] + rest, dtype=np.int32)


def integers(field: str, values: Sequence[int], ids: Sequence[str]) -> Longs:
    """A 32-bit number of each member (M), as in Kafka's wire format."""
    # Nearly always all values are sound; the wrong one is searched one by one below.
    if set(map(type, values)) == {int} and min(values) >= -(2**31) and max(values) < 2**31:
        return np.array(values, dtype=np.int64)
    for value, owner in zip(values, ids, strict=True):
        if not _is_integer(value) or not -(2**31) <= value < 2**31:
            raise ProblemError(f"member {owner!r}: {field} must be a 32-bit integer, not {value!r}")
    return np.array(values, dtype=np.int64)


def capacities(values: Sequence[float], ids: Sequence[str]) -> Floats:
    """Announced capacity of each member (M), relative to the others."""
    _check_positive("capacity", values, ids)
    return np.array(values, dtype=np.float64)


def speeds(values: Sequence[float | None], ids: Sequence[str]) -> Floats:
    """Learned speed of each member (M) in records per second; NaN where none is known."""
    known = [value for value in values if value is not None]
    if known:
        ids = [owner for value, owner in zip(values, ids, strict=True) if value is not None]
        _check_positive("speed", known, ids)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _check_positive(field: str, values: Sequence[float], ids: Sequence[str]) -> None:
    # A sum finds what `min` and `max` may pass over: NaN.
    if (
        set(map(type, values)) == {float}
        and math.isfinite(sum(values))
        and min(values) >= LEAST_FIGURE
        and max(values) <= MOST_FIGURE
    ):
        return
    for value, owner in zip(values, ids, strict=True):
        sound = isinstance(value, int | float) and not isinstance(value, bool)
        if not sound or not LEAST_FIGURE <= value <= MOST_FIGURE:
            raise ProblemError(
                f"member {owner!r}: {field} must be a number from {LEAST_FIGURE:g} to"
                f" {MOST_FIGURE:g}, not {value!r}"
            )


def _figures(
    field: str,
    names: Sequence[str],
    topics: Sequence[Topic],
    given: Sequence[Sequence[float] | None],
    topic_start: Longs,
    unknown: float,
) -> Floats:
    column = np.full(topic_start[-1], unknown, dtype=np.float64)
    for index, (name, topic, figures) in enumerate(zip(names, topics, given, strict=True)):
        if figures is None:
            continue
        values = _per_partition(field, name, topic.partitions, figures)
        if not _is_number(values) or not bool(np.all((values >= 0) & (values <= MOST_FIGURE))):
            raise ProblemError(f"topic {name!r}: {field} must be numbers from 0 to {MOST_FIGURE:g}")
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


def _are(kind: type, values: Iterable[object]) -> bool:
    return all(issubclass(each, kind) for each in set(map(type, values)))


def _check_names(field: str, values: Sequence[object], members: Sequence[Member]) -> None:
    if set(map(type, values)) <= {str, type(None)}:
        return
    for value, member in zip(values, members, strict=True):
        if value is not None and not isinstance(value, str):
            raise ProblemError(
                f"member {member.id!r}: {field} must be a string or left out, not {value!r}"
            )


def _coded(names: Iterable[str | None]) -> tuple[tuple[str, ...], dict[str | None, int]]:
    """Distinct names in order, and the index of each; the index of None is -1."""
    ordered = in_java_order(name for name in set(names) if name is not None)
    code: dict[str | None, int] = {name: index for index, name in enumerate(ordered)}
    code[None] = -1
    return tuple(ordered), code


def _per_partition(
    field: str, name: str, partitions: int, values: Sequence[float]
) -> np.ndarray[Any, Any]:
    try:
        column = np.asarray(values)
    except ValueError:
        column = np.zeros((0, 0))
    if column.ndim != 1 or len(column) != partitions:
        raise ProblemError(
            f"topic {name!r}: {field} must be a list of one number for each of its"
            f" {partitions} partitions"
        )
    return column


def _replica_racks(names: Sequence[str], topics: Sequence[Topic]) -> list[Collection[str]]:
    """Replica racks of each dense partition (P)."""
    given = [
        [()] * topic.partitions if topic.replica_racks is None else topic.replica_racks
        for topic in topics
    ]
    for name, topic, rows in zip(names, topics, given, strict=True):
        if isinstance(rows, str) or len(rows) != topic.partitions:
            raise ProblemError(
                f"topic {name!r}: replica_racks must be a list of racks for each of its"
                f" {topic.partitions} partitions"
            )
    listed = [*chain.from_iterable(given)]
    if not _collections(listed):
        wrong = next(
            name for name, rows in zip(names, given, strict=True) if not _collections(rows)
        )
        raise ProblemError(
            f"topic {wrong!r}: replica_racks must hold a list of racks for each partition"
        )
    return listed


def _collections(rows: Iterable[object]) -> bool:
    kinds = set(map(type, rows))
    return all(issubclass(kind, Collection) and not issubclass(kind, str) for kind in kinds)


def _distinct_rows(rows: list[Collection[str]]) -> tuple[Longs, list[tuple[str, ...]]]:
    """Index of each row among the distinct rows, and the distinct rows.

    There are hardly more distinct rows than ways to spread replicas over racks.
    """
    number: defaultdict[tuple[str, ...], int] = defaultdict(counting().__next__)
    try:
        index = np.fromiter(
            map(number.__getitem__, map(tuple, rows)), dtype=np.int64, count=len(rows)
        )
        all_names = _are(str, chain.from_iterable(number))
    except TypeError:
        all_names = False
    if not all_names:
        raise ProblemError("topics: replica_racks must hold names of racks, each a string")
    return index, list(number)

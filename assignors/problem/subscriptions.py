"""What members read and claim, in columns: the part of a problem's door that names pass through by the hundred thousand.

Law: all names are looked up in one pass, and whose field is wrong is looked for only once something is. A list that members
share is read once, and an audience that topics share is kept once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np

from assignors.problem.columns import (
    Ints,
    Longs,
    distinct,
    radix,
    starts,
)
from assignors.problem.inputs import (
    Member,
    ProblemError,
)

UNKNOWN = -1


def subscriptions(topics: Mapping[str, int], members: Sequence[Member]) -> tuple[Ints, Longs, Ints]:
    """Each member's distinct subscription, and the distinct subscriptions as starts and topics.

    Distinct subscriptions are numbered by the first member that has them, so the input's order does not show.
    """
    objects = [id(member.topics) for member in members]
    said_by = dict(
        zip(reversed(objects), reversed(members), strict=True)
    )  # the first one's is last
    place = dict(zip(dict.fromkeys(objects), range(len(said_by)), strict=True))
    wishes = [_wish(said_by[key], topics) for key in place]
    try:
        code = _codes(topics, wishes)
    except TypeError:
        code = np.array([UNKNOWN])
    if (code == UNKNOWN).any():
        for key, wish in zip(place, wishes, strict=True):
            _check_names(said_by[key], wish)
    first = np.arange(len(wishes) + 1) * max(len(topics), 1)
    keys = np.repeat(first[:-1], [*map(len, wishes)]) + code
    if (code == UNKNOWN).any():
        keys = keys[code != UNKNOWN]
    keys = distinct(keys, int(first[-1]))
    start = np.searchsorted(keys, first)
    number, start, topic = _once(
        start, (keys - np.repeat(first[:-1], np.diff(start))).astype(np.int32)
    )
    return number[[*map(place.__getitem__, objects)]], start, topic


def _once(start: Longs, column: Ints) -> tuple[Ints, Longs, Ints]:
    """Each row's number among the distinct ones, by first appearance, and these as starts and a column."""
    raw, bounds = column.tobytes(), (start * column.itemsize).tolist()
    listed = [raw[begin:end] for begin, end in pairwise(bounds)]
    rows = dict.fromkeys(listed)
    if len(rows) == len(listed):
        return np.arange(len(listed), dtype=np.int32), start, column
    place = dict(zip(rows, range(len(rows)), strict=True))
    number = np.array([*map(place.__getitem__, listed)], dtype=np.int32)
    flat = np.frombuffer(b"".join(rows), dtype=np.int32)
    return number, starts([len(row) // column.itemsize for row in rows]), flat.copy()


def reader_sets(
    topics: int, subscription: Ints, start: Longs, subscribed: Ints
) -> tuple[Ints, Longs, Ints]:
    """Each topic's audience, and the audiences as starts and members. Numbered by their first topic."""
    wish = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    by_topic = wish[radix(subscribed, topics)]
    reader_set, start, wanting = _once(starts(np.bincount(subscribed, minlength=topics)), by_topic)
    if len(wish) and int(subscription.max(initial=0)) == len(subscription) - 1:
        return (
            reader_set,
            start,
            wanting,
        )  # no two members share a subscription, and both go by one number
    readers = []
    wants = np.zeros(int(subscription.max(initial=-1)) + 1, dtype=np.bool_)
    for begin, end in pairwise(start.tolist()):
        wants[wanting[begin:end]] = True
        readers.append(np.flatnonzero(wants[subscription]).astype(np.int32))
        wants[wanting[begin:end]] = False
    flat = np.concatenate(readers) if readers else np.zeros(0, dtype=np.int32)
    return reader_set, starts([len(row) for row in readers]), flat


def claims(
    topics: Mapping[str, int], topic_start: Longs, members: Sequence[Member]
) -> tuple[Ints, Ints]:
    """What the members say that they own, as pairs of member and dense partition."""
    owned = [member.owned or {} for member in members]
    if not any(owned):
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    lists = [*chain.from_iterable(theirs.values() for theirs in owned)]
    sizes = [*map(len, lists)]
    number = _numbers([*chain.from_iterable(lists)], members)
    topic = np.repeat(_codes(topics, owned), sizes)
    claimant = np.repeat(np.repeat(np.arange(len(owned)), [*map(len, owned)]), sizes)
    size = np.append(np.diff(topic_start), 0)  # the unknown topic, last, has no partitions
    known = (number >= 0) & (number < size[topic])
    partition = topic_start[topic] + number
    if not known.all():
        claimant, partition = claimant[known], partition[known]
    width = max(int(topic_start[-1]), 1)
    keys = claimant * width + partition
    if not (keys[1:] > keys[:-1]).all():
        claimant, partition = np.divmod(np.unique(keys), width)
    return claimant.astype(np.int32), partition.astype(np.int32)


def _codes(topics: Mapping[str, int], wishes: Iterable[Iterable[str]]) -> Longs:
    return np.array(
        [*map(topics.get, chain.from_iterable(wishes), repeat(UNKNOWN))], dtype=np.int64
    )


def _numbers(claimed: list[Any], members: Sequence[Member]) -> Longs:
    """The claimed partition numbers; those that no topic can have are -1."""
    if set(map(type, claimed)) == {int}:
        try:
            return np.array(claimed, dtype=np.int64)
        except OverflowError:
            pass
    for member in members:
        for partition in chain.from_iterable((member.owned or {}).values()):
            if not isinstance(partition, int | np.integer) or isinstance(partition, bool):
                raise ProblemError(
                    f"member {member.id!r}: owned must list partition numbers, not {partition!r}"
                )
    return np.array([n if 0 <= n < 2**31 else UNKNOWN for n in claimed], dtype=np.int64)


def _wish(member: Member, topics: Mapping[str, int]) -> Collection[str]:
    if isinstance(member.topics, str):
        if member.topics == "*":
            return topics
        raise ProblemError(
            f'member {member.id!r}: topics must be a list of names or "*", not {member.topics!r}'
        )
    return tuple(member.topics)


def _check_names(member: Member, wish: Iterable[str]) -> None:
    if not all(isinstance(name, str) for name in wish):
        raise ProblemError(f"member {member.id!r}: topics must be a list of names")

"""Subscriptions, reader sets and claims in columns.

This part of validation sees names by the hundred thousand.

Guarantees: all names are looked up in one pass, and a wrong field is searched only after the pass
has failed. A list that members share is read once, and a reader set that topics share is kept once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np

from levelwind.assignors.problem.columns import Ints, Longs, distinct, radix, starts
from levelwind.assignors.problem.inputs import Member, ProblemError

UNKNOWN = -1
"""Index of an unknown topic, and number of a partition that no topic can have."""


def subscriptions(topics: Mapping[str, int], members: Sequence[Member]) -> tuple[Ints, Longs, Ints]:
    """Subscription of each member (M), and the distinct subscriptions as starts (D+1) and topics.

    Distinct subscriptions are numbered by the first member that has them, so that the order of the
    input does not show.
    """
    objects = [id(member.topics) for member in members]
    # Of several members with one object the first is written last, and stays.
    first_member = dict(zip(reversed(objects), reversed(members), strict=True))
    number_of = dict(zip(dict.fromkeys(objects), range(len(first_member)), strict=True))
    subscribed = [_subscribed(first_member[key], topics) for key in number_of]
    try:
        code = _codes(topics, subscribed)
    except TypeError:
        code = np.array([UNKNOWN])
    if (code == UNKNOWN).any():
        for key, names in zip(number_of, subscribed, strict=True):
            _check_names(first_member[key], names)
    first = np.arange(len(subscribed) + 1) * max(len(topics), 1)
    keys = np.repeat(first[:-1], [*map(len, subscribed)]) + code
    if (code == UNKNOWN).any():
        keys = keys[code != UNKNOWN]
    keys = distinct(keys, int(first[-1]))
    start = np.searchsorted(keys, first)
    topic = (keys - np.repeat(first[:-1], np.diff(start))).astype(np.int32)
    number, start, topic = _distinct_rows(start, topic)
    return number[[*map(number_of.__getitem__, objects)]], start, topic


def _distinct_rows(start: Longs, column: Ints) -> tuple[Ints, Longs, Ints]:
    """Number of each row among the distinct rows, and these as starts and a column.

    Rows are numbered by first appearance.
    """
    raw, bounds = column.tobytes(), (start * column.itemsize).tolist()
    listed = [raw[begin:end] for begin, end in pairwise(bounds)]
    rows = dict.fromkeys(listed)
    if len(rows) == len(listed):
        return np.arange(len(listed), dtype=np.int32), start, column
    number_of = dict(zip(rows, range(len(rows)), strict=True))
    number = np.array([*map(number_of.__getitem__, listed)], dtype=np.int32)
    flat = np.frombuffer(b"".join(rows), dtype=np.int32)
    return number, starts([len(row) // column.itemsize for row in rows]), flat.copy()


def reader_sets(
    topics: int, subscription: Ints, start: Longs, subscribed: Ints
) -> tuple[Ints, Longs, Ints]:
    """Reader set of each topic (T), and the reader sets as starts (S+1) and members.

    Reader sets are numbered by their first topic.
    """
    number = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    by_topic = number[radix(subscribed, topics)]
    topic_start = starts(np.bincount(subscribed, minlength=topics))
    reader_set, start, subscribing = _distinct_rows(topic_start, by_topic)
    if len(number) and int(subscription.max(initial=0)) == len(subscription) - 1:
        # No two members share a subscription: members and subscriptions have the same numbers.
        return reader_set, start, subscribing
    readers = []
    reads = np.zeros(int(subscription.max(initial=-1)) + 1, dtype=np.bool_)  # by subscription
    for begin, end in pairwise(start.tolist()):
        reads[subscribing[begin:end]] = True
        readers.append(np.flatnonzero(reads[subscription]).astype(np.int32))
        reads[subscribing[begin:end]] = False
    flat = np.concatenate(readers) if readers else np.zeros(0, dtype=np.int32)
    return reader_set, starts([len(row) for row in readers]), flat


def claims(
    topics: Mapping[str, int], topic_start: Longs, members: Sequence[Member]
) -> tuple[Ints, Ints]:
    """Claims of the members, as pairs of member (C) and dense partition (C)."""
    owned = [member.owned or {} for member in members]
    if not any(owned):
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    lists = [*chain.from_iterable(by_topic.values() for by_topic in owned)]
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


def _codes(topics: Mapping[str, int], names: Iterable[Iterable[str]]) -> Longs:
    return np.array([*map(topics.get, chain.from_iterable(names), repeat(UNKNOWN))], dtype=np.int64)


def _numbers(claimed: list[Any], members: Sequence[Member]) -> Longs:
    """Claimed partition numbers; UNKNOWN for a number that no topic can have."""
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


def _subscribed(member: Member, topics: Mapping[str, int]) -> Collection[str]:
    if isinstance(member.topics, str):
        if member.topics == "*":
            return topics
        raise ProblemError(
            f'member {member.id!r}: topics must be a list of names or "*", not {member.topics!r}'
        )
    return tuple(member.topics)


def _check_names(member: Member, topics: Iterable[str]) -> None:
    if not all(isinstance(name, str) for name in topics):
        raise ProblemError(f"member {member.id!r}: topics must be a list of names")

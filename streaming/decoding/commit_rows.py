"""Offset commits of a batch in the order of their topics' buckets, as they are packed."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from levelwind.streaming.messages.buckets import topic_key
from levelwind.streaming.messages.topic_columns import BucketCommits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.streaming.decoding import offsets_topic
    from levelwind.streaming.rules.event_time import Int64


class TopicOrder(NamedTuple):
    """Topics in an order in which those of a bucket lie together."""

    topics: list[str]
    rank: Int64
    """Of each topic as it came, its position in `topics`."""


def by_bucket(topics: Sequence[str], buckets: int) -> TopicOrder:
    """Topics in the order of their buckets."""
    state_keys = [topic_key(topic, buckets) for topic in topics]
    order = sorted(range(len(topics)), key=state_keys.__getitem__)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return TopicOrder([topics[number] for number in order], rank)


class PackableCommits(NamedTuple):
    """The commits of a batch, and what they are packed with."""

    commits: offsets_topic.DecodedCommits
    topics: list[str]
    topic: Int64
    """By commit, an index of `topics`."""
    at: Int64
    """The time of each commit."""
    source: Int64
    """The partition of the offsets topic that holds each commit's record."""
    position: Int64
    """The offset of that record."""

    def packable(self, kept: Int64) -> BucketCommits:
        """Some of the commits, ascending by topic."""
        commits, topic = self.commits, self.topic[kept]
        groups = distinct_by_topic(topic, commits.group[kept])
        ids = distinct_by_topic(topic, commits.topic_id[kept])
        topic_ids = [
            base64.urlsafe_b64encode(name).decode().rstrip("=") for name in commits.topic_ids
        ]
        first = _firsts(topic)
        return BucketCommits(
            topics=tuple([self.topics[number] for number in topic[first].tolist()]),
            commits=np.append(first[1:], topic.size) - first,
            groups=tuple([commits.groups[number] for number in groups.distinct]),
            group_count=groups.counts,
            topic_ids=tuple([topic_ids[number] for number in ids.distinct]),
            topic_id_count=ids.counts,
            group=groups.number,
            topic_id=ids.number,
            partition=commits.partition[kept],
            offset=commits.offset[kept],
            at=self.at[kept],
            source=self.source[kept],
            position=self.position[kept],
        )


class DistinctByTopic(NamedTuple):
    """Numbers of rows, as indices of those that the rows of the same topic have."""

    number: Int64
    """By row; -1: it has none."""
    distinct: list[int]
    """The numbers that the rows of the first topic have, ascending, then those of the next."""
    counts: Int64
    """By topic, how many these are."""


def distinct_by_topic(topic: Int64, number: Int64) -> DistinctByTopic:
    """The distinct numbers of each topic; -1 is none, and topics ascend."""
    width = int(number.max(initial=0)) + 2
    pairs, index = np.unique(topic * width + number + 1, return_inverse=True)
    of_pair, numbers = np.divmod(pairs, width)
    first = np.searchsorted(of_pair, topic)
    known = numbers > 0
    topics = topic[_firsts(topic)]
    bounds = [np.searchsorted(of_pair[known], topics, side) for side in _SIDES]
    return DistinctByTopic(
        number=index - first - ~known[first],
        distinct=(numbers[known] - 1).tolist(),
        counts=bounds[1] - bounds[0],
    )


def _firsts(topic: Int64) -> Int64:
    """The first row of each topic; topics ascend."""
    first = np.ones(topic.size, np.bool_)
    first[1:] = topic[1:] != topic[:-1]
    return np.flatnonzero(first)


_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def last_in_bucket(*, topic: Int64, key: Int64, bucket: Int64) -> Int64:
    """Rows of the commits that are the last of their key and bucket, by topic, key and bucket.

    The input is in log order.
    """
    order = np.lexsort((bucket, key, topic))  # stable: log order within
    last = np.ones(order.size, np.bool_)
    same_key = key[order][1:] == key[order][:-1]
    last[:-1] = ~(same_key & (bucket[order][1:] == bucket[order][:-1]))
    return order[last]

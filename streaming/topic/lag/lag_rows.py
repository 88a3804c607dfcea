"""Rows for the groups: their lag at samples, and as it is published after a batch.

What the topics of a batch ask for is computed together, and leaves as one row for each bucket of
groups: with 2,500 topics of four groups each, packing and unpacking a row for each topic took half
of a batch's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from levelwind.streaming.messages import lag_json
from levelwind.streaming.messages.buckets import GROUP_KEY_PREFIX, bucket_keys, group_buckets
from levelwind.streaming.messages.lag_columns import LagRows, LagSamples, scaled_rate
from levelwind.streaming.messages.own_fields import joined, own_columns
from levelwind.streaming.messages.rows import Kind, Row
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic.lag.commit_cells import CommitCells, LagRequest
from levelwind.streaming.topic.lag.commit_steps import SampleRequest, commit_steps, waiting
from levelwind.streaming.topic.lag.shared_fields import shared_fields
from levelwind.streaming.topic.lag.topic_lags import ArrivalRates, Lags
from levelwind.streaming.topic.state import TopicState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from levelwind.streaming.messages.own_fields import OwnColumns, Texts
    from levelwind.streaming.rules.event_time import Floats, Int64
    from levelwind.streaming.topic.lag.commit_cells import RequestRows
    from levelwind.streaming.topic.state import LagRule


_Request = TypeVar("_Request")


class PublishedRequest(Struct, frozen=True, kw_only=True, eq=False):
    """The lag of a topic's groups that is asked for to be published."""

    lag: LagRequest
    """The groups, and the topic's state with all commits that were read."""
    sampled: TopicState
    """The state that counts the commits of the last sample alone: velocities are as of then."""


class TopicRequests(Struct, frozen=True, kw_only=True, eq=False):
    """What a topic asks for in a batch."""

    samples: tuple[SampleRequest, ...] = ()
    """The oldest first."""
    published: PublishedRequest | None = None

    @property
    def cells(self) -> int:
        """The number of cells of the matrices that have to be computed."""
        asked = [sample.lag for sample in self.samples]
        if self.published is not None and self.published.lag not in asked:
            asked.append(self.published.lag)
        return sum([len(lag.numbers) * lag.state.stable.size for lag in asked])


def rows_for_groups(topics: Sequence[TopicRequests], rule: LagRule, buckets: int) -> Iterator[Row]:
    """The rows for the groups of some topics.

    Args:
        topics: what each topic asks for.
        rule: the settings of lag.
        buckets: the number of buckets that the groups are in.
    """
    rates = ArrivalRates()
    computed: dict[Any, tuple[Lags, list[BucketRows]]] = {}
    most = max((len(topic.samples) for topic in topics), default=0)
    # Last samples go together, since their lag is often what is published.
    for last in range(most, 0, -1):
        samples = [topic.samples[-last] for topic in topics if len(topic.samples) >= last]
        for size, of_size in _by_size(samples, lambda sample: sample.lag):
            lags = Lags.of([sample.lag for sample in of_size], rule, rates)
            split = rows_by_bucket(lags.rows, buckets)
            yield from _lag_samples(lags, of_size, rule, split)
            computed[size] = lags, split
    published = [topic.published for topic in topics if topic.published is not None]
    for size, of_size_published in _by_size(published, lambda request: request.lag):
        asked = [request.lag for request in of_size_published]
        known = computed.get(size)
        if known is None or known[0].rows.requests != asked:
            lags = Lags.of(asked, rule, rates)
            known = lags, rows_by_bucket(lags.rows, buckets)
        yield from _lag_rows(known[0], of_size_published, rule, known[1])


def _by_size(
    requests: Iterable[_Request], lag_of: Callable[[_Request], LagRequest]
) -> Iterable[tuple[Any, list[_Request]]]:
    """Requests of topics with as many partitions; one of a topic with gaps alone."""
    by_size: dict[Any, list[_Request]] = {}
    for request in requests:
        lag = lag_of(request)
        gaps = id(lag) if any(lag.state.gaps) else None
        by_size.setdefault((lag.state.stable.size, gaps), []).append(request)
    return by_size.items()


def _lag_samples(
    lags: Lags, samples: Sequence[SampleRequest], rule: LagRule, split: Iterable[BucketRows]
) -> Iterator[Row]:
    """The groups' lag at samples: the input of the skew rule."""
    waits, steps = waiting(lags), commit_steps(lags, samples)
    step_of_row = np.full(lags.rows.request.size, UNKNOWN, np.int64)
    step_of_row[steps.row] = np.arange(steps.row.size)
    rates = scaled_rate(lags.rate)
    committed_at = lags.committed_at.max(axis=1, initial=UNKNOWN)
    states = [sample.lag.state for sample in samples]
    at = np.array([state.at for state in states], np.int64)
    known = [state.sample_position or ("", UNKNOWN) for state in states]
    for of_bucket in split:
        rows, requests = of_bucket.rows, of_bucket.requests
        stepped = np.flatnonzero(step_of_row[rows] >= 0)
        step = step_of_row[rows][stepped]
        sources, commit_log = _distinct(lags.newest_source[rows].tolist(), UNKNOWN)
        logs, sample_log = _distinct([known[request][0] for request in requests], "")
        payload = LagSamples(
            topics=tuple([samples[request].lag.topic for request in requests]),
            at=at[requests],
            rate=rates[requests],
            sample_logs=tuple(logs),
            sample_log=sample_log,
            sample_position=np.array([known[request][1] for request in requests], np.int64),
            groups=of_bucket.groups,
            topic=of_bucket.topic,
            group=of_bucket.group,
            lag=waits.records[rows],
            stepped=stepped,
            advance=steps.advance[step],
            behind_at=steps.behind_at[step],
            seconds=waits.seconds[rows],
            committed_at=committed_at[rows],
            commit_logs=tuple([f"{rule.commits_topic}/{source}" for source in sources]),
            commit_log=commit_log,
            commit_position=lags.newest_position[rows],
        )
        yield Row(of_bucket.state_key, "", Kind.LAG_SAMPLES, payload.pack())


def _lag_rows(
    lags: Lags,
    published: Sequence[PublishedRequest],
    rule: LagRule,
    split: Iterable[BucketRows],
) -> Iterator[Row]:
    """The groups' lag as it is published."""
    sampled = [request.sampled for request in published]
    same = all(request.sampled.commits is request.lag.state.commits for request in published)
    tables = [state.commits for state in sampled]
    velocity = lags.velocity(lags.cells if same else CommitCells.of(lags.rows, tables), sampled)
    own = _own_columns(lags, velocity, rule)
    committed_at = lags.committed_at.max(axis=1, initial=UNKNOWN)
    states = [request.lag.state for request in published]
    shared = shared_fields(states, [state.racks for state in sampled], lags.rate, rule)
    at = np.array([state.at for state in states], np.int64)
    for of_bucket in split:
        rows, requests = of_bucket.rows, of_bucket.requests
        payload = LagRows(
            topics=tuple([published[request].lag.topic for request in requests]),
            at=at[requests],
            partitions=lags.rows.partitions,
            shared=tuple([shared[request] for request in requests]),
            groups=of_bucket.groups,
            topic=of_bucket.topic,
            group=of_bucket.group,
            committed_at=committed_at[rows],
            own=own.take(rows),
        )
        yield Row(of_bucket.state_key, "", Kind.LAGS, payload.pack())


class BucketRows(NamedTuple):
    """The rows of some requests whose groups are in one bucket."""

    state_key: str
    rows: Int64
    requests: list[int]
    """The requests with any of these rows."""
    topic: Int64
    """The request of each row, an index of `requests`."""
    groups: tuple[str, ...]
    group: Int64
    """The group of each row, an index of `groups`."""


def rows_by_bucket(of_requests: RequestRows, buckets: int) -> list[BucketRows]:
    """The rows of some requests, split by the buckets of their groups."""
    numbers: dict[str, int] = {}
    groups, of_buckets = [], []
    for request in of_requests.requests:
        of_buckets.append(_buckets_of(request, buckets))
        groups += [numbers.setdefault(name, len(numbers)) for name in request.groups]
    bucket_of_row, group_of_row = np.concatenate(of_buckets), np.array(groups)
    names = tuple(numbers)
    split = []
    for bucket, state_key in enumerate(bucket_keys(GROUP_KEY_PREFIX, buckets)):
        rows = np.flatnonzero(bucket_of_row == bucket)
        if rows.size:
            asked, topic = np.unique(of_requests.request[rows], return_inverse=True)
            present, group = np.unique(group_of_row[rows], return_inverse=True)
            of_bucket = tuple(map(names.__getitem__, present.tolist()))
            split.append(BucketRows(state_key, rows, asked.tolist(), topic, of_bucket, group))
    return split


def _buckets_of(request: LagRequest, buckets: int) -> Int64:
    """The bucket of each group of a request."""
    names = request.state.commits.groups
    of_all = group_buckets(names, buckets)
    # Ascending numbers: as many as there are groups are all of them.
    return of_all if len(request.numbers) == len(names) else of_all[request.numbers]


_Name = TypeVar("_Name", bound=Any)


def _distinct(names: list[_Name], none: _Name) -> tuple[list[_Name], Int64]:
    """The names among some, and the index of each in these; -1: it is none."""
    indices = {name: index for index, name in enumerate(sorted({*names} - {none}))}
    return list(indices), np.array([indices.get(name, UNKNOWN) for name in names], np.int64)


def _own_columns(lags: Lags, velocity: Floats, rule: LagRule) -> OwnColumns:
    """The fields of a lag record that differ between groups, for each row."""
    return own_columns(
        committed=lags.committed,
        committed_at=lags.committed_at,
        lag=lags.lag.lag,
        lag_upper_bound=lags.lag.upper_bound,
        lost=lags.lag.lost,
        reset=lags.lag.out_of_range,
        seconds=lags.seconds,
        seconds_lower_bound=lags.lower_bound,
        source=_sources(lags, rule.commits_topic),
        stale=lags.lag.stale,
        velocity=velocity,
        uncommitted=lags.committed == UNKNOWN,
    )


def _sources(lags: Lags, commits_topic: str) -> Texts:
    """For each row, the positions of the group's newest commit and of the sample, as JSON."""
    log = lag_json.text(f"{commits_topic}/")[:-1]
    samples = [request.state.sample_position for request in lags.rows.requests]
    positions = [(sample and f"{lag_json.text(sample[0])}:{sample[1]}") or "" for sample in samples]
    # Fields are in the order of their names.
    first = [sample is not None and sample[0] < f"{commits_topic}/" for sample in samples]
    pairs = list(zip(positions, first, strict=True))
    before = [f"{position}," if is_first else "" for position, is_first in pairs]
    after = ["" if is_first or not position else f",{position}" for position, is_first in pairs]
    texts = joined(
        "{",
        _by_row(lags, before),
        log,
        lag_json.numbers(lags.newest_source),
        '":',
        lag_json.numbers(lags.newest_position),
        _by_row(lags, after),
        "}",
    )
    known = lags.newest_source != UNKNOWN
    if known.all():
        return texts
    return pc.if_else(pa.array(known), texts, joined("{", _by_row(lags, positions), "}"))


def _by_row(lags: Lags, texts: Sequence[str]) -> Texts:
    """A text of each request, for its rows."""
    if len(set(texts)) == 1:
        return texts[0]
    return pa.array(texts, pa.string()).take(pa.array(lags.rows.request))

"""Lag under the names that the dashboards of kafka-lag-exporter know.

One series a group and topic: sums of lag and offsets, and the longest wait. Where partitions are
shown there is one a partition instead, with the label `partition`, so that dashboards that sum by
group and topic show the same either way. What is not known has no series, and no part in a sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from levelwind.assignors.protocol.records import LagRecord
    from levelwind.daemon.gauges.group_figures import TopicFigures

_Figure = TypeVar("_Figure", int, float)

GROUP = ("cluster_name", "group")
PARTITION = ("partition", "consumer_id")


class ExporterFamilies:
    """The families of one scrape: groups are added, then the families are yielded."""

    def __init__(self, cluster: str, *, partitions: bool) -> None:
        """Begin without any group.

        Args:
            cluster: the label `cluster_name`.
            partitions: whether there is one series a partition.
        """
        self._cluster = cluster
        self._partitions = partitions
        self._ends: dict[str, TopicFigures] = {}
        topic = (*GROUP, "topic", *(PARTITION if partitions else ()))
        group = "consumergroup_group"
        self._lag = _gauge(f"{group}_lag", "Records behind.", topic)
        self._seconds = _gauge(
            f"{group}_lag_seconds", "Seconds for which the next record has been waiting.", topic
        )
        self._offset = _gauge(f"{group}_offset", "Committed offset.", topic)
        self._topic_sum = _gauge(
            f"{group}_topic_sum_lag", "Records behind, over a topic.", (*GROUP, "topic")
        )
        self._sum = _gauge(f"{group}_sum_lag", "Records behind, over all topics.", GROUP)
        self._max = _gauge(
            f"{group}_max_lag", "Records behind in the partition that is furthest behind.", GROUP
        )
        self._max_seconds = _gauge(
            f"{group}_max_lag_seconds", "Longest wait of a next record, in seconds.", GROUP
        )
        self._end = _gauge(
            "partition_latest_offset",
            "End of the log.",
            ("cluster_name", "topic", *(("partition",) if partitions else ())),
        )

    def add(self, group: str, topics: Sequence[TopicFigures]) -> None:
        """Add the lag of a group, if it has any sample."""
        if not topics:
            return
        labels = [self._cluster, group]
        lags = _known(figures.lag for figures in topics)
        _add(self._sum, labels, sum(lags) if lags else None)
        largest = _known(figures.largest_lag for figures in topics)
        _add(self._max, labels, max(largest, default=None))
        waits = _known(figures.seconds for figures in topics)
        _add(self._max_seconds, labels, max(waits, default=None))
        for figures in topics:
            topic = [*labels, figures.topic]
            _add(self._topic_sum, topic, figures.lag)
            if figures.record is not None and self._partitions:
                self._add_partitions(topic, figures.record)
            else:
                _add(self._lag, topic, figures.lag)
                _add(self._offset, topic, figures.committed)
                _add(self._seconds, topic, figures.seconds)
            known = self._ends.get(figures.topic)
            if known is None or known.at < figures.at:
                self._ends[figures.topic] = figures

    def _add_partitions(self, topic: list[str], record: LagRecord) -> None:
        waits = record.known_seconds
        for number, lag in enumerate(record.known_lag):
            owner = record.owner[number] if record.owner is not None else -1
            labels = [*topic, str(number), record.members[owner] if owner >= 0 else ""]
            committed = record.committed[number]
            _add(self._lag, labels, lag)
            _add(self._offset, labels, committed if committed >= 0 else None)
            _add(self._seconds, labels, None if waits is None else waits[number])

    def families(self) -> Iterator[Metric]:
        """Yield all families."""
        for topic, figures in sorted(self._ends.items()):
            for labels, end in self._ends_of(topic, figures):
                _add(self._end, [self._cluster, *labels], end)
        yield from (self._lag, self._seconds, self._offset, self._topic_sum)
        yield from (self._sum, self._max, self._max_seconds, self._end)

    def _ends_of(self, topic: str, figures: TopicFigures) -> Iterable[tuple[list[str], int | None]]:
        if figures.record is None or not self._partitions:
            return [([topic], figures.end)]
        ends = enumerate(figures.record.known_end)
        return [([topic, str(number)], end) for number, end in ends]


def _known(figures: Iterable[_Figure | None]) -> list[_Figure]:
    return [figure for figure in figures if figure is not None]


def _add(family: GaugeMetricFamily, labels: Sequence[str], figure: float | None) -> None:
    """Add a series, if its figure is known."""
    if figure is not None:
        family.add_metric(labels, figure)


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kafka_{name}", text, labels=labels)

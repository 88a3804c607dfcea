"""The topics of a problem in columns: laid out once for all plans over the same topics.

Law: topics and racks are dense integers in Kafka's order of their names, and what differs only in the order of its input is
the same. Members come and go by the minute, topics hardly ever: whoever plans again and again keeps this, as Kafka keeps its
`Cluster`, and gives it to `Group.build` in place of the topics.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assignors.problem import validation as intake
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
    frozen,
    in_java_order,
    starts,
)
from assignors.problem.inputs import Topic


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicIndex:
    """Topics in columns: T topics, P partitions, R racks, K rack sets; each column as in `Group`."""

    place: Mapping[str, int]  # by name, ascending: the number of a topic
    topic_start: Longs  # T+1
    partition_topic: Ints  # P
    lag: Longs  # P
    rate: Floats  # P
    traffic: Floats  # P
    racks: tuple[str, ...]  # of replicas, ascending
    rack_set: Ints  # P
    rack_local: Bools  # K x R+1

    @classmethod
    def of(cls, topics: Mapping[str, Topic]) -> "TopicIndex":
        """Lay out the columns.

        Raises:
            ProblemError: the message names the topic, the field, and what is expected there.
        """
        names = in_java_order(intake.topic_names(topics))
        ordered = [topics[name] for name in names]
        counts = intake.partition_counts(names, ordered)
        topic_start = starts(counts)
        racks, rack_set, rack_local = intake.replica_racks(names, ordered)
        topic_index = cls(
            place=dict(zip(names, range(len(names)), strict=True)),
            topic_start=topic_start,
            partition_topic=np.repeat(np.arange(len(names), dtype=np.int32), counts),
            lag=intake.lags(names, ordered, topic_start),
            rate=intake.rates(names, ordered, topic_start),
            traffic=intake.traffic(names, ordered, topic_start),
            racks=racks,
            rack_set=rack_set,
            rack_local=rack_local,
        )
        return frozen(topic_index)

"""Topic index: the topics of a problem in columns, laid out once for all plans over them.

Guarantees: topics and racks are dense integers in Kafka's order of their names; inputs that differ
only in their order give the same index. Members come and go by the minute, topics rarely: a caller
that plans repeatedly keeps the index, as Kafka keeps its `Cluster`, and passes it to `Group.build`
in place of the topics.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem import validation
from levelwind.assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
    frozen,
    in_java_order,
    starts,
)
from levelwind.assignors.problem.inputs import Topic


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicIndex:
    """Columns of T topics, P partitions, R racks and K rack sets, each as in `Group`."""

    number: Mapping[str, int]
    """Index of each topic by name; the names are in ascending order."""
    topic_start: Longs
    """T+1."""
    partition_topic: Ints
    """P."""
    lag: Longs
    """P."""
    rate: Floats
    """P."""
    traffic: Floats
    """P."""
    racks: tuple[str, ...]
    """Racks of replicas, ascending."""
    rack_set: Ints
    """P."""
    rack_local: Bools
    """K x R+1."""

    @classmethod
    def of(cls, topics: Mapping[str, Topic]) -> "TopicIndex":
        """Lay out the columns.

        Raises:
            ProblemError: the message names the topic, the field, and what is expected.
        """
        names = in_java_order(validation.topic_names(topics))
        ordered = [topics[name] for name in names]
        counts = validation.partition_counts(names, ordered)
        topic_start = starts(counts)
        racks, rack_set, rack_local = validation.replica_racks(names, ordered)
        topic_index = cls(
            number=dict(zip(names, range(len(names)), strict=True)),
            topic_start=topic_start,
            partition_topic=np.repeat(np.arange(len(names), dtype=np.int32), counts),
            lag=validation.lags(names, ordered, topic_start),
            rate=validation.rates(names, ordered, topic_start),
            traffic=validation.traffic(names, ordered, topic_start),
            racks=racks,
            rack_set=rack_set,
            rack_local=rack_local,
        )
        return frozen(topic_index)

"""`topic-roundrobin`: whole topics to one member after another.

Source: KIP-874, with its example of several containers.
"""

from collections import defaultdict

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Ints
from levelwind.assignors.problem.group import Group


def topic_roundrobin_strategy(group: Group) -> Assignment:
    """Keep topics together, so that a member's failure stops whole topics only.

    Guarantees: a topic goes to the next member that reads it. Where members name the container they
    run in, a topic's partitions go round the containers, beginning with the first, and within a
    container all go to its next member that reads the topic. Members without a container share one.
    Ties: topics by name; containers by name, the unnamed one last; members as in `roundrobin`.
    Cost: O(P + T x containers x log M).
    """
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    ranks_by_container = _ranks_by_container(group)
    cursors: dict[int, int] = defaultdict(int)  # by container: the next rank
    bounds = group.topic_start.tolist()
    for topic, reader_set in enumerate(group.reader_set.tolist()):
        size = bounds[topic + 1] - bounds[topic]
        takers = []
        for container, ranks in ranks_by_container[reader_set][:size]:
            rank = ranks[int(np.searchsorted(ranks, cursors[container])) % len(ranks)]
            cursors[container] = int(rank) + 1
            takers.append(group.members_in_kafka_order[rank])
        if takers:
            owner[bounds[topic] : bounds[topic + 1]] = np.array(takers)[
                np.arange(size) % len(takers)
            ]
    return Assignment(owner)


def _ranks_by_container(group: Group) -> list[list[tuple[int, Ints]]]:
    """Containers of each reader set, with their readers' ranks in Kafka's order."""
    rank_of = np.empty_like(group.members_in_kafka_order)
    rank_of[group.members_in_kafka_order] = np.arange(
        len(group.members_in_kafka_order), dtype=np.int32
    )
    nameless = len(group.containers)
    of_member = np.where(group.container < 0, nameless, group.container)
    ranks_by_container = []
    for start, end in zip(group.reader_start[:-1], group.reader_start[1:], strict=True):
        ranks = np.sort(rank_of[group.reader[start:end]])
        containers = of_member[group.members_in_kafka_order[ranks]]
        ranks_by_container.append([(int(c), ranks[containers == c]) for c in np.unique(containers)])
    return ranks_by_container

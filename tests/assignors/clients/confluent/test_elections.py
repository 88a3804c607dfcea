"""Elections of partition leaders under live consumers, on real brokers."""

from __future__ import annotations

import pytest

from levelwind_testing.kafka.managed_consumers import poll_until, produce, spread
from levelwind_testing.kafka.reassignment import lead_again

pytestmark = pytest.mark.integration


def test_a_consumer_keeps_its_lease_when_the_planners_partition_has_a_newer_leader(
    cluster, topic, plan, make_consumer
):
    planner = plan(spread(topic))
    lost = []
    consumer = make_consumer(
        planner, "i0", on_lost=lambda _, partitions: lost.append(len(partitions))
    )
    produce(cluster, topic, [(0, "before")])
    poll_until(consumer, len)
    life = consumer.incarnation
    lead_again(cluster.bootstrap, planner.topics.assignments, planner.partition)
    asked_at = consumer._follower.lease.read_at
    poll_until(consumer, lambda _: consumer._follower.lease.read_at > asked_at + 2)
    produce(cluster, topic, [(0, "after")])
    assert poll_until(consumer, len) == ["after"]
    # The elections may take longer than a lease of five seconds; a lost life finds its successor.
    assert consumer.incarnation == life or lost == [6]

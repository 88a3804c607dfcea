"""Records that are too large for one message."""

from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    GroupRecord,
    PlannedMember,
    PlannedRacks,
    PlannedTopic,
)
from levelwind_testing.records import TOPIC_ID, assignment

RACK_SETS = [("a", "b", "c"), ("b", "c", "d"), ("a", "c", "d")]


def plan(members=2, topics=1, partitions=4):
    """A plan of this many members, whose names are as long as those of pods."""
    subscription = tuple(f"orders.{number}" for number in range(topics))
    return GroupRecord(
        group="g",
        mode="managed",
        planner_epoch=3,
        group_epoch=7,
        plan_id="7-abc",
        strategy="optimal",
        cause="membership",
        lag_at=1,
        metadata_at=2,
        topics={
            topic: PlannedTopic(
                id=TOPIC_ID,
                partitions=partitions,
                racks=PlannedRacks(
                    at=2, racks=tuple(RACK_SETS[number % 3] for number in range(partitions))
                ),
            )
            for topic in subscription
        },
        members=tuple(
            PlannedMember(
                instance=f"orders-consumer-7f9c5d6b4d-{number:06}",
                incarnation=f"{number:032x}",
                rack="eu-west-1a",
                capacity=1.0,
                topics=subscription,
            )
            for number in range(members)
        ),
        before=None,
        after=None,
        computed_at=5,
        digest="",
    )


def fragmented(topic, count, first=0):
    """Every other partition of a topic: nothing to join into ranges."""
    return {topic: tuple(range(first, first + 2 * count, 2))}


LARGE = {
    "10,000 members": plan(members=10_000),
    "300,000 partitions of one topic": plan(partitions=300_000),
    "200,000 partitions of 2,000 topics": plan(topics=2_000, partitions=100),
    "both": plan(members=10_000, topics=20, partitions=10_000),
    "a member with 100,000 partitions": assignment("m0", fragmented("t", 100_000)),
    "a member that gives them up": replace(
        assignment("m0", fragmented("t", 90_000)),
        pending=fragmented("u", 50_000),
        revoking={**fragmented("t", 70_000, first=200_001), **fragmented("v", 3)},
    ),
}
"""Plans and assignments, by what they hold."""

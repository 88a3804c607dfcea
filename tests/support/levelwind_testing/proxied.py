"""Layouts and plans for tests of the leader proxy."""

from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.protocol.records import TopicRecord


def layout(name: str, partitions: int) -> TopicRecord:
    """A topic whose partitions are all on broker 1, in rack a."""
    return TopicRecord(
        topic=name,
        at=1,
        id=name.ljust(22, "A"),
        leader=(1,) * partitions,
        replicas=((1,),) * partitions,
        isr=((1,),) * partitions,
        racks=(("a",),) * partitions,
    )


LAYOUTS = {"t": layout("t", 6), "u": layout("u", 3), "elsewhere": layout("elsewhere", 2)}


def plan(epoch: int = 1, **shares: list[int]) -> PublishedPlan:
    """A plan of topic t, by member."""
    return PublishedPlan(
        epoch=PlanEpoch(1, epoch),
        assignments={name: {"t": tuple(numbers)} for name, numbers in shares.items()},
    )

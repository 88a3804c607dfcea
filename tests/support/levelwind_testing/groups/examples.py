"""Examples of the KIPs, issues and articles that several strategies are tested with."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic

KIP_49_TOPICS = {
    name: Topic(partitions=partitions)
    for name, partitions in {"T1": 2, "T2": 1, "T3": 2, "T4": 1, "T5": 2}.items()
}
KIP_49_MEMBERS = [
    Member(id="C1", topics="*"),
    Member(id="C2", topics=["T1", "T3", "T5"]),
    Member(id="C3", topics=["T1", "T3", "T5"]),
    Member(id="C4", topics="*"),
]
"""Two members of all five topics, and two that read only the topics with odd numbers."""

KIP_874_TOPICS = {"t0": Topic(partitions=3), "t1": Topic(partitions=3)}

KAFKA_5337_TOPICS = {"t0": Topic(partitions=3, lags=[100_000, 60_000, 50_000])}
TWO_MEMBERS = [Member(id="C0", topics="*"), Member(id="C1", topics="*")]
"""The members of KAFKA-5337 and of KIP-874."""

BLOG_TOPICS = {"A": Topic(partitions=2), "B": Topic(partitions=2)}
BLOG_MEMBERS = [Member(id=f"C{number}", topics="*") for number in (1, 2, 3)]
"""The group of "Understanding Kafka partition assignment strategies"."""


def planned_names(
    strategy: Callable[..., Assignment],
    topics: Mapping[str, Topic],
    members: Iterable[Member],
    **options: Any,
) -> dict[str, dict[str, list[int]]]:
    """The partitions that a strategy gives each member, by topic."""
    group = Group.build(topics, members)
    return strategy(group, **options).to_names(group)

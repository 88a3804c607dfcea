import numpy as np
from hypothesis import given

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.strategies.fair import fair_strategy
from levelwind_testing.groups.examples import KIP_49_MEMBERS, KIP_49_TOPICS
from levelwind_testing.groups.random_groups import problems


def test_kip_49s_example():
    group = Group.build(KIP_49_TOPICS, KIP_49_MEMBERS)
    assert fair_strategy(group).to_names(group) == {
        "C1": {"T2": [0], "T3": [0]},
        "C2": {"T1": [0], "T3": [1]},
        "C3": {"T1": [1], "T5": [0]},
        "C4": {"T4": [0], "T5": [1]},
    }
    assert score(group, fair_strategy(group)).spread == 0


def test_of_equally_read_topics_the_larger_goes_first():
    topics = {"a": Topic(partitions=1), "b": Topic(partitions=2)}
    group = Group.build(topics, [Member(id="x", topics="*"), Member(id="y", topics="*")])
    assert fair_strategy(group).to_names(group) == {"x": {"a": [0], "b": [0]}, "y": {"b": [1]}}


@given(problem=problems())
def test_the_plan_follows_the_rule_step_by_step(problem):
    group = problem.group
    owner = np.full(group.partition_count, -1, dtype=np.int32)
    count = [0] * len(group.members)

    def key(topic):
        return (
            len(group.readers(topic)),
            group.topic_start[topic] - group.topic_start[topic + 1],
            group.topics[topic],
        )

    for topic in sorted(range(len(group.topics)), key=key):
        readers = group.readers(topic).tolist()
        for partition in (
            range(group.topic_start[topic], group.topic_start[topic + 1]) if readers else ()
        ):
            best = min(readers, key=lambda member: (count[member], member))
            owner[partition] = best
            count[best] += 1
    assert fair_strategy(group).owner.tolist() == owner.tolist()

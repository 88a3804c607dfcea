from functools import partial

import numpy as np
import pytest
from hypothesis import given

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.strategies import lag as module
from levelwind.assignors.strategies.lag import lag_strategy
from levelwind_testing.groups.examples import KAFKA_5337_TOPICS, TWO_MEMBERS, planned_names
from levelwind_testing.groups.random_groups import ProblemShape, problems

planned = partial(planned_names, lag_strategy)


def test_kafka_5337s_example():
    group = Group.build(KAFKA_5337_TOPICS, TWO_MEMBERS)
    owner = lag_strategy(group).owner
    assert lag_strategy(group).to_names(group) == {"C0": {"t0": [0]}, "C1": {"t0": [1, 2]}}
    assert np.bincount(owner, weights=group.lag).tolist() == [100_000, 110_000]


def test_the_count_goes_before_the_lag():
    topics = {"t": Topic(partitions=4, lags=[1000, 1, 1, 1])}
    assert planned(topics, [Member(id="a", topics="*"), Member(id="b", topics="*")]) == {
        "a": {"t": [0, 3]},
        "b": {"t": [1, 2]},
    }


def test_equal_lags_go_by_partition_number_and_equal_members_by_id():
    topics = {"t": Topic(partitions=3, lags=[7, 7, 7])}
    members = [Member(id=name, topics="*") for name in "cab"]
    assert planned(topics, members) == {"a": {"t": [0]}, "b": {"t": [1]}, "c": {"t": [2]}}


def test_static_members_have_no_precedence():
    topics = {"t": Topic(partitions=1, lags=[7])}
    members = [Member(id="a", topics="*"), Member(id="b", topics="*", instance_id="0")]
    assert planned(topics, members) == {"a": {"t": [0]}, "b": {}}


def test_each_topic_is_dealt_by_itself():
    topics = {"t": Topic(partitions=1, lags=[7]), "u": Topic(partitions=1, lags=[9])}
    members = [Member(id="a", topics="*"), Member(id="b", topics="*")]
    assert planned(topics, members) == {"a": {"t": [0], "u": [0]}, "b": {}}


def rule_step_by_step(group):
    """The owners by the rule of the docstring, partition by partition."""
    owner = np.full(group.partition_count, -1, dtype=np.int32)
    for topic in range(len(group.topics)):
        readers = group.readers(topic).tolist()
        partitions = range(group.topic_start[topic], group.topic_start[topic + 1])
        count, total = dict.fromkeys(readers, 0), dict.fromkeys(readers, 0)
        for partition in sorted(partitions, key=lambda p: (-group.lag[p], p)) if readers else ():
            best = min(readers, key=lambda m: (count[m], total[m], m))
            owner[partition] = best
            count[best] += 1
            total[best] += int(group.lag[partition])
    return owner


@pytest.mark.parametrize("few", [0, 64], ids=["in arrays", "in lists"])
@given(problem=problems(ProblemShape(partitions=20, racks=0)))
def test_the_plan_follows_the_rule_step_by_step(few, problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_READERS", few)
        assert (
            lag_strategy(problem.group).owner.tolist() == rule_step_by_step(problem.group).tolist()
        )

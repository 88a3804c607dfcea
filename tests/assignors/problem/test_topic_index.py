import numpy as np
import pytest
from hypothesis import given

from levelwind.assignors.problem import validation
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.problem.topic_index import TopicIndex
from levelwind_testing.groups.random_groups import problems


@pytest.mark.slow
@given(problem=problems())
def test_a_group_of_a_catalogue_is_the_group_of_its_topics(problem):
    kept = Group.build(TopicIndex.of(problem.topics), problem.members)
    for name in Group.__slots__:
        column, expected = getattr(kept, name), getattr(problem.group, name)
        assert (
            np.array_equal(column, expected)
            if isinstance(column, np.ndarray)
            else column == expected
        ), name


def test_racks_of_members_alone_come_between_those_of_replicas():
    topic_index = TopicIndex.of({"t": Topic(partitions=2, replica_racks=[["a", "c"], ["c"]])})
    members = [Member(id="m", topics="*", rack="b"), Member(id="n", topics="*", rack="c")]
    group = Group.build(topic_index, members)
    assert group.racks == ("a", "b", "c")
    assert group.rack_local[group.rack_set].tolist() == [
        [True, False, True, False],
        [False, False, True, False],
    ]
    assert group.local(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])).tolist() == [
        False,
        False,
        True,
        True,
    ]
    assert topic_index.racks == ("a", "c"), "the index serves other members too"


def test_a_catalogue_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        TopicIndex.of({"t": Topic(partitions=1)}).rack_set[0] = 1


def test_more_racks_than_a_table_can_hold_are_refused(monkeypatch):
    monkeypatch.setattr(validation, "MAX_RACK_TABLE_BYTES", 5)
    topics = {"t": Topic(partitions=2, replica_racks=[["a", "b"], ["b"]])}
    Group.build(topics, [])
    with pytest.raises(ProblemError, match="name 3 racks in 2 combinations"):
        Group.build(topics, [Member(id="m", topics="*", rack="c")])
    with pytest.raises(ProblemError, match="name 3 racks in 2 combinations"):
        TopicIndex.of({"t": Topic(partitions=2, replica_racks=[["a", "b"], ["c"]])})

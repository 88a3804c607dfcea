import numpy as np

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.validity import MAX_LISTED, violations

GROUP = Group.build(
    {"t": Topic(partitions=2), "u": Topic(partitions=1), "nobodys": Topic(partitions=1)},
    [Member(id="a", topics=["t"]), Member(id="b", topics=["t", "u"])],
)  # dense partitions: 0 of nobodys, 0 and 1 of t, 0 of u


def column(*owners):
    return np.array(owners, dtype=np.int32)


def test_a_right_assignment_has_none():
    assert violations(GROUP, Assignment(column(-1, 0, 1, 1))) == ()


def test_a_partition_with_readers_needs_an_owner():
    assert violations(GROUP, Assignment(column(-1, 0, -1, 1))) == (
        "partition 1 of 't' has readers but no owner",
    )


def test_only_readers_own():
    assert violations(GROUP, Assignment(column(1, 0, 0, 0))) == (
        "partition 0 of 'u' has owner 'a', who does not read it",
        "partition 0 of 'nobodys' has owner 'b', who does not read it",
    )


def test_what_is_withheld_counts_as_owned_and_follows_the_same_rules():
    assert violations(GROUP, Assignment(column(-1, 0, -1, -1), column(-1, -1, 0, 1))) == ()
    assert violations(GROUP, Assignment(column(-1, 0, 0, -1), column(-1, -1, 1, 0))) == (
        "partition 0 of 'u' has withheld 'a', who does not read it",
        "partition 1 of 't' is owned and withheld at once",
    )


def test_the_shape_is_checked_first():
    assert violations(GROUP, Assignment(column(0, 0))) == ("owner must be int32[4], not int32[2]",)
    assert violations(GROUP, Assignment(np.zeros(4))) == ("owner must be int32[4], not float64[4]",)
    assert violations(GROUP, Assignment(column(-1, 0, 2, 1))) == (
        "owner must hold members below 2 or -1, not -1 .. 2",
    )


def test_thousands_of_a_kind_are_told_shortly():
    group = Group.build({"t": Topic(partitions=1000)}, [Member(id="a", topics="*")])
    listed = violations(group, Assignment(np.full(1000, -1, dtype=np.int32)))
    assert len(listed) == MAX_LISTED + 1
    assert listed[-1] == "and 990 more: each has readers but no owner"

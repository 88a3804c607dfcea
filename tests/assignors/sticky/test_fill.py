import numpy as np
from hypothesis import given

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.locality import rack_remote_at
from levelwind.assignors.sticky import kept_claims
from levelwind.assignors.sticky.fill import deal_rack_local, fill_least_loaded
from levelwind.assignors.sticky.transfer_graph import TransferGraph
from levelwind_testing.groups.random_groups import ProblemShape, problems


@given(problem=problems(ProblemShape(equal=False, lags=False)))
def test_dealing_changes_no_load_of_any_topic(problem):
    group = problem.group
    owner = kept_claims(group).copy()
    held = owner.copy()
    free = fill_least_loaded(group, owner)
    assert ((owner >= 0) == group.has_reader()).all()
    rack_blind = owner.copy()
    deal_rack_local(group, TransferGraph.of(group), owner, free)
    assert np.array_equal(owner[held >= 0], held[held >= 0])
    assert topic_owner_pairs(group, owner) == topic_owner_pairs(group, rack_blind)


def topic_owner_pairs(group, owner):
    return sorted(zip(group.partition_topic.tolist(), owner.tolist(), strict=True))


def test_partitions_with_the_fewest_remaining_racks_are_dealt_first():
    """The slot in rack a must not go to a partition that the slot in rack b could take."""
    topics = {"t": Topic(partitions=2, replica_racks=[["a", "b"], ["a"]])}
    members = [Member(id="x", topics="*", rack="a"), Member(id="y", topics="*", rack="b")]
    group = Group.build(topics, members)
    owner = np.full(2, -1, dtype=np.int32)
    deal_rack_local(group, TransferGraph.of(group), owner, fill_least_loaded(group, owner))
    assert owner.tolist() == [1, 0]
    assert not rack_remote_at(group, owner).any()

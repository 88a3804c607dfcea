from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.strategies.server_range import server_range_strategy


def test_racks_change_nothing():
    topics = {"t": Topic(partitions=4, replica_racks=[["b"], ["b"], ["a"], ["a"]])}
    members = [Member(id="m0", topics="*", rack="a"), Member(id="m1", topics="*", rack="b")]
    group = Group.build(topics, members)
    assert server_range_strategy(group).to_names(group) == {
        "m0": {"t": [0, 1]},
        "m1": {"t": [2, 3]},
    }

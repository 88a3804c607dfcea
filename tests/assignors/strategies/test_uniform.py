from functools import partial

from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.strategies.uniform import uniform_strategy
from levelwind_testing.groups.examples import planned_names

planned = partial(planned_names, uniform_strategy)


def test_members_are_filled_one_after_another():
    topics = {"t": Topic(partitions=3), "u": Topic(partitions=4)}
    assert planned(topics, [Member(id=name, topics="*") for name in "abc"]) == {
        "a": {"t": [0, 1, 2]},
        "b": {"u": [0, 1]},
        "c": {"u": [2, 3]},
    }


def test_claims_stay_and_a_newcomer_is_filled():
    topics = {"t": Topic(partitions=6)}
    members = [
        Member(id="a", topics="*", owned={"t": [1, 3, 5]}, generation=1),
        Member(id="b", topics="*", owned={"t": [0, 2, 4]}, generation=1),
        Member(id="c", topics="*"),
    ]
    assert planned(topics, members) == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}, "c": {"t": [4, 5]}}


def test_partitions_go_to_readers_in_the_rack_of_a_replica():
    topics = {"t": Topic(partitions=4, replica_racks=[["b"], ["a"], ["b"], ["a"]])}
    members = [Member(id=rack, topics="*", rack=rack) for rack in "ab"]
    assert planned(topics, members) == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}}


def test_what_is_beyond_the_quota_goes_near_the_replicas_though_all_are_in_the_same_racks():
    """KIP-881 has no rack-awareness here; a claim in another rack does not stay either."""
    topics = {"t": Topic(partitions=1, replica_racks=[["c"]])}
    members = [Member(id=rack, topics="*", rack=rack) for rack in "abc"]
    assert planned(topics, members) == {"a": {}, "b": {}, "c": {"t": [0]}}
    members[0] = Member(id="a", topics="*", rack="a", owned={"t": [0]}, generation=1)
    assert planned(topics, members) == {"a": {}, "b": {}, "c": {"t": [0]}}

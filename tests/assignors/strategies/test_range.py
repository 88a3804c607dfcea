from functools import partial

from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.strategies.range import range_strategy
from levelwind_testing.groups.examples import (
    BLOG_MEMBERS,
    BLOG_TOPICS,
    KAFKA_5337_TOPICS,
    KIP_49_MEMBERS,
    KIP_49_TOPICS,
    TWO_MEMBERS,
    planned_names,
)

planned = partial(planned_names, range_strategy)


def test_the_blogs_example_uses_at_most_two_of_three_members():
    assert planned(BLOG_TOPICS, BLOG_MEMBERS) == {
        "C1": {"A": [0], "B": [0]},
        "C2": {"A": [1], "B": [1]},
        "C3": {},
    }


def test_kip_49s_range_table():
    assert planned(KIP_49_TOPICS, KIP_49_MEMBERS) == {
        "C1": {"T1": [0], "T2": [0], "T3": [0], "T4": [0], "T5": [0]},
        "C2": {"T1": [1], "T3": [1], "T5": [1]},
        "C3": {},
        "C4": {},
    }


def test_kafka_5337s_range_gives_the_first_member_the_two_most_lagging_partitions():
    assert planned(KAFKA_5337_TOPICS, TWO_MEMBERS) == {
        "C0": {"t0": [0, 1]},
        "C1": {"t0": [2]},
    }


def test_the_first_readers_get_the_remainder():
    assert planned({"t": Topic(partitions=7)}, [Member(id=name, topics="*") for name in "abc"]) == {
        "a": {"t": [0, 1, 2]},
        "b": {"t": [3, 4]},
        "c": {"t": [5, 6]},
    }


def test_static_members_come_first_by_instance_id_whatever_their_member_ids():
    members = [
        Member(id="a", topics="*"),
        Member(id="z", topics="*", instance_id="1"),
        Member(id="y", topics="*", instance_id="2"),
    ]
    assert planned({"t": Topic(partitions=2)}, members) == {
        "a": {},
        "y": {"t": [1]},
        "z": {"t": [0]},
    }


def test_a_reader_gets_the_partitions_of_its_rack_where_racks_differ():
    topics = {"t": Topic(partitions=4, replica_racks=[["b"], ["b"], ["a"], ["a"]])}
    members = [Member(id="m0", topics="*", rack="a"), Member(id="m1", topics="*", rack="b")]
    assert planned(topics, members) == {"m0": {"t": [2, 3]}, "m1": {"t": [0, 1]}}


def test_racks_change_nothing_where_every_partition_is_in_all_of_them():
    topics = {"t": Topic(partitions=4, replica_racks=[["b", "a"]] * 4)}
    members = [Member(id="m0", topics="*", rack="b"), Member(id="m1", topics="*", rack="a")]
    assert planned(topics, members) == {"m0": {"t": [0, 1]}, "m1": {"t": [2, 3]}}


def test_topics_of_equal_size_stay_co_partitioned_by_rack():
    topics = {
        "t0": Topic(partitions=3, replica_racks=[["c"], ["a"], ["b"]]),
        "t1": Topic(partitions=3, replica_racks=[["c", "a"], ["a", "b"], ["b", "c"]]),
    }
    members = [Member(id=f"m{rack}", topics="*", rack=rack) for rack in "abc"]
    assert planned(topics, members) == {
        "ma": {"t0": [1], "t1": [1]},
        "mb": {"t0": [2], "t1": [2]},
        "mc": {"t0": [0], "t1": [0]},
    }


BY_RACKS = [["b"], ["b"], ["a"], ["a"]]
READERS = [Member(id=f"m{rack}", topics="*", rack=rack) for rack in "abc"]


def test_a_lone_topic_is_dealt_reader_by_reader():
    assert planned({"t": Topic(partitions=4, replica_racks=BY_RACKS)}, READERS) == {
        "ma": {"t": [2, 3]},
        "mb": {"t": [0]},
        "mc": {"t": [1]},
    }


def test_co_partitioned_topics_are_dealt_partition_by_partition():
    topics = {name: Topic(partitions=4, replica_racks=BY_RACKS) for name in "tu"}
    assert planned(topics, READERS) == {
        "ma": {"t": [2], "u": [2]},
        "mb": {"t": [0, 1], "u": [0, 1]},
        "mc": {"t": [3], "u": [3]},
    }


def test_a_topic_that_nobody_reads_stays_unowned():
    topics = {"t": Topic(partitions=2), "u": Topic(partitions=2)}
    assert planned(topics, [Member(id="m", topics=["u"])]) == {"m": {"u": [0, 1]}}

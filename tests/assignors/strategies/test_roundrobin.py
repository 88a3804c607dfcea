from assignors.problem.group import Group
from assignors.problem.inputs import (
    Member,
    Topic,
)
from assignors.strategies.roundrobin import roundrobin_strategy


def planned(topics, members):
    group = Group.build(topics, members)
    return roundrobin_strategy(group).to_names(group)


def test_the_blogs_example_uses_all_three_members():
    topics = {"A": Topic(partitions=2), "B": Topic(partitions=2)}
    assert planned(topics, [Member(id=f"C{n}", topics="*") for n in (1, 2, 3)]) == {
        "C1": {"A": [0], "B": [1]},
        "C2": {"A": [1]},
        "C3": {"B": [0]},
    }


def test_the_blogs_reassignment_swaps_partitions_that_need_not_move():
    topics = {"A": Topic(partitions=2), "B": Topic(partitions=2)}
    assert planned(topics, [Member(id="C1", topics="*"), Member(id="C3", topics="*")]) == {
        "C1": {"A": [0], "B": [0]},
        "C3": {"A": [1], "B": [1]},
    }


def test_kip_49s_round_robin_table():
    sizes = {"T1": 2, "T2": 1, "T3": 2, "T4": 1, "T5": 2}
    everything, odd = list(sizes), ["T1", "T3", "T5"]
    wishes = {"C1": everything, "C2": odd, "C3": odd, "C4": everything}
    assert planned(
        {name: Topic(partitions=size) for name, size in sizes.items()},
        [Member(id=name, topics=wish) for name, wish in wishes.items()],
    ) == {
        "C1": {"T1": [0], "T3": [0], "T5": [0]},
        "C2": {"T1": [1], "T3": [1], "T5": [1]},
        "C3": {},
        "C4": {"T2": [0], "T4": [0]},
    }


def test_kip_874s_round_robin_mixes_topics():
    topics = {"t0": Topic(partitions=3), "t1": Topic(partitions=3)}
    assert planned(topics, [Member(id="C0", topics="*"), Member(id="C1", topics="*")]) == {
        "C0": {"t0": [0, 2], "t1": [1]},
        "C1": {"t0": [1], "t1": [0, 2]},
    }


def test_kip_874s_round_robin_after_a_failure_is_all_the_survivors():
    topics = {"t0": Topic(partitions=3), "t1": Topic(partitions=3)}
    assert planned(topics, [Member(id="C1", topics="*")]) == {
        "C1": {"t0": [0, 1, 2], "t1": [0, 1, 2]}
    }


def test_kafka_5337s_round_robin_is_blind_to_lag():
    topics = {"t0": Topic(partitions=3, lags=[100_000, 60_000, 50_000])}
    assert planned(topics, [Member(id="C0", topics="*"), Member(id="C1", topics="*")]) == {
        "C0": {"t0": [0, 2]},
        "C1": {"t0": [1]},
    }


def test_static_members_come_first_in_the_circle():
    members = [Member(id="a", topics="*"), Member(id="z", topics="*", instance_id="i")]
    assert planned({"t": Topic(partitions=3)}, members) == {"a": {"t": [1]}, "z": {"t": [0, 2]}}


def test_the_hand_moves_past_a_member_that_was_served_out_of_turn():
    topics = {"t": Topic(partitions=1), "u": Topic(partitions=2)}
    members = [
        Member(id="a", topics=["u"]),
        Member(id="b", topics=["t", "u"]),
        Member(id="c", topics=["u"]),
    ]
    assert planned(topics, members) == {"a": {"u": [1]}, "b": {"t": [0]}, "c": {"u": [0]}}

from functools import partial

from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.strategies.roundrobin import roundrobin_strategy
from levelwind_testing.groups.examples import (
    BLOG_MEMBERS,
    BLOG_TOPICS,
    KAFKA_5337_TOPICS,
    KIP_49_MEMBERS,
    KIP_49_TOPICS,
    KIP_874_TOPICS,
    TWO_MEMBERS,
    planned_names,
)

planned = partial(planned_names, roundrobin_strategy)


def test_the_blogs_example_uses_all_three_members():
    assert planned(BLOG_TOPICS, BLOG_MEMBERS) == {
        "C1": {"A": [0], "B": [1]},
        "C2": {"A": [1]},
        "C3": {"B": [0]},
    }


def test_the_blogs_reassignment_swaps_partitions_that_need_not_move():
    assert planned(BLOG_TOPICS, [BLOG_MEMBERS[0], BLOG_MEMBERS[2]]) == {
        "C1": {"A": [0], "B": [0]},
        "C3": {"A": [1], "B": [1]},
    }


def test_kip_49s_round_robin_table():
    assert planned(KIP_49_TOPICS, KIP_49_MEMBERS) == {
        "C1": {"T1": [0], "T3": [0], "T5": [0]},
        "C2": {"T1": [1], "T3": [1], "T5": [1]},
        "C3": {},
        "C4": {"T2": [0], "T4": [0]},
    }


def test_kip_874s_round_robin_mixes_topics():
    assert planned(KIP_874_TOPICS, TWO_MEMBERS) == {
        "C0": {"t0": [0, 2], "t1": [1]},
        "C1": {"t0": [1], "t1": [0, 2]},
    }


def test_kip_874s_round_robin_after_a_failure_is_all_the_survivors():
    assert planned(KIP_874_TOPICS, TWO_MEMBERS[1:]) == {"C1": {"t0": [0, 1, 2], "t1": [0, 1, 2]}}


def test_kafka_5337s_round_robin_is_blind_to_lag():
    assert planned(KAFKA_5337_TOPICS, TWO_MEMBERS) == {
        "C0": {"t0": [0, 2]},
        "C1": {"t0": [1]},
    }


def test_static_members_come_first_in_the_order():
    members = [Member(id="a", topics="*"), Member(id="z", topics="*", instance_id="i")]
    assert planned({"t": Topic(partitions=3)}, members) == {"a": {"t": [1]}, "z": {"t": [0, 2]}}


def test_the_cursor_moves_past_a_member_that_was_served_early():
    topics = {"t": Topic(partitions=1), "u": Topic(partitions=2)}
    members = [
        Member(id="a", topics=["u"]),
        Member(id="b", topics=["t", "u"]),
        Member(id="c", topics=["u"]),
    ]
    assert planned(topics, members) == {"a": {"u": [1]}, "b": {"t": [0]}, "c": {"u": [0]}}

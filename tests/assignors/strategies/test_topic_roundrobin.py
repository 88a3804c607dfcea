from functools import partial

from hypothesis import given

from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.strategies.topic_roundrobin import topic_roundrobin_strategy
from levelwind_testing.groups.examples import KIP_874_TOPICS, TWO_MEMBERS, planned_names
from levelwind_testing.groups.random_groups import problems

planned = partial(planned_names, topic_roundrobin_strategy)


def test_kip_874s_example_gives_each_a_whole_topic():
    assert planned(KIP_874_TOPICS, TWO_MEMBERS) == {
        "C0": {"t0": [0, 1, 2]},
        "C1": {"t1": [0, 1, 2]},
    }


def test_kip_874s_example_after_a_failure_gives_the_survivor_all():
    assert planned(KIP_874_TOPICS, TWO_MEMBERS[1:]) == {"C1": {"t0": [0, 1, 2], "t1": [0, 1, 2]}}


def test_kip_874s_example_of_several_containers():
    topics = {"t0": Topic(partitions=3), "t1": Topic(partitions=2)}
    members = [
        Member(id=f"{a}-{c}", topics="*", container=a) for a in ("A0", "A1") for c in ("C0", "C1")
    ]
    assert planned(topics, members) == {
        "A0-C0": {"t0": [0, 2]},
        "A0-C1": {"t1": [0]},
        "A1-C0": {"t0": [1]},
        "A1-C1": {"t1": [1]},
    }


def test_the_cursor_passes_over_members_that_do_not_read_the_topic():
    topics = {name: Topic(partitions=2) for name in "tuv"}
    members = [Member(id="a", topics=["u", "v"]), Member(id="b", topics=["t", "u", "v"])]
    assert planned(topics, members) == {"a": {"u": [0, 1]}, "b": {"t": [0, 1], "v": [0, 1]}}


def test_members_without_a_container_are_in_one_together_and_last():
    topics = {"t": Topic(partitions=3), "u": Topic(partitions=2)}
    members = [
        Member(id="a", topics="*"),
        Member(id="b", topics="*"),
        Member(id="c", topics="*", container="k"),
    ]
    assert planned(topics, members) == {
        "a": {"t": [1]},
        "b": {"u": [1]},
        "c": {"t": [0, 2], "u": [0]},
    }


def test_static_members_come_in_the_order_of_their_instances():
    topics = {name: Topic(partitions=1) for name in "tuv"}
    members = [
        Member(id="a", topics="*", instance_id="z"),
        Member(id="b", topics="*", instance_id="y"),
        Member(id="c", topics="*"),
    ]
    assert planned(topics, members) == {"a": {"u": [0]}, "b": {"t": [0]}, "c": {"v": [0]}}


def test_a_container_that_a_small_topic_does_not_reach_keeps_its_turn():
    topics = {"t": Topic(partitions=1), "u": Topic(partitions=2)}
    members = [Member(id=f"{box}{n}", topics="*", container=box) for box in "AB" for n in "01"]
    planned_names = planned(topics, members)
    assert planned_names == {"A0": {"t": [0]}, "A1": {"u": [0]}, "B0": {"u": [1]}, "B1": {}}


@given(problem=problems())
def test_within_a_container_a_topic_has_one_owner(problem):
    group = problem.group
    container = {member.id: member.container for member in problem.members}
    names = topic_roundrobin_strategy(group).to_names(group)
    for topic in problem.topics:
        owners = [container[member] for member, owned in names.items() if topic in owned]
        assert len(owners) == len(set(owners))

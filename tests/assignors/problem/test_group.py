import numpy as np
import pytest
from hypothesis import given

from levelwind.assignors.problem.columns import in_java_order
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind_testing.groups.random_groups import problems


@given(problem=problems())
def test_the_columns_say_what_the_names_said(problem):
    group = problem.group
    for name, topic in problem.topics.items():
        index = group.topics.index(name)
        start, end = group.topic_start[index : index + 2]
        assert end - start == topic.partitions
        assert group.lag[start:end].tolist() == list(topic.lags or [0] * topic.partitions)
        for number in range(topic.partitions):
            first, last = group.replica_start[start + number : start + number + 2]
            found = [group.racks[rack] for rack in group.replica_rack[first:last]]
            assert found == sorted(set(topic.replica_racks[number] if topic.replica_racks else ()))
        readers = {group.members[member] for member in group.readers(index)}
        assert readers == {member.id for member in problem.members if name in member.topics}
    for member in problem.members:
        index = group.members.index(member.id)
        assert [group.topics[t] for t in group.subscribed(index)] == [
            topic for topic in sorted(set(member.topics)) if topic in problem.topics
        ]
        rack = group.member_rack[index]
        assert (None if rack < 0 else group.racks[rack]) == member.rack
        assert group.joined[index] == (member.owned is not None)
        claimed = group.claim_partition[group.claim_member == index]
        assert claimed.tolist() == sorted(
            int(group.topic_start[group.topics.index(topic)]) + partition
            for topic, partitions in (member.owned or {}).items()
            if topic in problem.topics
            for partition in partitions
        )


@given(problem=problems())
def test_who_reads_and_who_is_local_in_pairs(problem):
    group = problem.group
    members, topics = np.divmod(
        np.arange(len(group.members) * len(group.topics)), max(len(group.topics), 1)
    )
    assert group.reads(members, topics).tolist() == [
        topic in group.subscribed(member) for member, topic in zip(members, topics, strict=True)
    ]
    members, partitions = np.divmod(
        np.arange(len(group.members) * group.partition_count), max(group.partition_count, 1)
    )
    assert group.local(members, partitions).tolist() == [
        group.member_rack[m]
        in group.replica_rack[group.replica_start[p] : group.replica_start[p + 1]]
        for m, p in zip(members, partitions, strict=True)
    ]


@given(problem=problems())
def test_equal_subscriptions_are_noticed(problem):
    known = {frozenset(member.topics) & frozenset(problem.topics) for member in problem.members}
    assert problem.group.equal_subscriptions == (len(known) <= 1)


def test_the_columns_cannot_be_written():
    group = Group.build({"t": Topic(partitions=1)}, [])
    with pytest.raises(ValueError, match="read-only"):
        group.lag[0] = 1


def test_unknown_topics_and_partitions_in_claims_are_harmless():
    member = Member(id="m", topics=["t", "gone"], owned={"t": [-1, 0, 0, 2, 10**12], "gone": [0]})
    group = Group.build({"t": Topic(partitions=2)}, [member])
    assert group.claim_partition.tolist() == [0]


def test_two_replicas_in_one_rack_are_one_rack():
    group = Group.build({"t": Topic(partitions=2, replica_racks=[["b", "a", "b"], ["b"]])}, [])
    assert group.replica_start.tolist() == [0, 2, 3]
    assert group.replica_rack.tolist() == [0, 1, 1]


def test_names_go_in_javas_order():
    beyond, below = (
        "\U0001f600",
        "\uffee",
    )  # by code point the first is greater, by UTF-16 unit the second
    assert in_java_order([below, beyond, "z"]) == ["z", beyond, below]


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (Topic(partitions=-1), "topic 't': partitions must be an integer from 0 up, not -1"),
        (Topic(partitions=True), "topic 't': partitions must be an integer"),
        (Topic(partitions="2"), "topic 't': partitions must be an integer"),
        (Topic(partitions=10**12), "are more than"),
        (
            Topic(partitions=2, lags=[1]),
            "topic 't': lags must be a list of one number for each of its 2 partitions",
        ),
        (Topic(partitions=1, lags=[-1]), "topic 't': lags must be integers from 0 up"),
        (Topic(partitions=1, lags=[2**63]), "topic 't': lags must be integers"),
        (Topic(partitions=1, lags=[2**70]), "topic 't': lags must be integers"),
        (Topic(partitions=1, lags=[1.5]), "topic 't': lags must be integers"),
        (Topic(partitions=1, lags=["1"]), "topic 't': lags must be integers"),
        (Topic(partitions=1, lags=[True]), "topic 't': lags must be integers"),
        (Topic(partitions=2, lags=[[1], 2]), "topic 't': lags must be a list of one number"),
        (
            Topic(partitions=1, rates=[float("nan")]),
            "topic 't': rates must be numbers from 0 to 1e+30",
        ),
        (Topic(partitions=1, rates=[1e31]), "topic 't': rates must be numbers"),
        (Topic(partitions=1, rates=["fast"]), "topic 't': rates must be numbers"),
        (
            Topic(partitions=2, replica_racks=[["a"]]),
            "topic 't': replica_racks must be a list of racks for each of its 2",
        ),
        (
            Topic(partitions=1, replica_racks=["a"]),
            "topic 't': replica_racks must hold a list of racks",
        ),
        (
            Topic(partitions=1, replica_racks=[7]),
            "topic 't': replica_racks must hold a list of racks",
        ),
        (Topic(partitions=1, replica_racks=[[7]]), "replica_racks must hold names of racks"),
        (Topic(partitions=1, replica_racks=[[["a"]]]), "replica_racks must hold names of racks"),
    ],
)
def test_a_wrong_topic_is_named(topic, message):
    with pytest.raises(ProblemError) as wrong:
        Group.build({"t": topic}, [])
    assert message in str(wrong.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topics": "t"}, "member 'm': topics must be a list of names or \"*\", not 't'"),
        ({"topics": [1]}, "member 'm': topics must be a list of names"),
        ({"rack": 5}, "member 'm': rack must be a string or left out, not 5"),
        ({"instance_id": 5}, "member 'm': instance_id must be a string"),
        ({"container": 5}, "member 'm': container must be a string"),
        ({"priority": 2**31}, "member 'm': priority must be a 32-bit integer"),
        ({"generation": 1.5}, "member 'm': generation must be a 32-bit integer"),
        ({"capacity": 0}, "member 'm': capacity must be a number from 1e-30"),
        ({"capacity": float("inf")}, "member 'm': capacity must be a number from 1e-30"),
        ({"capacity": 1e-31}, "member 'm': capacity must be a number from 1e-30"),
        ({"capacity": 1e31}, "member 'm': capacity must be a number from 1e-30"),
        ({"capacity": "1"}, "member 'm': capacity must be a number from 1e-30"),
        ({"owned": {"t": ["0"]}}, "member 'm': owned must list partition numbers, not '0'"),
    ],
)
def test_a_wrong_member_is_named(fields, message):
    with pytest.raises(ProblemError) as wrong:
        Group.build({"t": Topic(partitions=1)}, [Member(**{"id": "m", "topics": "*"} | fields)])
    assert message in str(wrong.value)


def test_ids_and_instance_ids_are_each_ones_own():
    with pytest.raises(ProblemError, match="member 'm': given twice"):
        Group.build({}, [Member(id="m", topics="*"), Member(id="m", topics="*")])
    twins = [Member(id=name, topics="*", instance_id="i") for name in "ab"]
    with pytest.raises(ProblemError, match="member 'b': instance_id 'i' is also 'a'"):
        Group.build({}, twins)

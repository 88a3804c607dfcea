"""From JoinGroup to a problem, and from the answer to SyncGroup, as a client's plug-in does it."""

import logging

import pytest

from levelwind.assignors.clients.group_join import (
    Joiner,
    join_subscription,
    read_members,
    sync_assignments,
)
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.kafka.sticky_user_data import StickyUserData
from levelwind.assignors.registry import STRATEGIES
from levelwind.assignors.strategies.vote import InconsistentGroupProtocolError

TOPICS = {"t0": Topic(partitions=4), "t1": Topic(partitions=2)}


def joiner(name, strategy, *args, instance_id=None, **join_options):
    return Joiner(
        id=name,
        instance_id=instance_id,
        offers={strategy: join_subscription(strategy, *args, **join_options).encode()},
    )


def read_member(strategy, subscription, version=3):
    _, (member,) = read_members([Joiner(id="m", offers={strategy: subscription.encode(version)})])
    return member


def test_a_member_is_read_from_its_join_request():
    join_options = joiner(
        "m", "uniform", ["t1", "t0"], owned={"t0": (1, 3)}, generation=7, rack="a", instance_id="i"
    )
    assert read_members([join_options]) == (
        "uniform",
        [
            Member(
                id="m",
                instance_id="i",
                topics=("t0", "t1"),
                rack="a",
                owned={"t0": (1, 3)},
                generation=7,
            )
        ],
    )


def test_the_group_takes_the_strategy_that_all_offer_and_most_prefer():
    both = {
        "sticky": join_subscription("sticky", ["t0"]).encode(),
        "range": join_subscription("range", ["t0"]).encode(),
    }
    only = {"range": join_subscription("range", ["t1"]).encode()}
    name, (first, second) = read_members([Joiner(id="a", offers=both), Joiner(id="b", offers=only)])
    assert (name, first.topics, second.topics) == ("range", ("t0",), ("t1",))
    with pytest.raises(InconsistentGroupProtocolError):
        read_members([Joiner(id="a", offers=only), Joiner(id="b", offers={"lag": b""})])


def test_claims_of_sticky_come_from_user_data_alone():
    join_options = StickyUserData(held={"t0": (2,)}, generation=5).encode()
    member = read_member(
        "sticky",
        ConsumerSubscription(
            topics=("t0",), user_data=join_options, owned={"t0": (0,)}, generation=9
        ),
    )
    assert (member.owned, member.generation) == ({"t0": (2,)}, 5)
    nothing = read_member(
        "sticky", ConsumerSubscription(topics=("t0",), owned={"t0": (0,)}, generation=9)
    )
    assert (nothing.owned, nothing.generation) == (None, -1)
    assert join_subscription("sticky", ["t0"], owned={"t0": (1,)}).owned == {}
    assert join_subscription("sticky", ["t0"]).user_data is None


@pytest.mark.parametrize(("version", "generation"), [(1, 5), (2, 9), (3, 9)])
def test_cooperative_sticky_finds_its_generation_in_user_data_where_the_subscription_is_too_old(
    version, generation
):
    join_options = ConsumerSubscription(
        topics=("t0",), user_data=b"\0\0\0\5", owned={"t0": (0,)}, generation=9
    )
    member = read_member("cooperative-sticky", join_options, version)
    assert (member.owned, member.generation) == ({"t0": (0,)}, generation)
    assert join_subscription("cooperative-sticky", ["t0"], generation=5).user_data == b"\0\0\0\5"


def test_unreadable_claims_in_user_data_count_as_none_and_are_logged(caplog):
    broken = ConsumerSubscription(topics=("t0",), user_data=b"?", owned={"t0": (0,)})
    with caplog.at_level(logging.WARNING):
        sticky = read_member("sticky", broken)
        cooperative = read_member("cooperative-sticky", broken)
    assert (sticky.owned, sticky.generation) == (None, -1)
    assert (cooperative.owned, cooperative.generation) == ({"t0": (0,)}, -1)
    assert caplog.text.count("userData of member m cannot be read") == 2


def test_no_assignment_yet_differs_from_an_empty_assignment():
    assert read_member("lag-global", ConsumerSubscription(topics=("t0",))).owned is None
    assert read_member("lag-global", ConsumerSubscription(topics=("t0",), generation=0)).owned == {}


def test_failover_reads_the_priority_and_takes_the_highest_without_one():
    group = [
        joiner("a", "failover", ["t0"], priority=3),
        joiner("b", "failover", ["t0"], priority=10),
        joiner("c", "failover", ["t0"], priority=-1),
    ]
    name, members = read_members(group)
    problem = Group.build(TOPICS, members)
    assert [member.priority for member in members] == [3, 10, -1]
    assert STRATEGIES[name](problem).to_names(problem)["b"] == {"t0": [0, 1, 2, 3]}
    assert read_member("failover", ConsumerSubscription(topics=("t0",))).priority == 2**31 - 1
    assert (
        read_member("range", ConsumerSubscription(topics=("t0",), user_data=b"\0\0\0\1")).priority
        == 2**31 - 1
    )


def test_a_client_that_writes_v1_and_leaves_the_owned_partitions_out_is_read_as_v0():
    raw = b"\0\1" + ConsumerSubscription(topics=("t0",)).encode(0)[2:]
    _, (member,) = read_members([Joiner(id="kafka-go", offers={"range": raw})])
    assert (member.topics, member.owned) == (("t0",), None)


def test_an_error_names_the_member_with_the_wrong_subscription():
    with pytest.raises(
        ProblemError, match="member 'm': its subscription cannot be read: truncated"
    ):
        read_members([Joiner(id="m", offers={"range": b"\0\2\0"})])
    with pytest.raises(
        ProblemError, match="member 'm': its subscription cannot be read: truncated"
    ):
        read_members(
            [
                Joiner(
                    id="m",
                    offers={"range": b"\0\2" + ConsumerSubscription(topics=()).encode(0)[2:]},
                )
            ]
        )
    with pytest.raises(
        ProblemError, match="member 'm': its subscription cannot be read: truncated"
    ):
        read_member("failover", ConsumerSubscription(topics=("t0",), user_data=b"10"))
    with pytest.raises(ProblemError, match="member 'm': does not offer 'lag' but range, sticky"):
        read_members([Joiner(id="m", offers={"range": b"", "sticky": b""})], "lag")


def test_a_round_of_a_cooperative_group_withholds_until_its_owner_gave_up():
    topics = {"t0": Topic(partitions=2)}

    def round_of(*group):
        name, members = read_members(group)
        problem = Group.build(topics, members)
        return {
            member: dict(ConsumerAssignment.decode(raw).partitions)
            for member, raw in sync_assignments(problem, STRATEGIES[name](problem)).items()
        }

    old = joiner("a", "cooperative-sticky", ["t0"], owned={"t0": (0, 1)}, generation=1)
    new = joiner("b", "cooperative-sticky", ["t0"], generation=1)
    first = round_of(old, new)
    assert first == {"a": {"t0": (0,)}, "b": {}}
    again = [
        joiner(name, "cooperative-sticky", ["t0"], owned=owned, generation=2)
        for name, owned in first.items()
    ]
    assert round_of(*again) == {"a": {"t0": (0,)}, "b": {"t0": (1,)}}

"""The assignment that the proxy dictates: always valid, and by the plan that names members."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.clients.classic.plan_application import moves
from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.clients.group_join import Joiner, join_subscription
from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.daemon.proxy.dictation import (
    NOT_LED,
    PROTOCOLS,
    Dictation,
    LastDictation,
    Refusal,
    dictate,
)
from levelwind_testing.examples import examples
from levelwind_testing.proxied import LAYOUTS, plan

PROXY = "levelwind-proxy-1"


def joiner(name, protocol, topics=("t",), *, owned=None, generation=-1, instance=None, version=3):
    subscription = join_subscription(protocol, topics, owned=owned, generation=generation)
    return Joiner(id=name, instance_id=instance, offers={protocol: subscription.encode(version)})


def proxy(protocol):
    return joiner(PROXY, protocol, (), version=0)


def decoded(dictation):
    return {
        member: dict(ConsumerAssignment.decode(raw).partitions)
        for member, raw in dictation.assignments.items()
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_plan_is_dictated_and_the_proxy_gets_nothing(protocol):
    joiners = [joiner("a", protocol), joiner("b-7", protocol, instance="b"), proxy(protocol)]
    answer = dictate(protocol, joiners, PROXY, LAYOUTS, plan(a=[0, 5], b=[1, 2, 3, 4]), NOT_LED)
    assert decoded(answer) == {"a": {"t": (0, 5)}, "b-7": {"t": (1, 2, 3, 4)}, PROXY: {}}
    assert (answer.planned, answer.local, answer.withheld) == (6, 0, 0)
    assert answer.shares == {"a": {"t": (0, 5)}, "b": {"t": (1, 2, 3, 4)}}


def test_what_the_plan_leaves_open_goes_to_those_who_read_it_and_the_rest_stays():
    joiners = [joiner("a", "range"), joiner("b", "range", ("t", "u")), proxy("range")]
    newest = plan(a=[0, 1, 2], gone=[3, 4, 5])
    answer = dictate("range", joiners, PROXY, LAYOUTS, newest, LastDictation({"b": {}}, None))
    placed = decoded(answer)
    assert placed["a"]["t"][:3] == (0, 1, 2)
    assert placed["b"]["u"] == (0, 1, 2)
    assert "elsewhere" not in placed["a"]
    assert (answer.planned, answer.local) == (3, 6)


def test_a_newcomer_gets_its_part_at_once_and_is_then_left_to_the_plan():
    joiners = [joiner(name, "range") for name in "abc"] + [proxy("range")]
    newest = plan(a=[0, 1, 2], b=[3, 4, 5])
    first = dictate("range", joiners, PROXY, LAYOUTS, newest, NOT_LED)
    assert sorted(len(share["t"]) for share in first.shares.values()) == [2, 2, 2]
    assert first.local == 2, "the others keep what the plan gives them"
    last = LastDictation(first.shares, first.epoch)
    again = dictate("range", joiners, PROXY, LAYOUTS, newest, last)
    assert again.shares == first.shares, "until there is a newer plan"
    newer = plan(2, a=[0, 1, 2], b=[3, 4, 5])
    second = dictate("range", joiners, PROXY, LAYOUTS, newer, last)
    assert second.shares == {"a": {"t": (0, 1, 2)}, "b": {"t": (3, 4, 5)}, "c": {}}


def test_members_of_an_eager_group_get_again_what_they_had_where_no_plan_says_more():
    joiners = [joiner("a", "range"), joiner("b", "range"), proxy("range")]
    last = {"a": {"t": (1, 3, 5)}, "b": {"t": (0, 2, 4)}}
    answer = dictate("range", joiners, PROXY, LAYOUTS, None, LastDictation(last, None))
    assert answer.shares == last


def test_a_cooperative_member_gets_nothing_that_another_still_has():
    protocol = "cooperative-sticky"
    joiners = [
        joiner("a", protocol, owned={"t": (0, 1, 2)}, generation=4),
        joiner("b", protocol, owned={"t": (3, 4, 5)}, generation=4),
        proxy(protocol),
    ]
    wanted = plan(a=[0, 1, 3], b=[2, 4, 5])
    first = dictate(protocol, joiners, PROXY, LAYOUTS, wanted, NOT_LED)
    assert decoded(first) == {"a": {"t": (0, 1)}, "b": {"t": (4, 5)}, PROXY: {}}
    assert first.withheld == 2
    assert first.shares == {"a": {"t": (0, 1, 3)}, "b": {"t": (2, 4, 5)}}
    joiners = [
        joiner("a", protocol, owned={"t": (0, 1)}, generation=5),
        joiner("b", protocol, owned={"t": (4, 5)}, generation=5),
        proxy(protocol),
    ]
    second = dictate(
        protocol, joiners, PROXY, LAYOUTS, wanted, LastDictation(first.shares, first.epoch)
    )
    assert second.withheld == 0
    assert decoded(second) == {"a": {"t": (0, 1, 3)}, "b": {"t": (2, 4, 5)}, PROXY: {}}


@pytest.mark.parametrize(
    ("protocol", "joiners", "reason"),
    [
        ("own", [joiner("a", "range")], "the protocol 'own'"),
        ("range", [Joiner(id="a", offers={"range": b""})], "member 'a'"),
        ("range", [Joiner(id="a", offers={"range": b"\0\3garbage"})], "member 'a'"),
        ("range", [joiner("a", "range", ("t", "new"))], "no layout of 'new'"),
        (
            "range",
            [Joiner(id="a", offers={"range": ConsumerSubscription(topics=("t", "t")).encode()})],
            "member 'a'",
        ),
    ],
)
def test_what_is_unexpected_is_refused_with_what_to_do(protocol, joiners, reason):
    answer = dictate(protocol, [*joiners, proxy("range")], PROXY, LAYOUTS, plan(a=[0]), NOT_LED)
    if isinstance(answer, Dictation):  # a topic that is named twice counts once
        assert decoded(answer)["a"] == {"t": tuple(range(6))}
        return
    assert reason in answer.reason
    assert answer.action
    assert not answer.deserted


def test_a_group_in_which_nobody_reads_is_deserted():
    for others in ([], [joiner("another-proxy", "range", ())]):
        answer = dictate("range", [*others, proxy("range")], PROXY, LAYOUTS, plan(a=[0]), NOT_LED)
        assert isinstance(answer, Refusal)
        assert answer.deserted


def test_a_plan_moves_something_if_a_present_member_gets_more_than_it_has():
    shares = {"a": {"t": (0, 1, 2)}, "b": {"t": (3, 4, 5)}}
    assert not moves(plan(a=[0, 1, 2], b=[3, 4, 5]), shares)
    assert not moves(plan(gone=[0, 1]), shares)
    assert moves(plan(a=[0, 1, 2, 3], b=[4, 5]), shares)


names = st.sampled_from(["m0", "m1", "m2", "m3", "m4"])
numbers = st.frozensets(st.integers(-1, 8), max_size=9).map(lambda found: tuple(sorted(found)))
partitions = st.dictionaries(st.sampled_from(["t", "u", "elsewhere", "gone"]), numbers)
members = st.dictionaries(
    names,
    st.fixed_dictionaries(
        {
            "topics": st.sets(st.sampled_from(["t", "u", "elsewhere"])).map(tuple),
            "owned": st.none() | partitions,
            "generation": st.integers(-1, 3),
            "instance": st.none() | names,
            "version": st.integers(0, 3),
        }
    ),
    max_size=5,
).map(
    lambda found: {  # a group has each instance once
        name: given | {"instance": None}
        if given["instance"] in {other["instance"] for k, other in found.items() if k < name}
        else given
        for name, given in found.items()
    }
)


@settings(max_examples=examples(40))
@given(
    st.sampled_from(PROTOCOLS),
    members,
    st.none() | st.dictionaries(names, partitions),
    st.dictionaries(names, partitions),
    st.sampled_from([None, PlanEpoch(1, 0), PlanEpoch(1, 1)]),
)
def test_whatever_members_and_plans_say_the_answer_is_valid(protocol, found, shares, last, at):
    joiners = [joiner(name, protocol, **given) for name, given in found.items()]
    newest = None if shares is None else PublishedPlan(epoch=PlanEpoch(1, 1), assignments=shares)
    answer = dictate(
        protocol, [*joiners, proxy(protocol)], PROXY, LAYOUTS, newest, LastDictation(last, at)
    )
    read = {topic for given in found.values() for topic in given["topics"]}
    if not read:
        assert isinstance(answer, Refusal)
        assert answer.deserted
        return
    assert isinstance(answer, Dictation), answer
    placed = decoded(answer)
    assert placed.pop(PROXY) == {}
    owners = Counter(
        (topic, number)
        for share in placed.values()
        for topic, held in share.items()
        for number in held
    )
    assert max(owners.values(), default=1) == 1
    assert all(topic in found[name]["topics"] for name, share in placed.items() for topic in share)
    every = {(topic, number) for topic in read for number in range(LAYOUTS[topic].partitions)}
    assert owners.keys() <= every
    assert len(every - owners.keys()) == answer.withheld
    if protocol != "cooperative-sticky":
        assert answer.withheld == 0
        return
    # The newest claim of each partition is respected: it is its member's, or nobody's.
    for topic, number in owners:
        claims = {
            name: given["generation"] if given["version"] >= 1 else -1
            for name, given in found.items()
            if given["version"] >= 1
            and topic in given["topics"]
            and number in (given["owned"] or {}).get(topic, ())
        }
        newest_claims = {name for name, at in claims.items() if at == max(claims.values())}
        owner = next(name for name, share in placed.items() if number in share.get(topic, ()))
        assert not newest_claims or newest_claims == {owner}

"""`rack-uniform` over random groups, beside three others, and in the cases of Kafka's own tests.

Its answers are worth what the library's `uniform` gives, and what the best of every plan that
exists is worth; they are nowhere worse than those of Kafka's `uniform`. Worth is the loads first,
then the partitions that are remote, then the moves.
"""

import subprocess
from collections import Counter
from itertools import permutations
from random import Random

import numpy as np
import pytest

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.locality import rack_remote_at
from levelwind.assignors.problem.score import counts, score
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.strategies.uniform import uniform_strategy
from levelwind_testing.coordinator.assignor_process import stated
from levelwind_testing.drawn_seeds import fixed_and_fresh_seeds
from levelwind_testing.groups.exhaustive import EveryPlan
from levelwind_testing.groups.random_groups import ProblemShape, seeded_problem

pytestmark = pytest.mark.integration
NAME = "rack-uniform"
seeds = fixed_and_fresh_seeds(fixed=120, fresh=9_600)
fuzzed = fixed_and_fresh_seeds(fixed=5_000, fresh=1_000_000)
TINY = ProblemShape(topics=2, partitions=3, members=4, lags=False)
LARGER = ProblemShape(topics=5, partitions=24, members=20, racks=5, lags=False, claims=False)


def worth(group, assignment):
    return (
        int((counts(group, assignment.owner) ** 2).sum()),
        int(np.count_nonzero(rack_remote_at(group, assignment.owner))),
        score(group, assignment).moved,
    )


@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "unequal ones"])
def test_the_answer_is_worth_what_the_librarys_is(brokers_assignors, seeds, equal):
    for seed in seeds:
        group = seeded_problem(seed, ProblemShape(lags=False, equal=equal)).group
        answer = brokers_assignors.assignment(NAME, group)
        assert violations(group, answer) == (), f"seed {seed}"
        assert worth(group, answer) == worth(group, uniform_strategy(group)), f"seed {seed}"


@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "unequal ones"])
def test_no_plan_that_exists_is_worth_more(brokers_assignors, seeds, equal):
    """The most even loads, the fewest remote partitions of those, and the fewest moves of those.

    Left out are groups where some members' racks are unknown: at rest nothing moves to those.
    """
    for seed in seeds:
        group = seeded_problem(seed, TINY._replace(equal=equal)).group
        if len(set((group.member_rack < 0).tolist())) > 1:
            continue
        every, answer = EveryPlan(group), brokers_assignors.assignment(NAME, group)
        even = every.most_even()
        remote = every.cross_rack_cost[even].min()
        moves = every.moves[even & (every.cross_rack_cost == remote)].min()
        best = (every.squares[even].min(), remote, moves)
        assert worth(group, answer) == best, f"seed {seed}"


@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "unequal ones"])
def test_members_that_come_and_go_and_replicas_that_move_cost_what_they_must(
    brokers_assignors, seeds, equal
):
    """As much as by the library's strategy, and no more than by Kafka's assignor."""
    for seed in seeds[::10]:
        problem = seeded_problem(seed, LARGER._replace(equal=equal, missing=False))
        draw, owned = Random(seed), {}
        for _ in range(4):
            members = [
                Member(
                    id=member.id,
                    topics=member.topics,
                    rack=member.rack,
                    owned=owned.get(member.id),
                    generation=1 if member.id in owned else -1,
                )
                for member in problem.members
                if draw.random() < 0.8
            ] or problem.members[:1]
            topics = {name: moved_replicas(topic, draw) for name, topic in problem.topics.items()}
            group = Group.build(topics, members)
            answer = brokers_assignors.assignment(NAME, group)
            assert violations(group, answer) == (), f"seed {seed}"
            assert worth(group, answer) == worth(group, uniform_strategy(group)), f"seed {seed}"
            kafkas = brokers_assignors.assignment("uniform", group)
            assert worth(group, answer) <= worth(group, kafkas), f"seed {seed}"
            owned = answer.to_names(group)


def moved_replicas(topic, draw):
    if topic.replica_racks is None or draw.random() < 0.5:
        return topic
    return Topic(
        partitions=topic.partitions,
        replica_racks=draw.sample(topic.replica_racks, topic.partitions),
    )


def planned(brokers_assignors, topics, *members):
    group = Group.build(topics, members)
    return group, brokers_assignors.assignment(NAME, group).to_names(group)


def sizes(names):
    return sorted(sum(map(len, share.values())) for share in names.values())


def alone(name, topics, owned=None):
    return Member(id=name, topics=topics, owned=owned, generation=-1 if owned is None else 1)


T, U = Topic(partitions=3), Topic(partitions=2)


class TestKafkasCases:
    """What the tests of Kafka's UniformAssignor ask of it, in both of its builders."""

    def test_one_member_without_topics_gets_nothing(self, brokers_assignors):
        _, names = planned(brokers_assignors, {"t": T}, alone("a", []))
        assert names == {"a": {}}

    def test_a_topic_that_does_not_exist_ends_no_consumer(self, brokers_assignors):
        """Kafka's own throws here, which the coordinator keeps from happening."""
        group = Group.build({"t": T}, [alone("a", ["t"])])
        asked = stated(NAME, group)
        asked["members"][0]["topics"] = [0, 7]
        assert brokers_assignors.ask(asked)["members"] == {"a": {"0": [0, 1, 2]}}

    def test_the_first_assignment_is_even_over_topics(self, brokers_assignors):
        _, names = planned(brokers_assignors, {"t": T, "u": T}, alone("a", "*"), alone("b", "*"))
        assert sizes(names) == [3, 3]

    def test_with_more_members_than_partitions_some_get_nothing(self, brokers_assignors):
        _, names = planned(brokers_assignors, {"u": U}, *(alone(name, "*") for name in "abc"))
        assert sizes(names) == [0, 1, 1]

    def test_a_balanced_group_keeps_everything(self, brokers_assignors):
        owned = {"a": {"t": [0, 2], "u": [1]}, "b": {"t": [1], "u": [0]}}
        _, names = planned(
            brokers_assignors, {"t": T, "u": U}, *(alone(m, "*", owned[m]) for m in owned)
        )
        assert names == owned

    def test_partitions_that_are_added_go_where_there_is_room(self, brokers_assignors):
        owned = {"a": {"t": [0, 2]}, "b": {"t": [1]}}
        grown = {"t": Topic(partitions=5)}
        _, names = planned(brokers_assignors, grown, *(alone(m, "*", owned[m]) for m in owned))
        assert sizes(names) == [2, 3]
        assert all(set(owned[m]["t"]) <= set(names[m]["t"]) for m in owned)

    def test_a_member_that_joins_gets_its_share_and_nothing_else_moves(self, brokers_assignors):
        owned = {"a": {"t": [0, 1, 2]}, "b": {"u": [0, 1, 2]}}
        _, names = planned(
            brokers_assignors,
            {"t": T, "u": T},
            *(alone(m, "*", owned[m]) for m in owned),
            alone("c", "*"),
        )
        assert sizes(names) == [2, 2, 2]
        kept = {
            m: {t: set(p) & set(owned[m].get(t, ())) for t, p in names[m].items()} for m in owned
        }
        assert kept == {m: {t: set(p) for t, p in names[m].items()} for m in owned}

    def test_what_a_member_had_that_left_goes_to_the_others(self, brokers_assignors):
        owned = {"a": {"t": [0]}, "b": {"t": [1]}}
        _, names = planned(brokers_assignors, {"t": T}, *(alone(m, "*", owned[m]) for m in owned))
        assert sizes(names) == [1, 2]
        assert all(set(owned[m]["t"]) <= set(names[m]["t"]) for m in owned)

    def test_a_topic_that_nobody_reads_any_more_is_nobodys(self, brokers_assignors):
        _, names = planned(
            brokers_assignors, {"t": T, "u": U}, alone("a", ["t"], {"t": [0, 1, 2], "u": [0, 1]})
        )
        assert names == {"a": {"t": [0, 1, 2]}}

    def test_a_member_loses_the_topic_that_it_no_longer_reads(self, brokers_assignors):
        _, names = planned(
            brokers_assignors,
            {"t": T, "u": U},
            alone("a", ["t", "u"], {"t": [0, 1], "u": [0]}),
            alone("b", ["u"], {"t": [2], "u": [1]}),
        )
        assert names == {"a": {"t": [0, 1, 2]}, "b": {"u": [0, 1]}}

    def test_with_unequal_subscriptions_loads_are_as_even_as_can_be(self, brokers_assignors):
        _, names = planned(
            brokers_assignors,
            {"t": T, "u": U, "v": Topic(partitions=4)},
            alone("a", ["t"]),
            alone("b", ["t", "u", "v"]),
            alone("c", ["u", "v"]),
        )
        assert sizes(names) == [3, 3, 3]


CASES = {
    "previous loads are uneven": (
        {"t": 6, "u": 4, "v": 4},
        {
            "a": (["t"], {"t": [0, 1, 2]}),
            "b": (["t", "u"], {"t": [3], "u": [0]}),
            "c": (["t", "u", "v"], {"t": [4, 5], "u": [1, 2, 3], "v": [0, 1, 2, 3]}),
        },
    ),
    "previous loads are uneven, equal subscriptions": (
        {"t": 3, "u": 3},
        {"a": ("*", {"t": [0, 1], "u": [0, 1]}), "b": ("*", {"t": [2], "u": [2]})},
    ),
    "partitions are added": (
        {"t": 6, "u": 5, "v": 3, "w": 3},
        {
            "a": (["t", "v"], {"t": [0, 1, 2, 3], "v": [0, 1]}),
            "b": ("*", {"u": [0, 1, 2], "w": [0, 1, 2]}),
        },
    ),
    "a member and partitions are added": (
        {"t": 6, "u": 7},
        {
            "a": (["t"], {"t": [0, 2]}),
            "b": (["t", "u"], {"t": [1], "u": [1, 2]}),
            "c": (["t", "u"], {}),
        },
    ),
    "a member has left": (
        {"t": 3, "u": 8, "v": 3},
        {"a": (["t", "v"], {"t": [0, 1, 2], "v": [0, 1]}), "b": (["u"], {"u": [3, 4, 5, 6]})},
    ),
    "a member reads less": (
        {"t": 3, "u": 5},
        {"a": (["t"], {"t": [0, 2]}), "b": (["t", "u"], {"t": [1], "u": [0, 2, 4]})},
    ),
    "a new member takes from every topic": (
        {"t": 2, "u": 2, "v": 2},
        {"a": (["t", "u", "v"], {"t": [0, 1], "u": [0, 1], "v": [0, 1]}), "b": ("*", {})},
    ),
    "a member reads nothing": ({"t": 3}, {"a": (["t"], {}), "b": ([], {})}),
    "more members than partitions, unequal": (
        {"t": 2, "v": 1},
        {"a": (["v"], {}), "b": (["v"], {}), "c": (["t"], {})},
    ),
    "hundred topics": (
        {f"t{number}": 3 for number in range(100)},
        {f"m{number}": ("*", {}) for number in range(49)},
    ),
}
"""Further cases of both: partitions of each topic; topics and last target of each member."""


@pytest.mark.parametrize("case", CASES)
def test_kafkas_own_answer_to_its_case_is_worth_as_much(brokers_assignors, case):
    sizes, members = CASES[case]
    group = Group.build(
        {topic: Topic(partitions=size) for topic, size in sizes.items()},
        [alone(name, topics, owned or None) for name, (topics, owned) in members.items()],
    )
    answers = [brokers_assignors.assignment(name, group) for name in (NAME, "uniform")]
    assert [violations(group, answer) for answer in answers] == [(), ()]
    ours, kafkas = (worth(group, answer) for answer in answers)
    assert ours[0] == kafkas[0]
    assert ours <= kafkas


@pytest.mark.parametrize("racks", ["abc", None], ids=["racks", "no racks"])
def test_shares_that_stay_are_the_objects_of_the_last_target(brokers_assignors, racks):
    """And the order in which the coordinator names the members is nothing to them."""
    topics = {
        name: Topic(partitions=size, replica_racks=racks and [["abc"[n % 3]] for n in range(size)])
        for name, size in (("t", 2), ("u", 5), ("v", 7))
    }
    members = [Member(id=name, topics="*", rack=name if racks else None) for name in "abc"]
    _, names = planned(brokers_assignors, topics, *members)
    settled = [
        Member(id=one.id, topics="*", rack=one.rack, owned=names[one.id], generation=1)
        for one in members
    ]
    asked = stated(NAME, Group.build(topics, settled))
    for order in permutations(asked["members"]):
        answer = brokers_assignors.ask({**asked, "members": order})
        assert sorted(answer["reused"]) == ["a", "b", "c"]


class TestLargeGroups:
    """What no random group is large enough for: loads are even within the bound of steps."""

    def test_a_second_member_takes_half_of_a_hundred_thousand_partitions(self, brokers_assignors):
        asked = {
            "assignor": NAME,
            "topics": [[[]] * 100_000, [[]]],
            "members": [
                {"id": "a", "topics": [0], "held": [[0, number] for number in range(100_000)]},
                {"id": "b", "topics": [0, 1], "held": []},
            ],
        }
        shares = brokers_assignors.ask(asked)["members"]
        assert sizes(shares) == [50_000, 50_001]

    def test_as_many_members_join_a_group_of_a_thousand(self, brokers_assignors):
        draw = Random(1)
        members = [
            {"id": f"m{number:04}", "topics": sorted(draw.sample(range(100), 25)), "held": []}
            for number in range(2000)
        ]
        asked = {"assignor": NAME, "topics": [[[]] * 500] * 100, "members": members[:1000]}
        shares = brokers_assignors.ask(asked)["members"]
        assert set(sizes(shares)) == {50}
        for member in members[:1000]:
            share = shares[member["id"]]
            member["held"] = [[int(topic), n] for topic in share for n in share[topic]]
        assert set(sizes(brokers_assignors.ask({**asked, "members": members})["members"])) == {25}


def test_groups_with_foreign_torn_and_missing_parts_get_an_answer(programs, fuzzed):
    first, groups = fuzzed.start, len(fuzzed)
    command = programs.command("AssignorFuzz", str(groups), str(first))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{groups} groups, 0 faults\n"


def test_an_error_of_the_jvm_leaves_every_member_what_it_had_and_still_reads(brokers_assignors):
    owned = {"a": {"0": [2], "1": [0, 1]}, "b": {}, "c": {"0": [0, 1]}}
    members = [
        {
            "id": member,
            "topics": [0],
            "held": [[int(topic), number] for topic in share for number in share[topic]],
        }
        for member, share in owned.items()
    ]
    asked = {"assignor": NAME, "topics": [[[], [], []], [[], []]], "members": members}
    assert brokers_assignors.ask(asked | {"broken": True})["members"] == {
        **owned,
        "a": {"0": [2]},
    }
    assert brokers_assignors.ask(asked)["members"] != owned


def test_with_racks_most_partitions_are_near_their_readers_where_kafkas_own_ignores_them(
    brokers_assignors,
):
    draw, remote = Random(5), Counter()
    topics = {
        name: Topic(partitions=24, replica_racks=[draw.sample("abc", 2) for _ in range(24)])
        for name in ("t", "u")
    }
    members = [Member(id=f"m{n}", topics="*", rack="abc"[n % 3]) for n in range(12)]
    group = Group.build(topics, members)
    for name in (NAME, "uniform"):
        owner = brokers_assignors.assignment(name, group).owner
        remote[name] = int(np.count_nonzero(rack_remote_at(group, owner)))
    assert remote[NAME] == 0
    assert remote["uniform"] > 0

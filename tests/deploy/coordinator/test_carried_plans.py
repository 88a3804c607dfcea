"""`levelwind`, the assignor for brokers that follows a plan in rack ids, over random groups."""

from random import Random

import numpy as np
import pytest

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.locality import rack_remote_at
from levelwind.assignors.problem.score import counts
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.protocol.kafka.carried_plan import MOST_PARTS, rack_ids
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind_testing.coordinator.assignor_process import PLANNED, RACK_UNIFORM, stated, topic_id
from levelwind_testing.drawn_seeds import fixed_and_fresh_seeds
from levelwind_testing.groups.random_groups import ProblemShape, seeded_problem

pytestmark = pytest.mark.integration
seeds = fixed_and_fresh_seeds(fixed=200, fresh=8_000)
SHAPE = ProblemShape(lags=False)
EPOCH = 7, 12


def names(group):
    """What a plan calls the members, in the group's order."""
    return [
        instance or member for member, instance in zip(group.members, group.instances, strict=True)
    ]


def random_plan(group, draw, among):
    """By name, partitions of a plan that places most of what is there, and more."""
    shares = {name: {} for name in among}
    for index, topic in enumerate(group.topics):
        first, end = group.topic_start[index : index + 2].tolist()
        for number in range(end - first + draw.choice([0, 0, 1])):
            if among and draw.random() < 0.95:
                shares[draw.choice(among)].setdefault(topic, []).append(number)
    return shares


def carried(group, plan, epoch=EPOCH, **limits):
    topic_ids = {topic: topic_id(number) for number, topic in enumerate(group.topics)}
    return rack_ids(epoch, plan, topic_ids, **limits)


def answered(brokers_assignors, group, rack_ids_of_carriers, name=PLANNED):
    """The owners after the assignor's answer; the carriers get nothing."""
    asked = stated(name, group)
    asked["members"] += [
        {"id": f"~{number}", "rack": rack, "topics": [], "held": []}
        for number, rack in enumerate(rack_ids_of_carriers)
    ]
    shares = brokers_assignors.ask(asked)["members"]
    for number in range(len(rack_ids_of_carriers)):
        assert shares.pop(f"~{number}") == {}
    answer = Assignment.from_names(
        group,
        {
            member: {group.topics[int(topic)]: numbers for topic, numbers in share.items()}
            for member, share in shares.items()
        },
    )
    assert violations(group, answer) == ()
    return answer.owner.tolist()


def placed(group, plan):
    """Owner of each partition by the plan, where that member is there and reads its topic."""
    owner = [NOBODY] * len(group.partition_topic)
    for name, share in plan.items():
        if name not in names(group):
            continue
        member = names(group).index(name)
        for topic, numbers in share.items():
            index = group.topics.index(topic)
            first, end = group.topic_start[index : index + 2].tolist()
            if index in group.subscribed(member).tolist():
                for number in numbers:
                    if first + number < end:
                        owner[first + number] = member
    return owner


def reads(group, member, partition):
    return member != NOBODY and group.partition_topic[partition] in group.subscribed(member)


def kept(group):
    """The last target, of what its members still read."""
    held = Assignment.held(group).owner.tolist()
    return [member if reads(group, member, p) else NOBODY for p, member in enumerate(held)]


def completed(group, owner):
    """What the plan leaves open stays, or goes to the reader with the fewest."""
    owner = [
        last if member == NOBODY else member
        for last, member in zip(kept(group), owner, strict=True)
    ]
    sizes = [owner.count(member) for member in range(len(group.members))]
    for p, member in enumerate(owner):
        readers = [reader for reader in range(len(group.members)) if reads(group, reader, p)]
        if member == NOBODY and readers:
            owner[p] = min(readers, key=lambda reader: (sizes[reader], reader))
            sizes[owner[p]] += 1
    return owner


def test_a_plan_of_all_members_is_followed_and_what_it_leaves_open_is_given_out(
    brokers_assignors, seeds
):
    for seed in seeds:
        group, draw = seeded_problem(seed, SHAPE).group, Random(seed)
        plan = random_plan(group, draw, [*names(group), "left"])
        expected = completed(group, placed(group, plan))
        answer = answered(brokers_assignors, group, carried(group, plan))
        assert answer == expected, f"seed {seed}"


def test_members_that_the_plan_does_not_know_get_their_share_at_once(brokers_assignors, seeds):
    """As by `rack-uniform` from where the plan has put everything."""
    for seed in seeds:
        group, draw = seeded_problem(seed, SHAPE).group, Random(seed)
        newcomer = draw.randrange(len(group.members))
        known = [name for index, name in enumerate(names(group)) if index != newcomer]
        if not known or not group.subscribed(newcomer).size:
            continue
        plan = random_plan(group, draw, known)
        asked = stated(RACK_UNIFORM, group)
        owner = placed(group, plan)
        for index, member in enumerate(asked["members"]):
            member["held"] = [
                [int(topic), p - int(group.topic_start[topic])]
                for p, topic in enumerate(group.partition_topic)
                if owner[p] == index
            ]
        expected = brokers_assignors.ask(asked)["members"]
        answer = Assignment(
            np.array(answered(brokers_assignors, group, carried(group, plan)), np.int32)
        )
        number = {topic: str(index) for index, topic in enumerate(group.topics)}
        found = {
            member: {number[topic]: list(numbers) for topic, numbers in share.items()}
            for member, share in answer.to_names(group).items()
        }
        assert found == expected, f"seed {seed}"


def torn(rack, draw):
    """A rack id of a carrier that says nothing that could be followed."""
    head, text = rack.rsplit(":", 1)
    at = draw.randrange(len(text))
    other = draw.choice([one for one in "Az09-_" if one != text[at]])
    return draw.choice(
        [
            f"{head}:{text[:at]}",
            f"{head}:{text[:at]}{other}{text[at + 1 :]}",
            f"{head}:{text[:at]}!{text[at + 1 :]}",
            f"{head}:",
            "levelwind-plan/",
            rack.replace("plan/1", "plan/2"),
            rack.replace("0/1", "0/2"),
            rack.replace("0/1", "1/1"),
            rack.replace("0/1", "0/99"),
            rack.replace("7.12", f"{10**30}.12"),
            rack.replace(head.rsplit(":", 1)[1], "00000000"),
        ]
    )


def test_a_plan_that_is_torn_foreign_or_of_another_version_is_no_plan(brokers_assignors, seeds):
    for seed in seeds:
        group, draw = seeded_problem(seed, SHAPE).group, Random(seed)
        without = answered(brokers_assignors, group, [])
        (rack,) = carried(group, random_plan(group, draw, names(group)))
        (foreign,) = carried(group, random_plan(group, draw, ["x", "y"]))
        for carriers in ([torn(rack, draw)], [foreign]):
            assert answered(brokers_assignors, group, carriers) == without, (seed, carriers)


def test_the_newest_plan_that_is_whole_is_followed_wherever_its_parts_are(brokers_assignors, seeds):
    for seed in seeds:
        group, draw = seeded_problem(seed, SHAPE).group, Random(seed)
        old, new = (random_plan(group, draw, names(group)) for _ in range(2))
        before = carried(group, old, (7, 99))
        after = carried(group, new, (8, 1), characters=draw.randrange(100, 200))
        both = draw.sample([*before, *after], len(before) + len(after))
        expected = completed(group, placed(group, new))
        assert answered(brokers_assignors, group, both) == expected, f"seed {seed}"
        if len(after) > 1:
            both.remove(draw.choice(after))
            expected = completed(group, placed(group, old))
            assert answered(brokers_assignors, group, both) == expected, f"seed {seed}"


def test_without_a_plan_a_group_that_is_provided_for_keeps_its_numbers(brokers_assignors, seeds):
    """And any other one is planned by `rack-uniform`."""
    provided_for = 0
    for seed in seeds:
        group = seeded_problem(seed, SHAPE).group
        held = np.array(kept(group), np.int32)
        sizes = counts(group, held)
        answer = np.array(answered(brokers_assignors, group, []), np.int32)
        open_ones = (held == NOBODY) & group.has_reader()
        empty = [m for m in range(len(group.members)) if group.subscribed(m).size and not sizes[m]]
        if open_ones.any() or empty:
            expected = answered(brokers_assignors, group, [], RACK_UNIFORM)
            assert answer.tolist() == expected, f"seed {seed}"
        else:
            provided_for += 1
            assert (counts(group, answer) == sizes).all(), f"seed {seed}"
            remote, before = (rack_remote_at(group, owner).sum() for owner in (answer, held))
            assert remote < before or answer.tolist() == held.tolist(), f"seed {seed}"
    assert provided_for > len(seeds) / 100


def test_the_last_carrier_leaves_and_nothing_moves(brokers_assignors, seeds):
    for seed in seeds:
        group, draw = seeded_problem(seed, SHAPE).group, Random(seed)
        plan = random_plan(group, draw, names(group))
        owner = answered(brokers_assignors, group, carried(group, plan))
        asked = stated(PLANNED, group)
        for index, member in enumerate(asked["members"]):
            member["rack"] = None
            member["held"] = [
                [int(topic), p - int(group.topic_start[topic])]
                for p, topic in enumerate(group.partition_topic)
                if owner[p] == index
            ]
        if all(member["held"] or not member["topics"] for member in asked["members"]):
            answer = brokers_assignors.ask(asked)
            assert sorted(answer["reused"]) == sorted(group.members), f"seed {seed}"


def test_a_plan_of_a_hundred_thousand_partitions_fits_into_a_few_rack_ids():
    draw = Random(1)
    members = [f"{draw.getrandbits(128):032x}" for _ in range(1000)]
    plan = {member: {} for member in members}
    for topic in range(100):
        for number in range(1000):
            plan[draw.choice(members)].setdefault(f"t{topic}", []).append(number)
    topic_ids = {f"t{number}": topic_id(number) for number in range(100)}
    assert len(rack_ids(EPOCH, plan, topic_ids)) <= MOST_PARTS / 8
    with pytest.raises(WireError, match=f"in {MOST_PARTS}"):
        rack_ids(EPOCH, plan, topic_ids, characters=1000)


@pytest.mark.parametrize("text", ["t0", "A" * 17, ""])
def test_what_is_no_topic_id_is_an_error(text):
    with pytest.raises(WireError, match="no id"):
        rack_ids(EPOCH, {"a": {"t0": (0,)}}, {"t0": text})

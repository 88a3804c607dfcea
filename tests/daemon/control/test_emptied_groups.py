"""Transcripts of groups whose members are all gone for a while, as in a stop-all deployment."""

from itertools import product

import pytest

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import lever, member, request, topic

NAMES = tuple(f"m{number}" for number in range(5))
PARTITIONS = 20

MEANWHILE = {
    "nothing": lambda _: None,
    "a request": lambda play: play.receive("control", request()),
    "a drain": lambda play: play.receive("control", lever("drain", "m0")),
    "a strategy": lambda play: play.receive("control", lever("strategy", setting="range")),
    "new partitions": lambda play: play.receive(
        "metadata", topic(racks=((),) * (PARTITIONS + 5), at=300_000)
    ),
}
"""What happens while the group is empty."""


def led():
    play = begun(topic(racks=((),) * PARTITIONS), planning=PlanSettings(strategy="optimal"))
    play.join(*map(member, NAMES))
    play.wait(8)
    return play


def emptied(play, way, seconds, meanwhile="nothing"):
    for name in NAMES:
        getattr(play, way)(name, "i1")
    play.wait(seconds)
    MEANWHILE[meanwhile](play)
    play.wait(seconds)


def come_back(play, apart):
    """Let the members join again, one after the other; return the most that any of them had."""
    most = 0
    for name in NAMES:
        play.join(member(name, incarnation="i2"))
        play.wait(apart, step=0.1)
        most = max(most, *map(len, owned(play).values()))
    for _ in range(80):
        play.wait(0.5)
        most = max(most, *map(len, owned(play).values()))
    return most


def owned(play):
    return {name: set(ranges.parse(own)) if own else set() for name, own in play.owned().items()}


@pytest.mark.parametrize(
    ("way", "seconds", "apart"),
    [*product(["leave"], [0.5, 2, 30], [0.1, 0.5]), *product(["kill"], [100], [0.1, 0.5])],
)
def test_members_that_all_come_back_find_their_partitions(way, seconds, apart):
    play = led()
    before = owned(play)
    emptied(play, way, seconds)
    come_back(play, apart)
    assert owned(play) == before
    assert len(play.plans) == 1


@pytest.mark.parametrize("meanwhile", list(MEANWHILE)[1:])
@pytest.mark.parametrize(("way", "seconds"), [("leave", 0.5), ("leave", 30), ("kill", 100)])
def test_what_came_meanwhile_is_planned_once_for_all_that_come_back(way, seconds, meanwhile):
    play = led()
    emptied(play, way, seconds, meanwhile)
    most = come_back(play, 0.3)
    assert len(play.plans) == 2
    assert play.plans[1]["members"] == len(NAMES)
    partitions = len(play.state.topics["t"].leader)
    assert set().union(*owned(play).values()) == set(range(partitions))
    assert most <= partitions // (len(NAMES) - 1)
    assert (owned(play)["m0"] == set()) is (meanwhile == "a drain")


def test_a_member_that_comes_back_alone_reads_everything_once_that_has_settled():
    play = led()
    emptied(play, "leave", 30)
    play.join(member("m0", incarnation="i2"))
    play.wait(1.5)
    assert owned(play) == {"m0": set(range(PARTITIONS))}


def test_a_group_without_members_gets_no_plan():
    play = led()
    emptied(play, "kill", TIMERS.dead_after + TIMERS.grant, "a drain")
    play.wait(300)
    assert len(play.plans) == 1

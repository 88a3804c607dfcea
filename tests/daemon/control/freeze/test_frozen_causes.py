"""Every pair of causes under a freeze: a refused one keeps none waiting that is carried out."""

from itertools import product

import pytest

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.control.play import SETTINGS, begun
from levelwind_testing.records import lever, member, racks_trigger, request, skew_trigger, topic

MEMBERS = ("m0", "m1", "m2", "m3")

ARRIVALS = {
    "request": lambda play: play.receive("control", request()),
    "lever": lambda play: play.receive("control", lever("drain", "m0")),
    "join": lambda play: play.join(member("new")),
    "racks": lambda play: play.receive("triggers", racks_trigger()),
    "skew": lambda play: play.receive("triggers", skew_trigger()),
    "leave": lambda play: play.leave("m3", "i1"),
    "growth": lambda play: play.receive("metadata", topic(racks=((),) * 8, at=200_000)),
}
"""What asks for a plan, by name."""

UNREAD = ("leave", "growth")
"""What leaves partitions without a reader: it is carried out whatever freezes planning."""

PAIRS = [
    *product([FreezeReason.METADATA], ("request", "lever", "join", "racks", "skew"), UNREAD),
    # Old lag alone does not bind an operator.
    *product([FreezeReason.LAG], ("join", "racks", "skew"), ("request", "lever", *UNREAD)),
]
"""Why planning is frozen, what is refused for that, and what is carried out all the same."""

SOON_SECONDS = SETTINGS.settle_max + 5.0
"""Seconds within which the plan must come: a change settles, and a look may have to wait."""


def frozen_group(reason):
    play = begun(topic(), planning=PlanSettings(strategy="optimal"))
    play.join(*(member(name) for name in MEMBERS))
    play.wait(6)
    play.frozen = {reason: "because"}
    play.wait(1)
    return play


def read_partitions(play):
    return set().union(*(ranges.parse(text) for text in play.owned().values() if text))


@pytest.mark.parametrize(("reason", "refused", "due"), PAIRS)
def test_what_waits_for_the_thaw_keeps_nothing_else_waiting(reason, refused, due):
    for step in range(13):
        play = frozen_group(reason)
        ARRIVALS[refused](play)
        play.wait(step / 2)
        before = len(play.plans)
        ARRIVALS[due](play)
        play.wait(SOON_SECONDS)
        assert len(play.plans) > before, f"{step / 2} s later"
        assert read_partitions(play) == set(range(len(play.state.topics["t"].leader)))


@pytest.mark.parametrize("order", ["request", "lever"])
def test_an_order_is_carried_out_at_the_thaw_after_a_plan_for_another_cause(order):
    play = frozen_group(FreezeReason.METADATA)
    ARRIVALS[order](play)
    play.wait(2)
    play.leave("m3", "i1")
    play.wait(SOON_SECONDS)
    assert [plan["cause"] for plan in play.plans] == ["membership", "membership"]
    assert (play.state.groups["g"].operator is not None) is (order == "request")
    suppressed = play.logged("plan.suppressed")
    assert [each["cause"] for each in suppressed].count("operator") == 1
    play.frozen = {}
    play.wait(12)
    assert "operator" in [plan["cause"] for plan in play.plans[2:]]
    assert play.state.groups["g"].operator is None
    if order == "lever":
        assert play.owned()["m0"] == ""


def test_an_order_that_waits_lets_a_member_come_back_that_was_evicted():
    play = frozen_group(FreezeReason.METADATA)
    play.receive("control", request())
    owned = play.owned()["m3"]
    play.kill("m3", "i1")
    play.wait(play.timers.dead_after + 5)
    assert play.logged("member.evicted")
    assert len(play.plans) == 1
    play.join(member("m3", incarnation="i2"))
    play.wait(play.timers.grant + 10)
    assert play.owned()["m3"] == owned
    assert len(play.plans) == 1

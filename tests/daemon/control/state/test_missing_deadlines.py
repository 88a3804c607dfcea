"""Deadlines that are missing: without any one of them a story goes another way.

It shows that the stories of `test_deadlines` can tell.
"""

from dataclasses import replace
from functools import lru_cache
from unittest.mock import patch

import pytest
from msgspec import structs

from levelwind.assignors.handover import patience
from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.control import controller
from levelwind.daemon.control.gain.overload import DemandWatch
from levelwind.daemon.control.members import start_bars
from levelwind.daemon.control.members.duplicate_instances import InstanceConflict
from levelwind.daemon.control.schedule import deciding
from levelwind.daemon.control.settings import CooldownSettings
from levelwind.daemon.control.state import deadlines
from levelwind.daemon.control.state.deadlines import AT_ONCE, NEVER
from levelwind_testing.control.deadline_story import Story
from levelwind_testing.control.play import SETTINGS, begun
from levelwind_testing.records import lag, member, skew_trigger, topic

decided_at, deadlines_of = deadlines._decided_at, deadlines.deadlines_of
silence_at, released_at = deadlines._silence_at, patience.released_at


def never(*_, **__):
    return NEVER


def no_thaw(group, timers, time):
    at = silence_at(group, timers, time)
    return NEVER if at == AT_ONCE else at


def no_publication(group, context):
    return decided_at(structs.replace(group, published_ledger=group.ledger), context)


def no_refusal(group, context, *, postponed_until, **options):
    until = None if postponed_until is None else NEVER
    return deadlines_of(group, context, postponed_until=until, **options)


def no_lost_records(group, context, **options):
    lost_at = None if group.records_lost_at is None else NEVER
    return deadlines_of(structs.replace(group, records_lost_at=lost_at), context, **options)


MISSING = {
    "silence": (4, 12, deadlines, "_silence_at", never),
    "the end of a freeze": (7, 40, deadlines, "_silence_at", no_thaw),
    "revocations and starts": (2, 12, patience, "overdue_at", never),
    "bars": (5, 40, start_bars, "checked_at", never),
    "contested instances": (1, 40, InstanceConflict, "checked_at", never),
    "evictions": (3, 12, patience, "released_at", lambda *a: (NEVER, released_at(*a)[1])),
    "evictions that are read": (
        10,
        12,
        patience,
        "released_at",
        lambda *a: (released_at(*a)[0], NEVER),
    ),
    "refused records": (2, 40, deciding, "deadlines_of", no_refusal),
    "lost records": (1, 12, deciding, "deadlines_of", no_lost_records),
    "publication": (8, 12, deadlines, "_decided_at", no_publication),
    "demand": (6, 12, DemandWatch, "due_at", never),
    "samples": (6, 12, controller, "sample_looked_at", never),
    "plans": (1, 12, deadlines, "planned_at", never),
}
"""Each with the seed and the number of happenings of a story that needs it."""


@lru_cache
def whole(seed, happenings):
    return Story(seed).tell(happenings)


@pytest.mark.parametrize("missing", MISSING)
def test_without_a_deadline_a_story_goes_another_way(missing):
    seed, happenings, target, name, substitute = MISSING[missing]
    expected = whole(seed, happenings)
    with patch.object(target, name, substitute):
        assert Story(seed).tell(happenings) != expected


def test_a_plan_is_evaluated_when_its_cooldown_ends_though_nothing_else_is_due():
    cooldown = CooldownSettings(duration=60.0, max_duration=240.0)
    play = begun(topic(), settings=replace(SETTINGS, cooldown=cooldown))
    play.join(member("m0"), member("m1"))
    play.wait(200)
    held = play.members["m0", "i1"].owned["t"]
    at = round(play.now * 1000)
    behind = [50_000 if number in held else 0 for number in range(4)]
    play.receive("lag", lag(*behind, at=at))
    play.receive("triggers", skew_trigger(at=at, since=at))
    play.wait(5)
    assert play.plans[-1]["cause"] == "skew"
    play.receive("triggers", Tombstone(("skew", "g")))
    play.wait(50)
    assert not play.logged("plan.evaluated")
    play.wait(10)
    assert len(play.logged("plan.evaluated")) == 1

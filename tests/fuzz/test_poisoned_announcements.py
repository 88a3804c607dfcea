"""Poisoned announcements: fields at their bounds and beyond, through the codec into the control.

No announcement ends the control, and none holds another group up: what the control does for each is
bounded in steps and in memory, far below what takes a second. A hundred thousand come by
`make soak`, a thousand in each run of the tests.
"""

import itertools
import json
from functools import partial
from random import Random

import pytest

from levelwind.assignors.protocol.records import Rejection, Tombstone, decode, encode, encode_key
from levelwind.daemon.control.boundary.control_events import RecordReceived
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.service.metrics import families
from levelwind_testing.control.play import Play
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.records import lag, member, request, topic
from levelwind_testing.steps import counted_steps, memory_traced, peak_bytes

QUICK, ALL = 1_000, 100_000
MOST_STEPS, MOST_BYTES = 500_000, 4 << 20
"""The most work in which the control may do one thing: a seventh of a second, eight times what it
takes."""
MEMORY_EVERY = 20
"""The memory of one in so many is measured, the steps of all others."""
TICKED_EVERY = 20
RESTARTED_EVERY = 5_000

INTEGERS = [-(2**63), -1, 0, 1, 2**31 - 1, 2**31, 2**39, 2**40 - 1, 2**40, 2**40 + 1, 2**53, 2**63]
NUMBERS = [1e-305, 5e-324, 1e-7, 1e-6, 1, 1e6, 1e6 + 1, 1e300, -1.0, 0, 2**70]
TEXTS = ["", "t", "x" * 1024, "x" * 1025, "\u0000", "\ud800", "🦀" * 300, "../..", "\n"]
OWNED = [
    {},
    {"t": "0-3"},
    {"t": "0-3", "no such topic": "7"},
    {"t": "2147483647"},
    {"t": "0-99999"},
    {"t": "0-999999"},
    {"t": "0-1000000"},
    {"t": "3-0"},
    {"": "0"},
    {f"t{number}": "0" for number in range(1000)},
]
TOPICS = [[], ["t"], ["t", "t"], ["no such topic"], [""], [f"t{number}" for number in range(1000)]]
STATES = ["joining", "active", "left", "gone"]
ANYTHING = [None, True, [], {}, "1", 1, 1.5, [[]], {"a": 1}]
KIND_OF_FIELD = {
    "capacity": NUMBERS,
    "owned": OWNED,
    "starting": OWNED,
    "topics": TOPICS,
    "features": TOPICS,
    "state": STATES,
    "nack": [None, {"epoch": 2**40, "code": "malformed"}, {"epoch": 0, "code": "start-failed"}],
}


def poisoned(draw):
    """The bytes of an announcement whose fields are at their bounds, or of another type."""
    instance, incarnation = f"m{draw.randrange(5)}", f"i{draw.randrange(8)}"
    key, value = encode(member(instance, incarnation=incarnation, state="active", group="poisoned"))
    fields = json.loads(value)
    for name in draw.sample(sorted(fields), draw.randrange(1, 4)):
        kinds = KIND_OF_FIELD.get(name) or (
            INTEGERS if isinstance(fields[name], int) else [*TEXTS, None]
        )
        fields[name] = draw.choice(ANYTHING if draw.randrange(10) == 0 else kinds)
    if draw.randrange(30) == 0:
        key = encode_key(("m", "poisoned", draw.choice(TEXTS[1:5]), incarnation))
    if draw.randrange(20) == 0:
        return key, None
    return key, json.dumps(fields).encode()


class Watched(Play):
    """A control whose work for each event is measured."""

    events_done = most_steps = most_bytes = 0

    def _do(self, event):
        self.events_done += 1
        do = partial(super()._do, event)
        if self.events_done % MEMORY_EVERY:
            effects, steps = counted_steps(do)
            self.most_steps = max(self.most_steps, steps)
        else:
            with memory_traced():
                effects, peak = peak_bytes(do)
            self.most_bytes = max(self.most_bytes, peak)
        return effects


def healthy_group():
    play = Watched(strategy="lag")
    play.start()
    play.receive("metadata", topic())
    play.receive("lag", lag(60_000, 0, 50_000, 0, at=round(play.now * 1000)))
    play.receive("lag", lag(9, 1, 0, 0, group="poisoned", at=round(play.now * 1000)))
    play.join(member("m0"), member("m1"))
    play.wait(3)
    return play


def follow(play, draw, count):
    """Feed the control poisoned announcements, and have it plan the healthy group all the while."""
    read = 0
    for number in range(count):
        key, value = poisoned(draw)
        record = decode("members", key, value)
        if not isinstance(record, Rejection):
            read += 1
            play._do(RecordReceived(kind="members", record=record))
        if number % TICKED_EVERY == 0:
            play.wait(1)
        if number % RESTARTED_EVERY == RESTARTED_EVERY - 1:
            play.restart()
            list(families(facts_about(play.state), play.now))
    return read


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [QUICK, pytest.param(ALL, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
    ids=["quick", "all"],
)
def test_poisoned_announcements_leave_the_control_and_other_groups_alone(count):
    draw = Random(drawn_seed(7))
    for share in (count // 2, count - count // 2):
        play = healthy_group()
        assert follow(play, draw, share) > share // 20
        assert 0 < play.most_steps < MOST_STEPS
        assert 0 < play.most_bytes < MOST_BYTES
        plans = len(play.plans)
        play.receive("control", request(at=1))
        play.wait(2)
        assert [plan["group"] for plan in play.plans[plans:]].count("g") == 1
        assert not play.logged("plan.failed")
        for record in itertools.islice(play.log, max(0, len(play.log) - 1_000), None):
            if not isinstance(record, Tombstone):
                encode(record)

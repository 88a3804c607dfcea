"""Records of any kind that were changed at random: what `decode` takes, the control can plan with.

A foreign or a faulty writer can put anything into levelwind's topics. A record that is refused is
counted and kept. One that is taken goes through whole turns of the control here, as it runs and as
it starts on what the topics hold, under a strategy that reads lag and one that reads racks, too.
"""

import json
from random import Random

import pytest

from levelwind.assignors.protocol.records import (
    LEVER_KINDS,
    NO_SUBJECT,
    LagRecord,
    MemberSpeed,
    PlannerRecord,
    ProposalRecord,
    Rejection,
    SpeedRecord,
    Tombstone,
    decode,
    encode,
)
from levelwind.assignors.protocol.unread_lag import left_unread
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.service.metrics import families
from levelwind_testing.control.play import Play
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.records import (
    assignment,
    lag,
    lever,
    member,
    plan,
    racks_trigger,
    request,
    skew_trigger,
    topic,
)

QUICK, ALL = 3_000, 100_000
IN_ONE_LIFE = 200
"""Records that one control takes in before another one starts on what they made."""

NUMBERS = [-(2**63), -2, -1, 0, 1, 2, 3, 4, 7, 2**31, 2**40, 2**53, 2**62, 2**63 - 1, 0.5, 1e300]
TEXTS = ["", "t", "u", "g", "a", "b", "m0", "i1", "\u0000", "x" * 249, "0-3", "-1", "9"]
ANYTHING = [None, True, False, [], {}, [[]], [None], {"t": []}, *NUMBERS, *TEXTS]


def changed(draw, value):
    """A JSON value with something in it changed: at any depth, mostly to what has its type."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name = draw.choice(sorted(value))
        match draw.randrange(12):
            case 0:
                return {key: item for key, item in value.items() if key != name}
            case 1:
                return value | {draw.choice(TEXTS): value[name]}
            case _:
                return value | {name: changed(draw, value[name])}
    if isinstance(value, list) and draw.random() < 0.9:
        where = draw.randrange(len(value)) if value else 0
        match draw.randrange(4):
            case 0:
                return value[:where] + value[where + 1 :]
            case 1:
                return [*value, value[where] if value else draw.choice(ANYTHING)]
            case _ if value:
                return [*value[:where], changed(draw, value[where]), *value[where + 1 :]]
    if draw.randrange(10) == 0:
        return draw.choice(ANYTHING)
    kind = TEXTS if isinstance(value, str) else NUMBERS
    return draw.choice(kind if value is not None else ANYTHING)


def life(strategy, *records):
    """A group with members, racks and lag; `records`: what the topics hold beside."""
    play = Play(strategy=strategy)
    play.start(
        topic("t", (("a",), ("b",), ("a", "b"), ())),
        topic("u", ((), ())),
        *records,
    )
    at = round(play.now * 1000)
    play.receive("lag", lag(60_000, 0, 50_000, 0, at=at))
    play.join(member("m0", rack="a"), member("m1", rack="b"))
    play.wait(3)
    return play


def seeds():
    """Bytes of good records of each kind that the control reads, each with its topic."""
    play = life("lag")
    full = lag(5, 6, 7, 8, at=100_500)
    column = (0,) * 4
    records = [
        *play.written,
        ("lag", full),
        (
            "lag",
            LagRecord(
                **{
                    name: getattr(full, name) for name in ("group", "topic", "at", "id", "end_kind")
                },
                committed=column,
                committed_at=column,
                begin=column,
                end=(9, 9, 9, 9),
                lag=(9, 9, 0, 9),
                lag_upper_bound=(1,),
                lost=column,
                stale=(0,),
                racks=(("a",), ("b",), ("a", "b"), ()),
                source={"__consumer_offsets/0": 4},
                rate=(1.5, None, 0.0, 2.0),
                velocity=(1.5, None, 0.0, 2.0),
                seconds=(1.5, None, 0.0, 2.0),
                seconds_lower_bound=(3,),
                end_read_at=column,
                reset=(2,),
                unclaimed=(-1, -1, 4, -1),
                data_end=(-1, 8, -1, -1),
                members=("m0", "m1"),
                member_racks=("a", None),
                owner=(0, 1, -1, 0),
                local=(True, False, None, None),
            ),
        ),
        ("lag", SpeedRecord(group="g", at=1, members={"m0": MemberSpeed(speed=10.0, sure=0.5)})),
        ("triggers", skew_trigger(at=100_000)),
        ("triggers", racks_trigger(at=100_000)),
        ("control", request(at=100_000)),
        *(("control", lever) for lever in levers()),
        (
            "control",
            ProposalRecord(
                group="g",
                at=100_000,
                plan_id="1-0",
                cause="skew",
                strategy="lag",
                basis="b",
                moves=1,
                before=None,
                after={"skew": 1.0},
                target={"m0": {"t": (0, 1)}, "m1": {"t": (2, 3), "u": (0, 1)}},
            ),
        ),
        ("assignments", plan()),
        ("assignments", assignment("m0", {"t": (0, 1)})),
    ]
    return [
        (kind, *encode(record))
        for kind, record in records
        if not isinstance(record, PlannerRecord | Tombstone)
    ]


def levers():
    subjects = {"pin": "t/1", "drain": "m0", "evacuate": "a"}
    settings = {"pin": "m1", "strategy": "optimal"}
    for kind in LEVER_KINDS:
        yield lever(kind, subjects.get(kind, NO_SUBJECT), settings.get(kind), at=100_000)


def take(play, kind, key, value):
    """Feed the control a record as the daemon would; whether it was one that can be read."""
    record = decode(kind, key, value)
    if isinstance(record, Rejection):
        return False
    if isinstance(record, LagRecord):
        play._read(kind, left_unread(record.group, record.topic, value))
    play._read(kind, record)
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [QUICK, pytest.param(ALL, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])],
    ids=["quick", "all"],
)
@pytest.mark.parametrize("strategy", ["lag", "optimal"])
def test_what_is_taken_can_be_planned_with(strategy, count):
    draw = Random(drawn_seed(11))
    good = seeds()
    taken = 0
    for _ in range(count // IN_ONE_LIFE):
        play, kept = life(strategy), []
        for _ in range(IN_ONE_LIFE):
            kind, key, value = draw.choice(good)
            fields = json.loads(value)
            for _ in range(draw.randrange(1, 4)):
                fields = changed(draw, fields)
            value = json.dumps(fields).encode()
            if draw.randrange(10) == 0:
                key = json.dumps(
                    [*json.loads(key)[:-1], draw.choice(["t/9", "t/x", *TEXTS])]
                ).encode()
            if take(play, kind, key, value):
                taken += 1
                kept.append((kind, key, value))
            play.wait(0.5)
            assert not play.logged("plan.failed"), (kind, key, value, kept[-3:])
        play.wait(70)
        assert not play.logged("plan.failed"), kept
        list(families(facts_about(play.state), play.now))
        play.restart()
        play.wait(70)
        assert not play.logged("plan.failed"), kept
    assert taken > count // 20

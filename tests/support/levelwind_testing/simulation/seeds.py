"""Worlds by seed: most of them small, since two members and one planner suffice for most faults."""

from dataclasses import dataclass
from random import Random

from levelwind.assignors import STRATEGIES
from levelwind.assignors.handover.timers import Timers
from levelwind_testing.simulation.faults import APPLY, AT_AN_EFFECT, OF_A_MEMBER, Fault
from levelwind_testing.simulation.world import World, WorldSettings

MEMBER_TIMERS = (
    Timers(),
    Timers(),
    Timers(hold=32.0, commit=20.0, grant=60.0),
    Timers(hold=12.0, guard=3.0, commit=6.0, grant=24.0),
)
"""A member's own; the planner waits by the longer of both."""
PLANNING = (*sorted(STRATEGIES), *["optimal"] * len(STRATEGIES))
"""Every strategy, and the default one as often as all together."""
COUNTS = (1, 2, 2, 3, 3, 4, 5, 7)
"""Members of a group that is alone; two groups have fewer, and each one more that may join."""
WEIGHTS = {
    "kill": 3,
    "pause": 3,
    "request": 3,
    "other lag": 4,
    "planner killed": 3,
    "slow handlers": 3,
    "cut": 2,
    "cut answers": 2,
    "deposed leader": 2,
    # By schedule only: docs/limitations.md says what a planner cannot know after it.
    "own topics anew": 0,
}
"""How often a kind is drawn; 1 for those that are not here."""


@dataclass(frozen=True)
class Draw:
    """What the faults of one world can be about."""

    kinds: list
    instances: list
    spares: list
    groups: list
    topics: list
    machines: list
    horizon: float


def settings_of(seed):
    random = Random(f"{seed}/settings")
    group_count = random.choice((1, 1, 2))
    groups, instances = {}, {}
    for name in ("g", "h")[:group_count]:
        groups[name] = random.choice((("t",), ("t", "u")))
        count = random.choice(COUNTS) if group_count == 1 else random.choice((1, 2, 3))
        instances[name] = tuple(f"{name}{number}" for number in range(count + 1))
    return WorldSettings(
        groups=groups,
        instances=instances,
        outside=frozenset(names[-1] for names in instances.values()),
        topics={"t": random.choice((2, 3, 4, 9)), "u": 2},
        machines=random.choice((1, 2, 3)),
        own_partitions=random.choice((1, 2)),
        strategy=random.choice(PLANNING),
        member_timers=random.choice(MEMBER_TIMERS),
        max_poll_interval=random.choice((8.0, 20.0, 40.0)),
        broker_fenced=frozenset(name for name in groups if random.random() < 0.25),
    )


def draw_of(settings):
    return Draw(
        kinds=[kind for kind in APPLY for _ in range(WEIGHTS.get(kind, 1))],
        instances=sorted(
            {name for names in settings.instances.values() for name in names} - settings.outside
        ),
        spares=sorted(settings.outside),
        groups=list(settings.groups),
        topics=list(settings.topics),
        machines=[f"machine{number}" for number in range(settings.machines)],
        horizon=settings.horizon,
    )


PAUSES = (2.0, 7.0, 14.0, 19.0, 24.0, 40.0, 60.0)
"""Around the guard, the lease, and the wait before a grant."""


SECONDS = {
    "kill": (0.0, 0.1, 1.0, 5.0, 20.0),
    "planner killed": (0.1, 1.0, 5.0, 20.0, 40.0),
    "leave": (0.0, 0.5, 10.0),
    "second planner": (0.0, 0.0, 5.0, 30.0),
    "deposed leader": (20.0, 45.0, 90.0, 150.0),
    "planner's deposed leader": (20.0, 45.0, 90.0),
    "own topics anew": (0.1, 2.0, 20.0),
    **dict.fromkeys(("request", "other lag", "join", "compaction", "topic grows"), (0.0,)),
}
"""Lengths of faults, or the time until what was killed is started again."""
AMOUNTS = {
    **dict.fromkeys(("slow link", "planner's slow link"), (0.5, 3.0, 9.0)),
    **dict.fromkeys(("lagging reader", "planner's lagging reader"), (1.0, 6.0, 18.0)),
    **dict.fromkeys(
        ("cut", "cut requests", "cut answers", "outage", "planner cut off"), (0.0, 1.0)
    ),
    "late answers": (2.0, 9.0, 14.0),
    "late markers": (1.0, 5.0, 12.0),
    "slow handlers": (0.3, 1.0, 1.0, 1.2),
    "other lag": tuple(map(float, range(50))),
}


def random_faults(random, draw):
    """The faults of a seed; `draw` names what they can be about."""
    faults = []
    for _ in range(random.randint(3, 9)):
        kind = random.choice(draw.kinds)
        at = round(random.uniform(12.0, draw.horizon), 2)
        faults.append(_random_fault(random, draw, kind, at))
        if random.random() < 0.35:
            # Faults meet: one more within the waits of the first.
            kind = random.choice(draw.kinds)
            later = round(at + random.uniform(0.0, 45.0), 2)
            faults.append(_random_fault(random, draw, kind, later))
    return sorted(faults, key=lambda fault: (fault.at, fault.kind, fault.target))


def _random_fault(random, draw, kind, at):
    return Fault(
        at=at,
        kind=kind,
        target=random.choice(_targets(draw, kind)),
        seconds=random.choice(SECONDS.get(kind, PAUSES)),
        amount=random.choice(AMOUNTS.get(kind, (0.0,))),
        effect=random.randrange(6) if kind in AT_AN_EFFECT and random.random() < 0.5 else None,
    )


def _targets(draw, kind):
    if kind in OF_A_MEMBER:
        return draw.instances
    return {
        "request": draw.groups,
        "other lag": draw.groups,
        "topic gone": draw.topics,
        "topic grows": draw.topics,
        "sleep": draw.machines,
        "join": draw.spares,
    }.get(kind, [""])


def faults_of(seed, settings):
    return random_faults(Random(f"{seed}/faults"), draw_of(settings))


def world_of(seed, **options):
    """The world of a seed, with its faults."""
    settings = settings_of(seed)
    return World(seed, settings, faults_of(seed, settings), **options)

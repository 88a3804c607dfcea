"""Handlers up to `max.poll.interval.ms`, and a plan every 20 seconds: no two owners."""

import pytest

from levelwind_testing.simulation.faults import Fault
from levelwind_testing.simulation.world import World, WorldSettings


def world(seconds, seed):
    names = tuple(f"m{number}" for number in range(8))
    settings = WorldSettings(
        groups={"g": ("t", "u")},
        instances={"g": names},
        topics={"t": 12, "u": 4},
        strategy="lag",
        max_poll_interval=300.0,
    )
    faults = [
        Fault(at=10.0, kind="slow handlers", target=name, seconds=seconds - 10.0, amount=1.0)
        for name in names
    ]
    faults += [
        Fault(at=at, kind="other lag", target="g", amount=at)
        for at in range(20, round(seconds), 20)
    ]
    return World(seed, settings, sorted(faults, key=lambda fault: fault.at))


def run(seconds, seed):
    simulated = world(seconds, seed)
    simulated.begin()
    simulated.inject_all()
    simulated.scheduler.run(seconds)
    moved = sum(offset > 0 for offset in simulated.checks.frontier.values())
    assert moved > 4, "the handlers work on something"


def test_five_minutes():
    run(300.0, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_half_an_hour(seed):
    run(1800.0, seed)

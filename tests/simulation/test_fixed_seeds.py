"""The fixed seeds of the simulation: in none of them a property of the protocol is broken.

The first ones are part of the quick tests, all of them of `make test`; `make soak` runs others.
"""

import pytest

from levelwind_testing.simulation.invariants import ViolationError
from levelwind_testing.simulation.seeds import faults_of, settings_of, world_of
from levelwind_testing.simulation.shrinking import report

SEEDS, AT_ONCE = 250, 10


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(AT_ONCE, SEEDS, AT_ONCE))],
)
def test_no_property_is_broken_in_any_seed(first):
    for seed in range(first, first + AT_ONCE):
        try:
            world_of(seed).run()
        except ViolationError:
            settings = settings_of(seed)
            pytest.fail(report(seed, settings, faults_of(seed, settings)), pytrace=False)


def test_a_seed_decides_everything():
    runs = [world_of(7, tracing=True) for _ in range(2)]
    for world in runs:
        world.run()
    assert runs[0].lines == runs[1].lines
    assert runs[0].scheduler.steps == runs[1].scheduler.steps
    assert runs[0].faults

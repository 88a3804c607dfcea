"""Each rule of the protocol is needed: without it, its schedule makes two owners, or the like."""

import pytest

from levelwind_testing.simulation.invariants import ViolationError
from levelwind_testing.simulation.mutants import MUTANTS

pytestmark = pytest.mark.slow

SEEDS = range(1, 9)
"""The seed decides the delays; the schedule is the same."""


def violations(mutant, *, mutated):
    found = []
    for seed in SEEDS:
        try:
            mutant.run(seed=seed, mutated=mutated)
        except ViolationError as violation:
            found.append(str(violation))
    return found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant):
    assert violations(mutant, mutated=True)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_schedule_breaks_nothing_of_the_protocol_as_it_is(mutant):
    assert violations(mutant, mutated=False) == []

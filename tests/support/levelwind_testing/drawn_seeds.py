"""Seeds of tests that draw: the same in each `make test`, fresh and printed in `make rare`.

The variable DRAWN_SEED chooses: a number is the seed of all tests, and `fresh` draws one for
each of them. Without it each test has a seed of its own that stays.
"""

import os
from collections.abc import Callable
from random import SystemRandom
from typing import Any

import pytest

VARIABLE = "DRAWN_SEED"
FRESH = "fresh"
FIXED = 27
"""The seed of a test that names no other."""


def drawn_seed(fixed: int = FIXED) -> int:
    """The seed of a test, printed as the variable that repeats it."""
    chosen = os.environ.get(VARIABLE, str(fixed))
    seed = SystemRandom().randrange(2**32) if chosen == FRESH else int(chosen)
    print(f"{VARIABLE}={seed}")
    return seed


def fixed_and_fresh_seeds(*, fixed: int, fresh: int) -> Callable[..., Any]:
    """A fixture of a module: so many seeds from 0, and in `make rare` so many from a drawn one."""
    counts = {"fixed": fixed, "fresh": fresh}
    params = ["fixed", pytest.param("fresh", marks=pytest.mark.rare)]

    @pytest.fixture(scope="module", params=params)
    def seeds(request: pytest.FixtureRequest) -> range:
        first = 0 if request.param == "fixed" else drawn_seed()
        return range(first, first + counts[request.param])

    return seeds

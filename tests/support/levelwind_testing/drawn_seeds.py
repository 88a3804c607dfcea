"""Seeds of tests that draw: the same in each `make test`, fresh and printed in `make rare`.

The variable DRAWN_SEED chooses: a number is the seed of all tests, and `fresh` draws one for
each of them. Without it each test has a seed of its own that stays.
"""

import os
from random import SystemRandom

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

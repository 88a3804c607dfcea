"""Number of examples of a property test, by the profile of the run."""

from hypothesis import settings

FULL = 100
"""Examples of a test that names no number, in `make soak`, which draws others each time."""
TEST = 50
"""The same in `make test`, whose examples are the same each time."""
QUICK = 10
"""The same in `make quick`."""


def examples(full: int) -> int:
    """Return a test's number of examples, of which each run takes the same share as of others.

    Args:
        full: examples in `make soak`.
    """
    return max(1, full * settings.default.max_examples // FULL)

"""Number of examples of a property test, by the profile of the run."""

from hypothesis import settings

FULL = 100
"""Examples of a test that names no number, in a full run."""
QUICK = 10
"""The same in `make quick`."""


def examples(full: int) -> int:
    """Return a test's number of examples, of which a quick run takes the same share as of others.

    Args:
        full: examples in a full run.
    """
    return max(1, full * settings.default.max_examples // FULL)

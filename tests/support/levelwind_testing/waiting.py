"""The one way in which tests wait: look for an event again and again, with a generous end.

No test judges the clock. An end only turns a test red that would otherwise hang, so it is far
longer than what is awaited takes on a busy machine. A test that shows that nothing happens waits
for an event that comes after what must not have happened.
"""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

GENEROUS_SECONDS = 120.0
"""How long a test waits for an event that names no longer time."""
LOOK_SECONDS = 0.05
"""Pause between two looks."""


def wait_until(
    what: str,
    question: Callable[[], Answer],
    within: float = GENEROUS_SECONDS,
    *,
    pause: float = LOOK_SECONDS,
    shown: Callable[[], object] = lambda: "",
) -> Answer:
    """Ask until the answer is true, and return it.

    Args:
        what: the event, for the text of a failure.
        question: asked again after each pause; what it raises ends the wait, so it may also check
            that a process still runs.
        within: seconds after which the wait has failed.
        pause: seconds between two questions; 0 where the question itself waits.
        shown: asked for what a failure shows besides.

    Raises:
        AssertionError: the answer was not true within that time.
    """
    until = time.monotonic() + within
    while not (answer := question()):
        assert time.monotonic() < until, f"no {what} within {within:g} s\n{shown()}"
        if pause:
            time.sleep(pause)
    return answer

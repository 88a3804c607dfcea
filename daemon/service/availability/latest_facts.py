"""The latest facts about the control, for the threads that show them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from levelwind.daemon.control.state.control_facts import ControlFacts, facts_about

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.daemon.control.state.control_state import ControlState

PATIENCE_SECONDS = 0.7
"""Longest wait for newer facts: more than a tick, less than a probe waits for its answer. A planner
that is busy for longer is shown as it was."""
FRESH_SECONDS = 1.0
"""Age of facts for which nobody waits for newer ones."""
WANTED_SECONDS = 3.0
"""Time after a question in which facts are taken again and again: a page asks every second."""


class LatestFacts:
    """Facts that the control's thread takes between two steps, while anybody asks for them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without facts; the first are taken unasked.

        Args:
            clock: returns seconds that only grow.
        """
        self._clock = clock
        self._facts: ControlFacts | None = None
        self._taken_at = float("-inf")
        self._wanted_until = float("inf")
        self._taken = threading.Condition()

    def offer(self, state: ControlState) -> None:
        """Take the facts while they are wanted; the control's thread calls this at each tick."""
        at = self._clock()
        if at > self._wanted_until:
            return
        facts = facts_about(state)
        with self._taken:
            if self._facts is None:
                self._wanted_until = at
            self._facts, self._taken_at = facts, at
            self._taken.notify_all()

    def get(self, patience: float = 0.0) -> ControlFacts | None:
        """Return the latest facts; any thread may call this.

        Args:
            patience: seconds to wait at most for newer ones, where nobody has asked for a while.

        Returns:
            None before the control leads.
        """
        at = self._clock()
        with self._taken:
            if self._facts is None:
                return None
            self._wanted_until = at + WANTED_SECONDS
            if patience and self._taken_at < at - FRESH_SECONDS:
                self._taken.wait_for(lambda: self._taken_at >= at, patience)
            return self._facts

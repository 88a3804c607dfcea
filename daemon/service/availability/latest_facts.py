"""The latest facts about the control, for the threads that show them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from levelwind.daemon.control.state.control_facts import ControlFacts, facts_about

if TYPE_CHECKING:
    from levelwind.daemon.control.controller import ControlState

PATIENCE_SECONDS = 0.8
"""Longest wait for facts that are new: more than a tick, less than a probe waits for its answer.
A planner that is busy for longer is shown as it was."""


class LatestFacts:
    """Facts that the control's thread takes between two steps, if anybody has asked for them."""

    def __init__(self) -> None:
        self._facts: ControlFacts | None = None
        self._asked = True
        self._taken = threading.Condition()

    def offer(self, state: ControlState) -> None:
        """Take the facts if they were asked for since the last time; the control's thread calls."""
        if not self._asked:
            return
        self._asked = False
        facts = facts_about(state)
        with self._taken:
            self._facts = facts
            self._taken.notify_all()

    def get(self, patience: float = 0.0) -> ControlFacts | None:
        """Return the latest facts; any thread may call this.

        Args:
            patience: seconds to wait at most for facts that are taken from now on. 0: the facts are
                those that were taken after the last call, which may be long ago.

        Returns:
            None if none were ever taken.
        """
        with self._taken:
            before, self._asked = self._facts, True
            if patience and before is not None:
                self._taken.wait_for(lambda: self._facts is not before, patience)
            return self._facts

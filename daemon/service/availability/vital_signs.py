"""Vital signs of the inputs of a term, gathered from its threads for the freeze of planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.control.freeze.conditions import (
    ClockWatch,
    InputWatch,
    Vitals,
    frozen_reasons,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.assignors.protocol.records import PipelineRecord
    from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
    from levelwind.daemon.control.settings import ControlSettings

STEP_SECONDS = 0.5
"""Least seconds of a step of the wall clock; a smaller one delays a tick by less than this."""


class VitalSigns:
    """What is known of the inputs; each field is written by one thread, and read by any."""

    def __init__(
        self,
        settings: Callable[[], ControlSettings],
        now: float,
        at: int,
        on_clock_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin a term.

        Args:
            settings: returns the limits, which change when the settings are read again.
            now: boot seconds.
            at: the wall clock, in milliseconds since the epoch.
            on_clock_step: called by `look` after each step of the wall clock, also after one that
                is too small for a freeze, or that came before the first look: the observer's jobs
                are timed by the wall clock from the term's beginning.
        """
        self._settings = settings
        self._on_clock_step = on_clock_step
        self._clock = self._steps = ClockWatch(now=now, at=at)
        self._input = InputWatch()
        self._layout_at = now
        self._brokers = (0, 0)
        self._lag_at: int | None = None
        self._record: PipelineRecord | None = None

    # The observer's threads.

    def on_layout(self, now: float) -> None:
        """Note that the cluster answered for its layout."""
        self._layout_at = now

    def on_brokers(self, brokers: int, silent: int) -> None:
        """Note how many brokers hold partitions, and how many of them do not answer."""
        self._brokers = (brokers, silent)

    # The main thread.

    def look(
        self, now: float, at: int, record: PipelineRecord | None, lag_at: int | None
    ) -> Mapping[FreezeReason, str]:
        """Look at the clocks and at what was read; return why planning is frozen.

        Args:
            now: boot seconds.
            at: the wall clock, in milliseconds since the epoch.
            record: the newest record of the pipeline.
            lag_at: time of the newest sample of lag, in milliseconds since the epoch.
        """
        self._clock = self._clock.looked(now, at, self._settings().freeze.clock_jump)
        before = self._steps.jumped_at
        self._steps = self._steps.looked(now, at, STEP_SECONDS)
        if self._steps.jumped_at != before:
            self._on_clock_step()
        self._lag_at = lag_at
        if record is not None and record is not self._record:
            self._record, self._input = record, self._input.read(record)
        return self.reasons(now, at)

    # Any thread.

    def reasons(self, now: float, at: int) -> Mapping[FreezeReason, str]:
        """Return why planning is frozen at a moment, as `look` says it."""
        brokers, silent = self._brokers
        vitals = Vitals(
            clock=self._clock,
            layout_at=self._layout_at,
            brokers=brokers,
            silent_brokers=silent,
            input=self._input,
            lag_at=self._lag_at,
        )
        return frozen_reasons(vitals, self._settings(), now, at)

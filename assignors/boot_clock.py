"""Clock of the hand-over: seconds that neither jump nor stand still while the machine sleeps."""

from __future__ import annotations

import sys
import time


def boot_seconds() -> float:
    """Seconds since some fixed moment, sleep of the machine included.

    Every wait that keeps two owners apart is measured with this clock, by the planner and by the
    members. On Linux it is `CLOCK_BOOTTIME`, because `CLOCK_MONOTONIC` stands still in a sleep. On
    macOS the system's own `CLOCK_MONOTONIC` goes on in a sleep, while `time.monotonic` does not.
    Elsewhere it is `time.monotonic`.
    """
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


def _clock_id() -> int | None:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.CLOCK_BOOTTIME
    if sys.platform == "darwin":
        return time.CLOCK_MONOTONIC
    return None


_CLOCK = _clock_id()

"""The wall clock in the unit of the records: milliseconds since the epoch."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time as records have it; for durations take `time.monotonic`."""
    return time.time_ns() // 1_000_000

"""The C library's allocator in a process of many threads: few arenas, and free memory given back.

Each Kafka client has some threads. The C library (glibc) gives each thread an arena of its own, up
to eight a core, and keeps in each what its thread freed: beside 10,000 partitions 47 of 184 MB. On
other systems both functions do nothing.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

ARENAS = 2
"""The most arenas. Threads that wait for each other's allocations lose microseconds."""
GIVE_BACK_SECONDS = 30.0
"""Time from one `give_back` to the next in a daemon."""

_M_ARENA_MAX = -8
_LIBRARY: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def use_few_arenas() -> None:
    """Bound the number of arenas; to be called before threads are started."""
    if hasattr(_LIBRARY, "mallopt"):
        _LIBRARY.mallopt(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Give pages that hold nothing but freed memory back to the system; takes milliseconds."""
    if hasattr(_LIBRARY, "malloc_trim"):
        _LIBRARY.malloc_trim(0)

"""Memory of a process with many threads, a large heap and little garbage.

Each Kafka client has some threads. The C library (glibc) gives each thread an arena of its own, up
to eight a core, and keeps in each what its thread freed: beside 10,000 partitions 47 of 184 MB. On
other systems the two functions about it do nothing.

Reference counts free almost everything that the daemon drops: records, states of groups, events.
The cyclic collector finds next to nothing, and goes through the whole heap for it, again and again:
beside 5,000 groups that took more CPU than all their news.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

ARENAS = 2
"""The most arenas. Threads that wait for each other's allocations lose microseconds."""

GIVE_BACK_SECONDS = 30.0
"""Time from one `give_back` to the next in a daemon."""

YOUNG_OBJECTS = 50_000
"""Objects made beyond those freed after which the young ones are gone through. With Python's 700
the collector ran 150 times a second beside the news of 5,000 groups."""

OLDER_EVERY = 20
"""Collections of one generation after which the next older one is gone through, too."""

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


def collect_rarely() -> None:
    """Let the collector run after as many objects as cycles could be worth looking for."""
    gc.set_threshold(YOUNG_OBJECTS, OLDER_EVERY, OLDER_EVERY)


def keep_heap() -> None:
    """Collect once, and leave what is alive now out of all later collections.

    It takes about 0.4 µs an object. What is freed later by its reference count is freed as ever.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()

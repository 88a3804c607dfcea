"""A wait on both clocks: the boot clock, and the monotonic one by which librdkafka waits."""

from __future__ import annotations

import time
from typing import NamedTuple, Self

from levelwind.assignors.boot_clock import boot_seconds


class Deadline(NamedTuple):
    """A moment on two clocks; it has passed once it has passed on both.

    librdkafka holds a request back by the monotonic clock, which stands still while the machine
    sleeps: a wait by the boot clock alone would end in a sleep, before the request was given up.
    """

    boot: float
    monotonic: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """The moment `seconds` from now."""
        return cls(boot_seconds() + seconds, time.monotonic() + seconds)

    @property
    def passed(self) -> bool:
        """Whether the moment lies behind on both clocks."""
        return boot_seconds() >= self.boot and time.monotonic() >= self.monotonic


PASSED = Deadline(float("-inf"), float("-inf"))
"""A moment that has passed."""

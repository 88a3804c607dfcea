"""The boot clock of managed members and their planner in a test's process, which may jump.

A lease ends unless its member renews it. So where a member is to live on, the clock jumps in steps
of little more than a heartbeat, and each of them awaits a renewal.
"""

import time
from collections.abc import Callable
from typing import Any

from levelwind_testing.waiting import wait_until


class JumpingClock:
    """Stands for the module `time` in `levelwind.assignors.boot_clock`.

    While it is stopped, `poll` and `consume` return only what was asked for with a time-out of 0.
    """

    def __init__(self) -> None:
        self._ahead = 0.0
        self._stopped_at: float | None = None

    def clock_gettime(self, _clock: int) -> float:
        """Seconds of the clock."""
        stopped_at = self._stopped_at
        return time.monotonic() + self._ahead if stopped_at is None else stopped_at

    def monotonic(self) -> float:
        """Seconds of the clock, for a system without a boot clock."""
        return self.clock_gettime(0)

    def jump(self, seconds: float) -> float:
        """Be later by that many seconds at once; return the new time."""
        if self._stopped_at is None:
            self._ahead += seconds
        else:
            self._stopped_at += seconds
        return self.monotonic()

    def stop(self) -> None:
        """Stand still between jumps, however long the machine takes for what happens then."""
        self._stopped_at = self.monotonic()

    def go_on(self) -> None:
        """Run again, from where the clock stands."""
        self._ahead = self.monotonic() - time.monotonic()
        self._stopped_at = None

    def pass_for(
        self, consumer: Any, seconds: float, serve: Callable[[], object] = lambda: None
    ) -> None:
        """Be later by that many seconds, while a member's lease is renewed again and again.

        Args:
            consumer: the `ManagedConsumer` of the member.
            seconds: how much later.
            serve: called meanwhile.
        """
        follower = consumer._follower
        passed, step = 0.0, step_of(consumer)
        while passed < seconds:
            landed = self.jump(step)
            passed += step

            def renewed(landed: float = landed) -> bool:
                serve()
                return bool(follower.lease.until >= landed + follower.lease.hold)

            wait_until("renewal of the lease", renewed)


def step_of(consumer: Any) -> float:
    """Seconds after which a member announces itself again and asks for the end of its records."""
    return float(consumer._follower._machine.timers.heartbeat) + 0.01

"""True time, the machines' clocks, and the queue of everything that will happen.

One step is one entry of the queue. An entry of a process that is paused, or whose machine sleeps,
waits until the process goes on; an entry of a dead process is dropped.
"""

import heapq
from dataclasses import dataclass, field

LARGEST_RATE_ERROR = 4.9e-4
"""Two clocks then differ in their rates by less than 1e-3."""


class Scheduler:
    """The queue, in the order of true time in seconds."""

    def __init__(self):
        self.now = 0.0
        self.steps = 0
        self.delayed_until = 0.0
        """When the last of what faults delayed arrives."""
        self._entries = []
        self._number = 0

    def at(self, time, process, action, *args):
        """Put an entry into the queue; `process` is None for what the brokers do."""
        self._number += 1
        heapq.heappush(self._entries, (time, self._number, process, action, args))

    def first(self, time, process, action, *args):
        """Put an entry before all others of its time."""
        self._number += 1
        heapq.heappush(self._entries, (time, -self._number, process, action, args))

    def after(self, delay, process, action, *args):
        self.at(self.now + delay, process, action, *args)

    def delayed(self, until):
        """Note that a fault delays something until a time: it has not ended before."""
        self.delayed_until = max(self.delayed_until, until)

    def spawn(self, process, thread):
        """Run a generator that yields the seconds until it goes on."""
        self.at(self.now, process, self._resume, process, thread)

    def _resume(self, process, thread):
        delay = next(thread, None)
        if delay is not None:
            self.at(self.now + delay, process, self._resume, process, thread)

    def run(self, until):
        entries, pop, push = self._entries, heapq.heappop, heapq.heappush
        while entries and entries[0][0] <= until:
            entry = pop(entries)
            time, number, process, action, args = entry
            if process is not None:
                if not process.alive:
                    continue
                if process.stopped_until > time:
                    push(entries, (process.stopped_until, number, process, action, args))
                    continue
            self.now = time
            self.steps += 1
            action(*args)
        self.now = until


@dataclass
class Machine:
    """A computer with clocks of their own rate; its processes stand still while it sleeps."""

    name: str
    rate: float
    offset: float
    sleeps: list = field(default_factory=list)
    """Begin and end of each sleep, in true time."""

    def boot_seconds(self, now):
        return self.offset + self.rate * now

    def monotonic_seconds(self, now):
        """A clock that stops while the machine sleeps."""
        slept = sum(min(end, now) - begin for begin, end in self.sleeps if begin < now)
        return self.offset + self.rate * (now - slept)


class Process:
    """Anything that runs on a machine and may be killed or stopped."""

    def __init__(self, scheduler, name, machine, random):
        self.scheduler = scheduler
        self.name = name
        self.machine = machine
        self.random = random
        self.alive = True
        self.stopped_until = 0.0
        self.countdown = None
        """Effects until a planned end or stop; None without one."""
        self.at_countdown = None

    def stop_for(self, seconds):
        """Stop the process, as SIGSTOP does, until SIGCONT."""
        self.stopped_until = max(self.stopped_until, self.scheduler.now + seconds)

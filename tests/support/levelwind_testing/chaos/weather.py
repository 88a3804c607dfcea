"""Random faults of a chaos run, drawn from one seed: to whom, when, and for how long."""

import heapq
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from levelwind.assignors.handover.timers import Timers
from levelwind_testing.chaos.crew import Member, PlannerProcess
from levelwind_testing.chaos.proxied_cluster import ProxiedCluster, broker_name
from levelwind_testing.chaos.proxy_process import HELD, LinkFault
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

log = logging.getLogger("chaos.weather")

MAX_BROKEN_LINKS = 2
"""Link faults at a time."""
SHORT_LINK_FAULTS = 2 / 3
"""Share of the drops and black holes that end before the partitions have other owners."""
PLAN_SECONDS = 4.0
"""The longest wait for the plan in whose hand-over the daemon is killed."""
LEAST_RUNNING = 0.5
"""Share of the members that run at any time."""


@dataclass(order=True, slots=True)
class Recovery:
    """The end of a fault."""

    at: float
    """Monotonic time."""
    number: int
    kind: str = field(compare=False)
    act: Callable[[], object] = field(compare=False)


class Weather:
    """Faults that begin at random and end after a while; one thread calls every method."""

    def __init__(
        self,
        seed: int,
        cluster: ProxiedCluster,
        members: Sequence[Member],
        planner: PlannerProcess,
        timers: Timers,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._cluster = cluster
        self._proxy = cluster.proxy
        self._members = members
        self._planner = planner
        self._timers = timers
        self._recoveries: list[Recovery] = []
        self._numbers = count()
        self._links = 0
        self._broker_fault: Future[object] | None = None
        self._slow = ThreadPoolExecutor(8)
        self._tasks: list[Future[object]] = []
        self._ending: set[str] = set()
        self._faults: dict[str, tuple[float, Callable[[], bool]]] = {
            "member killed": (6, self._kill_member),
            "member killed, its last bytes late": (4, self._kill_with_late_bytes),
            "member stopped": (10, self._stop_member),
            "member ended": (4, self._end_member),
            "link delayed": (2, lambda: self._break_link(delay=True, up=True, down=True)),
            "link drops one way, up": (2, lambda: self._break_link(up=True)),
            "link drops one way, down": (2, lambda: self._break_link(down=True)),
            "link is a black hole": (2, lambda: self._break_link(up=True, down=True)),
            "connections reset": (4, self._reset),
            "broker restarted": (1, self._restart_broker),
            "broker cut off from the others": (1, lambda: self._cut_broker(0)),
            "broker and a member cut off": (1, lambda: self._cut_broker(1)),
            "daemon killed": (1, self._kill_planner),
            "daemon killed in a hand-over": (1, self._kill_planner_in_handover),
        }

    @property
    def kinds(self) -> list[str]:
        """The names of all kinds of faults."""
        return list(self._faults)

    def blow(
        self,
        seconds: float,
        pause: float,
        only: Sequence[str] = (),
        *,
        enough: Callable[[], bool] = lambda: True,
    ) -> None:
        """Let faults begin for some seconds, one every `pause` seconds on average.

        First one of each kind, in random order; then kinds by their weights. It goes on while a
        kind has not begun yet or `enough` is false, but no longer than `GENEROUS_SECONDS` more.

        Args:
            seconds: length of the time.
            pause: mean seconds between two faults.
            only: the kinds of faults; none: all kinds.
            enough: asked after each fault beyond that time.
        """
        until = time.monotonic() + seconds
        next_at = time.monotonic()
        names = list(only or self._faults)
        weights = [self._faults[name][0] for name in names]
        first = deque(self._random.sample(names, len(names)))
        while True:
            now = time.monotonic()
            self._recover(now)
            if now >= next_at:
                done = not first and enough() if now >= until else False
                if done or now >= until + GENEROUS_SECONDS:
                    return
                name = first.popleft() if first else self._random.choices(names, weights)[0]
                if self._faults[name][1]():
                    self.counts[name] += 1
                    log.info("%s", name)
                elif not self.counts[name]:
                    first.append(name)  # it is possible once another fault is over
                next_at = time.monotonic() + self._random.expovariate(1 / pause)
            time.sleep(0.05)

    def come_and_go(self, seconds: float, pause: float) -> None:
        """Let one member after another leave and come back, so that there is always a new plan."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._end_member():
                self.counts["member ended"] += 1
            time.sleep(pause)

    def calm(self) -> None:
        """End every fault, and start again what is down."""
        self._recover(float("inf"))
        self._slow.shutdown(wait=True)
        for task in (*self._tasks, *filter(None, [self._broker_fault])):
            task.result()
        self._proxy.end_all()
        for member in self._members:
            member.resume()
            if not member.alive:
                member.start()
        if not self._planner.running:
            self._planner.start()

    # Members.

    def _kill_member(self) -> bool:
        member = self._victim()
        if member is None:
            return False
        member.kill()
        # At once, or after the planner has noticed.
        longest = self._random.choice((0.2, self._timers.dead_after + self._timers.grant))
        self._later("member started", longest, member.start)
        return True

    def _kill_with_late_bytes(self) -> bool:
        """Kill a member whose last requests reach the brokers when others own its partitions."""
        member = self._victim()
        if member is None or self._links >= MAX_BROKEN_LINKS:
            return False
        self._begin_link(
            LinkFault(sources=[member.name], up=HELD),
            self._timers.dead_after + 2 * self._timers.grant,
        )

        def kill() -> None:
            if member.running and member.name not in self._ending:
                member.kill()
                self._later("member started", self._timers.grant, member.start)

        self._later("member killed", self._timers.heartbeat, kill)
        return True

    def _stop_member(self) -> bool:
        member = self._victim()
        if member is None:
            return False
        member.suspend()
        timers = self._timers
        replaced = timers.dead_after + timers.grant
        if self._random.random() < 0.5:
            self._later("member resumed", timers.hold, member.resume)
        else:
            self._later("member resumed", replaced, member.resume, least=replaced)
        return True

    def _end_member(self) -> bool:
        member = self._victim()
        if member is None:
            return False
        self._end_then_start(member)
        return True

    def _end_then_start(self, member: Member) -> None:
        pause = self._random.uniform(0, self._timers.dead_after)
        self._ending.add(member.name)
        member.ask_to_end()

        def end() -> None:
            member.await_end()
            time.sleep(pause)
            member.start()
            self._ending.discard(member.name)

        self._tasks.append(self._slow.submit(end))

    def _victim(self) -> Member | None:
        running = [m for m in self._members if m.running and m.name not in self._ending]
        if len(running) <= LEAST_RUNNING * len(self._members):
            return None
        return self._random.choice(running)

    # Links.

    def _break_link(self, *, up: bool = False, down: bool = False, delay: bool = False) -> bool:
        if self._links >= MAX_BROKEN_LINKS:
            return False
        seconds = self._random.uniform(0.02, self._timers.hold / 2) if delay else HELD
        fault = LinkFault(
            sources=[self._client()],
            destinations=self._some_brokers(),
            up=seconds if up else 0.0,
            down=seconds if down else 0.0,
        )
        if delay or self._random.random() < SHORT_LINK_FAULTS:
            self._begin_link(fault, 2 * self._timers.hold)
        else:  # until others own the partitions of a member that is cut off
            self._begin_link(
                fault, self._timers.hold, least=self._timers.dead_after + self._timers.grant
            )
        return True

    def _begin_link(self, fault: LinkFault, longest: float, least: float = 0.0) -> None:
        self._links += 1
        numbers = self._proxy.begin(fault)

        def end() -> None:
            self._links -= 1
            self._proxy.end(numbers)

        self._later("link healed", longest, end, least=least)

    def _reset(self) -> bool:
        self._proxy.reset(self._random.choice(([self._client()], [])), self._some_brokers())
        return True

    def _client(self) -> str:
        return self._random.choice([self._planner.name, *(m.name for m in self._members)])

    def _some_brokers(self) -> list[str]:
        return self._random.choice(([], [broker_name(self._broker())]))

    # Brokers and the daemon.

    def _broker(self) -> int:
        return self._random.choice(self._cluster.cluster.nodes).id

    def _restart_broker(self) -> bool:
        if self._broker_fault is not None and not self._broker_fault.done():
            return False
        broker, pause = self._broker(), self._random.uniform(0.5, 8)
        if self._random.random() < 0.5:
            stop = self._cluster.cluster.kill
        else:
            stop = self._cluster.cluster.stop_broker

        def restart() -> None:
            stop(broker)
            time.sleep(pause)
            self._cluster.cluster.start_broker(broker)

        self._broker_fault = self._slow.submit(restart)
        return True

    def _cut_broker(self, members: int) -> bool:
        if self._broker_fault is not None and not self._broker_fault.done():
            return False
        names = [m.name for m in self._members]
        alone = tuple(self._random.sample(names, members))
        numbers = self._cluster.cut(self._broker(), with_parties=alone, others=())
        seconds = self._random.uniform(8, 25)

        def heal() -> None:
            time.sleep(seconds)
            self._proxy.end(numbers)

        self._broker_fault = self._slow.submit(heal)
        return True

    def _kill_planner(self) -> bool:
        if not self._planner.running:
            return False
        self._planner.kill()
        self._later("daemon started", self._timers.dead_after, self._planner.start)
        return True

    def _kill_planner_in_handover(self) -> bool:
        """Kill the daemon shortly after it published a plan: some follow it, some do not yet."""
        member = self._victim()
        if member is None or not self._planner.running:
            return False
        published = self._planner.count("plan.published")
        self._end_then_start(member)

        def plans() -> bool:
            self._recover(time.monotonic())
            return self._planner.count("plan.published") > published

        try:
            wait_until("plan", plans, PLAN_SECONDS, pause=0.02)
        except AssertionError:
            return False
        time.sleep(self._random.uniform(0, 0.5))
        if not self._planner.running:
            return False
        return self._kill_planner()

    # Recoveries.

    def _later(
        self, kind: str, longest: float, act: Callable[[], object], least: float = 0.0
    ) -> None:
        at = time.monotonic() + least + self._random.uniform(0, longest)
        heapq.heappush(self._recoveries, Recovery(at, next(self._numbers), kind, act))

    def _recover(self, now: float) -> None:
        for recovery in self._due(now):
            log.info("%s", recovery.kind)
            with suppress(ProcessLookupError):
                recovery.act()

    def _due(self, now: float) -> Iterator[Recovery]:
        while self._recoveries and self._recoveries[0].at <= now:
            yield heapq.heappop(self._recoveries)

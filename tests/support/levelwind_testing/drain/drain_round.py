"""One round: one candidate reads the arrivals of one scenario from topics of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind_testing.drain.drain_candidates import CANDIDATES
from levelwind_testing.drain.drain_figures import (
    ArrivedRecords,
    RoundFigures,
    read_journals,
    round_figures,
)
from levelwind_testing.drain.drain_scenarios import (
    DEAR_TOPIC,
    PARTITIONS,
    RESTART_SECONDS,
    TOPIC_SIZES,
    WARM_UP_SECONDS,
    Change,
    DrainScenario,
    arrivals_in,
    burst_partitions,
    burst_sizes,
    hot_rates,
    partition_names,
    partition_rates,
    rates_after_burst,
    replica_brokers,
)
from levelwind_testing.drain.machine_load import CpuSampler, MachineLoad
from levelwind_testing.drain.paced_workers import Crew
from levelwind_testing.kafka.each_broker import create_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

READY_SECONDS = 120.0
STABLE_SECONDS = 5.0
"""Seconds without a change after which the first assignment counts as complete."""
PROXY_SECONDS = 15.0
"""Wait for the leader proxy to join or to lead after the departure of a member."""
TAIL_SECONDS = 6.0
"""Seconds for which a round goes on after less than a second of arrivals is left: the burst's last
records may be among them."""
CLOCK_SECONDS = 0.001
"""Resolution of the records' time stamps: those of the burst may be so much before it."""
TICKS = 4
"""Writes of records a second: the brokers spend most of the CPU on batches, whatever their size."""
RECORD = b"x" * 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundKey:
    """Which round."""

    scenario: str
    candidate: str
    seed: int
    repeat: int
    attempt: int = 0

    @property
    def group(self) -> str:
        """The round's group; its topics begin with it."""
        return f"{self.scenario}-{self.candidate}-{self.seed}-{self.repeat}-{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """Figures of a round, and the load of the machine in it."""

    key: RoundKey
    figures: RoundFigures
    load: MachineLoad
    plans: int | None
    """Plans in the measured time; None for Kafka's own assignors."""
    first_plan: float | None
    unsplittable: int
    """Reports of an unsplittable partition, those of the warm-up included."""
    remote_bytes: int
    local_bytes: int

    def as_json(self) -> dict[str, Any]:
        """The result as an object for JSON; infinite figures are `Infinity`."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RoundResult:
        """The result that `as_json` wrote."""
        parts = {
            "key": RoundKey(**value["key"]),
            "figures": RoundFigures(**value["figures"]),
            "load": MachineLoad(**value["load"]),
        }
        return cls(**{**value, **parts})


class DrainRound:
    """A round on running brokers."""

    def __init__(
        self,
        bootstrap: str,
        key: RoundKey,
        scenario: DrainScenario,
        directory: Path,
        events: Callable[[], Sequence[Mapping[str, Any]]],
    ) -> None:
        """Prepare a round.

        Args:
            bootstrap: address of the brokers.
            key: which round.
            scenario: the workload.
            directory: directory for the journal.
            events: the daemon's log so far.
        """
        self._bootstrap, self._key, self._scenario = bootstrap, key, scenario
        self._candidate = CANDIDATES[key.candidate]
        self._events = events
        self._journals = [
            directory / f"{key.group}-{number}.npz" for number in range(len(scenario.processes))
        ]
        self._names = partition_names(f"{key.group}-")
        self._topics = [f"{key.group}-{topic}" for topic in TOPIC_SIZES]
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 20,
                "log_level": 0,
                "enable.idempotence": True,
            }
        )
        self._arrived: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._burst = [(0, 0)] * PARTITIONS
        self._rates = partition_rates(scenario, key.seed)
        self._behind = 0.0
        self._workers = WorkerProcesses()

    def run(self, sampler: CpuSampler) -> RoundResult:
        """Play the round, and compute its figures.

        Raises:
            TimeoutError: the group does not get its first assignment.
            RuntimeError: a member failed, or the brokers refused a record.
        """
        self._create_topics()
        try:
            with self._workers.running(self._crews()):
                self._workers.await_assignment()
                if self._candidate.mode == "proxy":
                    self._await_lead()
                began, ended = self._play()
        finally:
            self._delete()
        handled, columns = read_journals(map(str, self._journals))
        figures = round_figures(
            self._scenario,
            self._rates,
            ArrivedRecords(
                at=[np.array(times, dtype=np.float64) / 1000 for times in self._arrived],
                burst=self._burst,
            ),
            handled,
            began=began - CLOCK_SECONDS,
            ended=ended,
        )
        cpu, full = sampler.between(began, ended)
        late = columns["late"] / np.maximum(columns["busy"], 1.0)
        plans = self._logged("plan.published", began, ended)
        return RoundResult(
            key=self._key,
            figures=figures,
            load=MachineLoad(
                cpu=cpu, busy_windows=full, late=float(late.max()), behind=self._behind
            ),
            plans=len(plans) if self._candidate.mode else None,
            first_plan=plans[0] - began if plans else None,
            unsplittable=len(self._logged("partition.unsplittable", 0.0, ended)),
            remote_bytes=int(columns["remote_bytes"].sum()),
            local_bytes=int(columns["local_bytes"].sum()),
        )

    def _crews(self) -> list[Crew]:
        scenario = self._scenario
        return [
            Crew(
                bootstrap=self._bootstrap,
                group=self._key.group,
                topics=self._topics,
                sizes=list(TOPIC_SIZES.values()),
                costs=[scenario.dear if name == DEAR_TOPIC else 1.0 for name in TOPIC_SIZES],
                members=members,
                later=[number for number in members if number >= len(scenario.speeds)],
                speeds=list(scenario.all_speeds),
                client=dict(self._candidate.client),
                java=self._candidate.java,
                mode=self._candidate.mode,
                static=self._candidate.static,
                eager=self._candidate.eager,
                journal=str(journal),
            )
            for members, journal in zip(scenario.processes, self._journals, strict=True)
        ]

    def _create_topics(self) -> None:
        new = [
            NewTopic(
                topic, size, replica_assignment=[replica_brokers(number) for number in range(size)]
            )
            for topic, size in zip(self._topics, TOPIC_SIZES.values(), strict=True)
        ]
        create_topics({"bootstrap.servers": self._bootstrap}, *new)

    def _delete(self) -> None:
        # What is left over disturbs no later round but for the brokers' memory.
        with contextlib.suppress(KafkaException):
            for future in self._admin.delete_topics(self._topics).values():
                future.result(30)
        with contextlib.suppress(KafkaException):
            for future in self._admin.delete_consumer_groups([self._key.group]).values():
                future.result(30)

    # Arrivals.

    def _play(self) -> tuple[float, float]:
        """Write records from the warm-up to the end; return begin and end of the measured time."""
        scenario = self._scenario
        start = time.time() + 0.1
        began, ended = start + WARM_UP_SECONDS, start + WARM_UP_SECONDS + scenario.measured
        changes = list(scenario.changes)
        second, drained_at = 0, float("inf")
        while (now := start + second) < ended and now < drained_at + TAIL_SECONDS:
            if second == WARM_UP_SECONDS:
                self._begin_burst(now)
            seed, measured = self._key.seed, second - WARM_UP_SECONDS
            counts = arrivals_in(hot_rates(scenario, self._rates, seed, measured), seed, second)
            for tick in range(TICKS):
                self._write(
                    now + tick / TICKS, counts * (tick + 1) // TICKS - counts * tick // TICKS
                )
            while changes and changes[0].at <= now - began:
                _, change, member = changes.pop(0)
                self._workers.command(change, member)
            if scenario.backlog and drained_at == float("inf") and self._is_drained(now - began):
                drained_at = now
            self._workers.check()
            second += 1
        if left := self._producer.flush(30):
            raise RuntimeError(f"{left} records were not acknowledged")
        return began, start + second

    def _write(self, due: float, counts: np.ndarray) -> None:
        """Write records at their time; a late record still has the time at which it was due."""
        pause = due - time.time()
        if pause > 0:
            time.sleep(pause)
        self._behind = max(self._behind, -pause)
        at = round(due * 1000)
        for partition in np.flatnonzero(counts).tolist():
            topic, number = self._names[partition]
            size = int(counts[partition])
            for _ in range(size):
                self._producer.produce(topic, RECORD, partition=number, timestamp=at)
            self._arrived[partition] += [at] * size
        self._producer.poll(0)

    def _begin_burst(self, now: float) -> None:
        scenario = self._scenario
        burst = burst_partitions(scenario, self._key.seed, self._workers.owners)
        sizes = burst_sizes(scenario, burst)
        self._burst = [
            (len(times), len(times) + int(size))
            for times, size in zip(self._arrived, sizes, strict=True)
        ]
        self._write(now, sizes)
        self._rates = rates_after_burst(scenario, self._rates, burst)

    def _is_drained(self, seconds: float) -> bool:
        written = sum(map(len, self._arrived))
        return seconds > 2 and written - self._workers.handled < self._scenario.arrivals

    def _await_lead(self) -> None:
        """Restart members until the one that leads the group has left it to the proxy."""
        for member in (None, *range(len(self._scenario.speeds))):
            if member is not None:
                self._workers.command("stop", member)
                time.sleep(RESTART_SECONDS)
                self._workers.command("start", member)
            deadline = time.monotonic() + PROXY_SECONDS
            while time.monotonic() < deadline:
                if self._logged("proxy.leading", 0.0, float("inf")):
                    self._workers.await_assignment()
                    return
                self._workers.check()
                time.sleep(0.2)
        raise TimeoutError(f"no proxy leads {self._key.group}")

    def _logged(self, event: str, began: float, ended: float) -> list[float]:
        """Times of the daemon's events of the round's group in the measured time."""
        times = [
            datetime.fromisoformat(entry["time"]).timestamp()
            for entry in self._events()
            if entry["event"] == event and entry.get("group") == self._key.group
        ]
        return [at for at in times if began <= at < ended]


class WorkerProcesses:
    """The processes of a round's members, and what they report."""

    def __init__(self) -> None:
        self.owners: list[int | None] = [None] * PARTITIONS
        self._handled: dict[int, int] = {}
        self._changed_at = 0.0
        self._failures: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._process_of: dict[int, subprocess.Popen[bytes]] = {}
        """Process of each member."""

    @property
    def handled(self) -> int:
        """Records that all members have handled."""
        return sum(self._handled.values())

    @contextlib.contextmanager
    def running(self, crews: Sequence[Crew]) -> Any:
        """Run the members; at the end they close and have written their journals."""
        readers = []
        for crew in crews:
            process = self._start(crew)
            self._processes.append(process)
            self._process_of |= dict.fromkeys(crew.members, process)
            readers.append(threading.Thread(target=self._read, args=(process,), daemon=True))
            readers[-1].start()
        try:
            yield
        finally:
            for process in self._processes:
                process.stdin.close()  # type: ignore[union-attr]
            for process in self._processes:
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            for reader in readers:
                reader.join()

    def _start(self, crew: Crew) -> subprocess.Popen[bytes]:
        support = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [support, os.environ.get("PYTHONPATH", "")]))
        program = [sys.executable, "-m", "levelwind_testing.drain.paced_workers"]
        return subprocess.Popen(
            [*program, json.dumps(asdict(crew))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def command(self, change: Change, member: int) -> None:
        """Change a member, or let its process stand still or go on."""
        process = self._process_of[member]
        if change == "thaw":
            process.send_signal(signal.SIGCONT)
            return
        assert process.stdin is not None
        process.stdin.write(f"{change} {member}\n".encode())
        process.stdin.flush()

    def check(self) -> None:
        """Raise `RuntimeError` if a member failed or a process ended."""
        if self._failures or any(process.poll() is not None for process in self._processes):
            raise RuntimeError(f"members failed: {self._failures}")

    def await_assignment(self) -> None:
        """Wait until every partition has an owner and nothing has changed for a while.

        Raises:
            TimeoutError: that does not happen.
        """
        until = time.monotonic() + READY_SECONDS
        while None in self.owners or time.monotonic() < self._changed_at + STABLE_SECONDS:
            self.check()
            if time.monotonic() > until:
                raise TimeoutError(f"no complete assignment: {self.owners}")
            time.sleep(0.1)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if "handled" in event:
                self._handled[process.pid] = event["handled"]
            elif "failure" in event:
                self._failures.append(event["failure"])
            else:
                self._change(event)

    def _change(self, event: Mapping[str, Any]) -> None:
        self._changed_at = time.monotonic()
        member = event["member"]
        for partition in event.get("gained", ()):
            self.owners[partition] = member
        for partition in event.get("lost", ()):
            if self.owners[partition] == member:
                self.owners[partition] = None

"""Members of `make bench-drain`: their speed, and what they write into their journals."""

import json
import threading

import numpy as np
import pytest

from levelwind_testing.drain import paced_workers
from levelwind_testing.drain.drain_figures import read_journals
from levelwind_testing.drain.paced_workers import (
    SLACK_SECONDS,
    Crew,
    MemberJournal,
    PacedMember,
    write_journal,
)

SPEED = 200.0


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return "payments"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000 + self._offset

    def error(self) -> None:
        return None


class Backlog:
    """A consumer with this many records ready, that ends the member's work behind them."""

    def __init__(self, records: int, stop: threading.Event) -> None:
        self._messages = [Message(offset) for offset in range(records)]
        self._stop = stop

    def poll(self, _timeout: float) -> Message | None:
        if self._messages:
            return self._messages.pop(0)
        self._stop.set()
        return None


def member(number: int = 0, cost: float = 1.0) -> PacedMember:
    crew = Crew(
        bootstrap="",
        group="g",
        topics=["orders", "payments"],
        sizes=[24, 12],
        costs=[1.0, cost],
        members=[number],
        later=[],
        speeds=[SPEED] * 6,
        client={},
        mode=None,
        static=False,
        journal="",
    )
    return PacedMember(crew, number, lambda _: None)


def test_a_member_with_a_backlog_handles_one_record_after_the_other_at_its_speed():
    stop, one = threading.Event(), member()
    one._work(Backlog(40, stop), stop)
    journal = one.journal
    assert list(journal.offset) == list(range(40))
    assert set(journal.partition) == {24 + 3}
    assert list(journal.timestamp) == [1_000 + offset for offset in range(40)]
    steps = np.diff(journal.handled_at)
    assert (steps > 1 / SPEED - 1e-6).all()
    # Beyond its speed nothing but the machine takes time, and that is counted.
    assert steps.sum() == pytest.approx(39 / SPEED + journal.late, abs=SLACK_SECONDS)
    assert journal.busy == pytest.approx(40 / SPEED)


def test_a_dear_record_takes_as_many_times_as_long():
    stop, one = threading.Event(), member(cost=3.0)
    one._work(Backlog(10, stop), stop)
    assert one.journal.busy == pytest.approx(10 * 3 / SPEED)
    assert (np.diff(one.journal.handled_at) > 3 / SPEED - 1e-6).all()


class Rebalanced(Backlog):
    """A consumer with two records, and a rebalance of five seconds before the second."""

    def __init__(self, one, stop, clock):
        super().__init__(2, stop)
        self._one, self._clock = one, clock

    def poll(self, timeout):
        if len(self._messages) == 1:
            self._clock.seconds += 5
            self._one._gained(None, [])
        return super().poll(timeout)


class Clock:
    """A clock that stands still but for sleepers."""

    seconds = 1_000.0

    def time(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


def test_the_time_of_a_rebalance_is_no_lateness_of_the_machine(monkeypatch):
    stop, one, clock = threading.Event(), member(), Clock()
    monkeypatch.setattr(paced_workers, "time", clock)
    one._work(Rebalanced(one, stop, clock), stop)
    assert one.journal.late == 0
    assert one.journal.handled_at[1] >= 1_005


def test_bytes_count_for_the_rack_of_the_broker_that_sent_them():
    one = member(number=2)  # in rack b

    def statistics(broker: int, total: int, leader: int = 1) -> str:
        partition = {"rxbytes": total, "broker": broker, "leader": leader}
        return json.dumps({"topics": {"orders": {"partitions": {"0": partition}}}})

    one._on_statistics(statistics(broker=2, total=500))
    one._on_statistics(statistics(broker=3, total=800))
    one._on_statistics(statistics(broker=-1, total=900))  # nobody sends now: by the leader, rack a
    assert (one.journal.local_bytes, one.journal.remote_bytes) == (500, 400)


def test_journals_of_several_processes_survive_their_files(tmp_path):
    paths = [str(tmp_path / f"journal-{number}.npz") for number in range(2)]
    first, second = MemberJournal.empty(), MemberJournal.empty()
    second.partition.append(7)
    second.offset.append(11)
    second.timestamp.append(5)
    second.handled_at.append(2.5)
    second.changes.append((1.5, 1, 7, 1))
    first.changes.append((2.0, 0, 3, 0))
    second.late, second.busy, second.remote_bytes = 0.25, 9.0, 4
    write_journal(paths[0], {0: first})
    write_journal(paths[1], {3: second})
    handled, columns = read_journals(paths)
    assert (handled.member.tolist(), handled.partition.tolist()) == ([3], [7])
    assert (handled.offset.tolist(), handled.handled_at.tolist()) == ([11], [2.5])
    assert handled.changes.tolist() == [[1.5, 1, 7, 1], [2.0, 0, 3, 0]]
    assert columns["late"].tolist() == [0.0, 0.25]
    assert columns["remote_bytes"].tolist() == [0, 4]

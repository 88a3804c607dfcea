"""The model of the log: what its readers see, and when."""

from random import Random

from levelwind.assignors.protocol.records import PlannerRecord
from levelwind_testing.simulation.modelled_brokers.link import Link
from levelwind_testing.simulation.modelled_brokers.modelled_cluster import Cluster
from levelwind_testing.simulation.modelled_brokers.partition_log import (
    Partition,
    Reader,
    Transaction,
)
from levelwind_testing.simulation.virtual_time import Machine, Process, Scheduler

RECORD = PlannerRecord(planner_epoch=1, instance="p", started_at=1)
ROWS = [("assignments", RECORD.key, RECORD)]


class Transacting:
    """A planner's process and the brokers."""

    def __init__(self):
        self.scheduler = Scheduler()
        self.cluster = Cluster(self.scheduler, Random(1), {})
        self.cluster.on_committed = self.cluster.on_marked = lambda _: None
        self.process = Process(self.scheduler, "p", Machine("m", 1.0, 0.0), Random(1))
        self.process.link = Link(self.scheduler, Random(2))

    def ask(self, action, *args, seconds=1.0):
        answer = []
        action(self.process, *args, answer.append)
        self.scheduler.run(self.scheduler.now + seconds)
        return answer


class Reading:
    """One reader of one partition."""

    def __init__(self):
        self.scheduler = Scheduler()
        self.partition = Partition("members", 0)
        self.process = Process(self.scheduler, "p", Machine("m", 1.0, 0.0), Random(1))
        self.link = Link(self.scheduler, Random(2))
        self.read = []
        self.reader = Reader(
            self.scheduler,
            self.process,
            self.partition,
            self.link,
            lambda _reader, offset, entry: self.read.append((offset, entry.record)),
            lambda: None,
        )

    def after(self, seconds=1.0):
        self.scheduler.run(self.scheduler.now + seconds)
        return self.read


def test_records_arrive_in_their_order():
    reading = Reading()
    for record in "abc":
        reading.partition.append(0.0, (record,), record)
    assert reading.after() == [(0, "a"), (1, "b"), (2, "c")]


def test_an_open_transaction_holds_back_its_records_and_all_after_it():
    reading = Reading()
    transaction = Transaction(1, [])
    reading.partition.append(0.0, ("t",), "t", transaction)
    reading.partition.append(0.0, ("a",), "a")
    transaction.outcome = "committed"
    assert reading.partition.stable_end == 0
    assert reading.after() == []
    reading.partition.mark(1.0, transaction)
    assert reading.after() == [(0, "t"), (1, "a")]
    assert reading.reader.position == 3, "behind the marker"


def test_nobody_reads_an_aborted_transaction():
    reading = Reading()
    transaction = Transaction(1, [], outcome="aborted")
    reading.partition.append(0.0, ("t",), "t", transaction)
    reading.partition.mark(0.0, transaction)
    reading.partition.append(0.0, ("a",), "a")
    assert reading.after() == [(2, "a")]


def test_compaction_keeps_the_newest_record_of_each_key_until_tombstones_go():
    partition = Reading().partition
    for at, key, record in ((0.0, "a", 1), (1.0, "b", 1), (2.0, "a", 2), (3.0, "b", None)):
        partition.append(at, (key,), record)

    def left():
        return [entry.record for entry in partition.entries if entry is not None]

    partition.compact(10.0, tombstones_older_than=60.0)
    assert left() == [2, None]
    partition.compact(100.0, tombstones_older_than=60.0)
    assert left() == [2]
    assert partition.stable_end == 4


def test_a_reader_of_a_deposed_leader_sees_its_end_only():
    reading = Reading()
    reading.partition.append(0.0, ("a",), "a")
    reading.link.stale_ends[reading.partition] = 1
    reading.partition.append(0.0, ("b",), "b")
    assert reading.after() == [(0, "a")]
    assert reading.reader.visible_end == 1
    reading.link.stale_ends.clear()
    reading.partition.wake_readers()
    assert reading.after() == [(0, "a"), (1, "b")]


def test_a_process_that_stands_still_reads_when_it_goes_on():
    reading = Reading()
    reading.process.stop_for(5.0)
    reading.partition.append(0.0, ("a",), "a")
    assert reading.after(4.9) == []
    assert reading.after(0.2) == [(0, "a")]


def test_the_monotonic_clock_stops_while_a_machine_sleeps():
    machine = Machine("m", 1.0, 100.0, sleeps=[(10.0, 30.0)])
    moments = (10.0, 20.0, 35.0)
    assert list(map(machine.monotonic_seconds, moments)) == [110.0, 110.0, 115.0]
    assert list(map(machine.boot_seconds, moments)) == [110.0, 120.0, 135.0]


def test_a_planner_is_initialised_when_the_transaction_before_it_has_its_markers():
    planner = Transacting()
    [epoch] = planner.ask(planner.cluster.initialise, 1)
    [transaction] = planner.ask(planner.cluster.begin, epoch, 2, ROWS)
    planner.cluster.late_markers_until, planner.cluster.latest_marker = 10.0, 8.0
    planner.cluster.commit(planner.process, transaction, lambda _: None)
    answer = []
    planner.cluster.initialise(planner.process, 3, answer.append)
    while planner.cluster.unfinished:
        assert answer == []
        planner.scheduler.run(planner.scheduler.now + 0.01)
    planner.scheduler.run(planner.scheduler.now + 1.0)
    assert answer == [epoch + 1]


def test_a_request_to_become_the_planner_that_was_given_up_fences_nobody_later():
    planner = Transacting()
    assert planner.ask(planner.cluster.initialise, 2) == [1]
    assert planner.ask(planner.cluster.initialise, 1) == []
    assert planner.cluster.producer_epoch == 1


def test_nothing_that_was_aborted_begins_later_whatever_the_order_of_the_aborts():
    planner = Transacting()
    [epoch] = planner.ask(planner.cluster.initialise, 1)
    assert planner.ask(planner.cluster.abort, epoch, 3) == ["aborted"]
    assert planner.ask(planner.cluster.abort, epoch, 2) == ["aborted"]
    assert planner.ask(planner.cluster.begin, epoch, 3, ROWS) == []
    assert len(planner.ask(planner.cluster.begin, epoch, 4, ROWS)) == 1

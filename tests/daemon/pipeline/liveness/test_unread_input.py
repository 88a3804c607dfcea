import re
import threading
from types import SimpleNamespace

import pytest

from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.pipeline.liveness import unread_input
from levelwind.daemon.pipeline.liveness.unread_input import (
    ANSWER_SECONDS,
    ASK_SECONDS,
    BELIEVED_SECONDS,
    UNREAD_SECONDS,
    InputSight,
    UnreadInput,
)
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.each_broker import await_topics
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.pipeline.installation import PARTITIONS, Installation
from levelwind_testing.waiting import wait_until

INPUT = ("__consumer_offsets", 3)
INTERVAL = 0.5
LATER = UNREAD_SECONDS + INTERVAL


def answered(sight, end, *times):
    """The sight after answers with an end at some times."""
    for now in times:
        sight = sight.after_answer({INPUT: end}, now)
    return sight


def test_what_waits_longer_than_a_batch_needs_to_begin_is_left_unread():
    sight = answered(InputSight().after_batch({INPUT: 5}), 6, 10.0, 10.0 + LATER)
    assert not sight.is_left_unread(10.0 + LATER - 0.1, INTERVAL)
    assert sight.is_left_unread(10.0 + LATER, INTERVAL)
    assert not sight.is_left_unread(10.0 + LATER, 60.0), "batches begin seldom"


@pytest.mark.parametrize("end", [5, 3], ids=["nothing new", "a topic made anew"])
def test_what_was_read_is_not_left_unread(end):
    sight = answered(InputSight().after_batch({INPUT: 5}), end, 10.0, 20.0)
    assert not sight.is_left_unread(20.0, INTERVAL)


def test_a_batch_begins_the_wait_anew():
    sight = answered(InputSight().after_batch({INPUT: 5}), 6, 10.0).after_batch({INPUT: 6})
    sight = answered(sight, 7, 11.0, 12.0)
    assert not sight.is_left_unread(10.0 + LATER, INTERVAL)


def test_a_partition_of_which_nothing_was_read_counts_from_its_beginning():
    sight = answered(InputSight().after_batch({}), 1, 10.0, 20.0)
    assert sight.is_left_unread(20.0, INTERVAL)


def test_before_the_first_batch_only_the_work_on_it_shows_that_there_is_input():
    sight = answered(InputSight(), 100, 10.0, 20.0)
    assert sight.serves(20.0)
    assert not sight.is_left_unread(20.0, INTERVAL)


def test_a_query_that_found_nothing_has_read_what_was_known():
    sight = answered(answered(InputSight(), 100, 10.0).after_idle(), 100, 20.0, 30.0)
    assert not sight.is_left_unread(30.0, INTERVAL)
    assert answered(sight, 101, 40.0, 50.0).is_left_unread(50.0, INTERVAL)


def test_brokers_that_answer_no_more_give_no_reason_to_blame_the_query():
    sight = answered(InputSight().after_batch({INPUT: 5}), 6, 10.0, 20.0)
    assert sight.is_left_unread(20.0 + BELIEVED_SECONDS, INTERVAL)
    assert not sight.is_left_unread(20.1 + BELIEVED_SECONDS, INTERVAL)


def test_an_answer_is_believed_until_the_next_one_is_there():
    assert BELIEVED_SECONDS > ASK_SECONDS + ANSWER_SECONDS


class Asked:
    """An input whose brokers answer what a test says; a test has its thread look again."""

    def __init__(self, monkeypatch):
        self.now, self.ends, self.takes = 0.0, {INPUT: 6}, True
        self.questions = 0
        self._waiting, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self.leaders = [1, 2]
        """The leaders of the partitions of the topic of commits; -1: there is none."""
        client = SimpleNamespace(poll=lambda _: None, list_topics=lambda **_: self.listed())
        monkeypatch.setattr(unread_input.clients, "admin", lambda _: client)
        monkeypatch.setattr(unread_input, "ask_ends", self.answer)
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.await_turn)
        monkeypatch.setattr(unread_input, "time", clock)
        settings = Settings(pipeline=PipelineSection(trigger_interval=INTERVAL))
        self.input = UnreadInput(settings, lambda: self.takes)
        self.input.start()
        self._waiting.acquire()

    def listed(self):
        partitions = {
            number: SimpleNamespace(leader=leader) for number, leader in enumerate(self.leaders)
        }
        return SimpleNamespace(
            topics={"__consumer_offsets": SimpleNamespace(partitions=partitions)}
        )

    def answer(self, *_):
        self.questions += 1
        if self.ends is None:
            raise ClusterUnavailableError("no end offset of x/3: its leader does not answer")
        return self.ends

    def await_turn(self, _):
        self._waiting.release()
        self._go.acquire()

    def turn(self):
        self.now += ASK_SECONDS
        self._go.release()
        self._waiting.acquire()


def test_a_partition_without_a_leader_is_named_once_in_each_outage(asked, monkeypatch, log):
    monkeypatch.setattr(unread_input, "log", log)
    asked.input.on_batch({INPUT: 5})
    asked.turn()
    asked.leaders = [1, -1]
    asked.turn()
    assert asked.input.unserved() is None, "another leader may be elected"
    for _ in range(5):
        asked.turn()
    reason = "no leader of __consumer_offsets/1"
    assert asked.input.unserved() == reason
    assert not asked.input.are_brokers_serving()
    asked.leaders = [1, 2]
    asked.turn()
    assert asked.input.unserved() is None
    asked.ends = None
    for _ in range(5):
        asked.turn()
    assert asked.input.unserved() == "no end offset of x/3: its leader does not answer"
    asked.input.on_batch({INPUT: 6})
    assert asked.input.unserved() is None
    warned = [event for event in log.events if event["level"] == "warning"]
    assert warned == [
        {"event": "pipeline.unserved", "level": "warning", "reason": text}
        for text in (reason, "no end offset of x/3: its leader does not answer")
    ]


def test_of_many_partitions_without_a_leader_some_are_named(asked):
    asked.leaders = 40 * [-1]
    for _ in range(4):
        asked.turn()
    assert asked.input.unserved() == (
        "no leader of __consumer_offsets/0, __consumer_offsets/1, __consumer_offsets/2,"
        " __consumer_offsets/3, __consumer_offsets/4 and of 35 more"
    )


@pytest.fixture
def asked(monkeypatch):
    return Asked(monkeypatch)


def test_brokers_are_asked_only_while_the_query_does_no_batch(asked):
    for end in range(5):
        asked.input.on_batch({INPUT: end})
        asked.turn()
    assert asked.questions == 0
    asked.turn()
    assert asked.questions == 1


def test_a_query_that_reads_no_more_is_fed_by_brokers_that_serve_others(asked):
    asked.input.on_batch({INPUT: 5})
    assert not asked.input.are_brokers_serving(), "nobody was asked"
    for _ in range(4):
        asked.turn()
    assert asked.input.is_left_unread()
    assert asked.input.are_brokers_serving()
    asked.takes = False
    assert not asked.input.are_brokers_serving(), "they take no records"
    asked.takes, asked.ends = True, None
    for _ in range(4):
        asked.turn()
    assert not asked.input.are_brokers_serving(), "a partition has no leader"
    asked.ends = {INPUT: 6}
    asked.turn()
    assert asked.input.are_brokers_serving()
    asked.input.on_idle()
    asked.turn()
    assert not asked.input.is_left_unread()


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_partitions_whose_broker_is_gone_are_named():
    with Cluster.start(3, settings=PATIENT) as brokers:
        lw = Installation(bootstrap=brokers.bootstrap, prefix="gone.", replication=1)
        names = [lw.prefix + topic for topic in PARTITIONS]
        await_topics({"bootstrap.servers": brokers.bootstrap}, *names)
        led = {
            f"{topic}/{number}": partition.leader
            for topic, listed in lw.admin.list_topics(timeout=20).topics.items()
            for number, partition in listed.partitions.items()
        }
        gone = led[f"{lw.topics.metadata}/0"]
        input_ = UnreadInput(Settings(bootstrap=brokers.bootstrap, prefix=lw.prefix), lambda: True)
        brokers.stop_broker(gone)
        input_.start()
        reason = wait_until("outage", input_.unserved)
        named = re.findall(r"gone\.[\w-]+/\d+", reason)
        assert named, reason
        assert {led[name] for name in named} == {gone}

"""Transactional commits that the brokers answer late: the life goes on, and nothing is lost."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from levelwind.assignors.handover.timers import Timers
from levelwind.deploy.cluster import Cluster
from levelwind_testing.chaos.proxied_cluster import broker_name
from levelwind_testing.chaos.proxy_process import HELD, LinkFault, ProxyProcess
from levelwind_testing.kafka.managed_consumers import committed, poll_until, produce, spread
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

SLOW_SECONDS = 0.65
"""Delay of each answer. A consumer's next commit waits for four of them, longer than for half of
its time; after the third its offsets are answered, three seconds before the end of that time."""


@pytest.fixture
def timers():
    """As they are by default, with five seconds instead of six for a transaction.

    Three tests wait for the end of one without an answer. With the second and a half of quartered
    timers a stall ended the life of a commit that no test delays.
    """
    return replace(Timers(), commit=10)


@pytest.fixture(scope="module")
def proxy():
    with ProxyProcess() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def cluster(proxy, tmp_path_factory):
    """One broker behind a proxy: whoever reaches it goes through."""

    def advertise(node):
        name = broker_name(node.id)
        return replace(node, advertised_port=proxy.listen(name, node.port))

    directory = tmp_path_factory.mktemp("brokers")
    with Cluster.start(1, directory=directory, settings=PATIENT, advertise=advertise) as cluster:
        yield cluster


class LateMarkers:
    """A producer whose offsets are refused, as the brokers do, until the markers are `written`.

    With markers that are held back for real, librdkafka forgets the time-out of some calls instead
    of handing on what the brokers answer.
    """

    def __init__(self, producer):
        self.producer = producer
        self.written = threading.Event()

    def __getattr__(self, name):
        return getattr(self.producer, name)

    def send_offsets_to_transaction(self, offsets, metadata, timeout):
        if not self.written.wait(timeout):
            code, reason = KafkaError.CONCURRENT_TRANSACTIONS, "another one is under way"
            raise KafkaException(KafkaError(code, reason, retriable=True))
        self.producer.send_offsets_to_transaction(offsets, metadata, timeout)


class HeldAnswers:
    """A producer whose next commit is not answered until `heal`, or so many calls for it."""

    heals_at = None

    def __init__(self, producer, proxy):
        self.producer = producer
        self.proxy = proxy
        self.faults = []
        self.calls = 0

    def __getattr__(self, name):
        return getattr(self.producer, name)

    def commit_transaction(self, timeout):
        self.calls += 1
        if self.calls == 1:
            self.faults = self.proxy.begin(LinkFault(sources=["i0"], down=HELD))
        if self.calls == self.heals_at:
            self.heal()
        return self.producer.commit_transaction(timeout)

    def heal(self):
        self.proxy.end(self.faults)


@pytest.fixture
def lost():
    return []


@pytest.fixture
def consumer(cluster, topic, plan, make_consumer, lost):
    """A consumer with broker fencing that has read five records and committed two."""
    planner = plan(spread(topic))
    consumer = make_consumer(
        planner,
        "i0",
        {"client.id": "i0", "enable.auto.commit": False},
        fencing="broker",
        on_lost=lambda _, partitions: lost.append(len(partitions)),
    )
    produce(cluster, topic, [(0, n) for n in range(10)])
    poll_until(consumer, lambda values: len(values) == 2)
    consumer.commit(asynchronous=False)
    poll_until(consumer, lambda values: len(values) == 3)
    consumer.planner = planner
    return consumer


@pytest.fixture
def answers(consumer, proxy):
    """The consumer's next commit, which the broker gets and does not answer."""
    commits = consumer._commits._transactions
    commits._producer = answers = HeldAnswers(commits._producer, proxy)
    yield answers
    proxy.end_all()


@pytest.fixture
def late_markers(consumer):
    """The consumer's producer, whose offsets the brokers refuse for now."""
    transactions = consumer._commits._transactions
    transactions._producer = late_markers = LateMarkers(transactions._producer)
    return late_markers


def commits(consumer):
    """Commit; on a busy machine a transaction may take too long, and is carried on by the next."""
    with suppress(KafkaException):
        consumer.commit(asynchronous=False)
        return True
    return False


def test_a_commit_without_an_answer_is_carried_on(cluster, topic, consumer, answers, lost):
    life = consumer.incarnation
    with pytest.raises(KafkaException, match=r"(?i)timed? ?out"):
        consumer.commit(asynchronous=False)
    assert consumer._commits._transactions.undecided
    answers.heal()
    assert poll_until(consumer, lambda values: len(values) == 5) == list("56789")

    wait_until("commit", lambda: commits(consumer))
    assert committed(cluster, consumer.group, topic) == {0: 10}
    assert (consumer.incarnation, lost) == (life, [])


def test_a_revocation_waits_for_the_outcome(cluster, topic, consumer, answers, lost):
    with pytest.raises(KafkaException):
        consumer.commit(asynchronous=False)
    undecided = answers.calls
    answers.heals_at = undecided + 2
    consumer.close()
    assert answers.calls >= undecided + 2, "it asked once more after a call without an answer"
    assert committed(cluster, consumer.group, topic) == {0: 5}
    assert lost == []


def test_brokers_that_answer_slowly_end_no_life(cluster, topic, consumer, proxy, lost):
    life = consumer.incarnation
    with proxy.during(LinkFault(sources=["i0"], down=SLOW_SECONDS)):
        for number in (2, 3):
            poll_until(consumer, lambda values, number=number: len(values) == number)
            commits(consumer)
    wait_until("commit", lambda: commits(consumer))
    assert committed(cluster, consumer.group, topic) == {0: 10}
    assert (consumer.incarnation, lost) == (life, [])


def test_a_commit_behind_late_markers_of_the_former_one_is_refused(
    cluster, topic, consumer, late_markers, lost
):
    """The brokers take no offsets before that transaction has ended in the offsets' log."""
    life = consumer.incarnation
    with pytest.raises(KafkaException) as refused:
        consumer.commit(asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.CONCURRENT_TRANSACTIONS

    late_markers.written.set()
    assert poll_until(consumer, lambda values: len(values) == 5) == list("56789")
    wait_until("commit", lambda: commits(consumer))
    assert committed(cluster, consumer.group, topic) == {0: 10}
    assert (consumer.incarnation, lost) == (life, [])

"""Transactions that the brokers end: whom the publisher blames."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.errors import ClusterUnavailableError, FencedError, LevelwindError
from levelwind.daemon.kafka import publisher as module
from levelwind.daemon.kafka.publisher import Publisher, TooLargeError, UnpublishableError
from levelwind.daemon.kafka.record_writer import OutgoingRecord

RECORD = OutgoingRecord(topic="lw.assignments", key=b"k", value=b"v", partition=0)


class EndingProducer:
    """A producer whose every transaction is to be aborted, after it has reported its records."""

    def __init__(self):
        self.errors = []
        """The error of the records of each transaction; None: they were delivered."""
        self.delivered = []
        self.waits = []
        """Limits of the calls that have ended without an answer."""
        self.in_vain = 0
        """Number of the next calls that do."""
        self.dead = None
        """The error that is fatal to the client."""
        self.refused = None
        """The error with which the client takes no record; None: it takes them."""

    def poll(self, _timeout):
        if self.dead is not None:
            raise KafkaException(self.dead)

    def init_transactions(self, _timeout):
        """Succeed."""

    def begin_transaction(self):
        self.delivered.clear()

    def produce(self, *_arguments, on_delivery, **_options):
        if self.refused is not None:
            raise KafkaException(self.refused)
        self.delivered.append(on_delivery)

    def commit_transaction(self, timeout):
        if self.in_vain:
            self.in_vain -= 1
            self.waits.append(timeout)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        error = self.errors.pop(0)
        for delivered in self.delivered:
            delivered(error and KafkaError(error), None)
        raise KafkaException(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, txn_requires_abort=True))

    def abort_transaction(self, _timeout):
        self.delivered.clear()


@pytest.fixture
def producer(monkeypatch):
    producer = EndingProducer()
    monkeypatch.setattr(module.clients, "producer", lambda *_: producer)
    return producer


def test_a_record_is_blamed_for_the_end_of_its_own_transaction_alone(producer, log):
    publisher = Publisher({}, Topics("lw."), log=log)
    producer.errors = [KafkaError.MSG_SIZE_TOO_LARGE, None]

    def failure():
        with pytest.raises(LevelwindError) as raised:
            publisher.publish([RECORD])
        return raised.type

    assert [failure(), failure()] == [TooLargeError, ClusterUnavailableError]


def test_a_commit_that_waits_in_vain_is_asked_again_while_there_is_time(producer, log):
    publisher = Publisher({}, Topics("lw."), timeout=5.0, log=log)
    producer.errors = [KafkaError.MSG_SIZE_TOO_LARGE]
    producer.in_vain = 1
    with pytest.raises(UnpublishableError):
        publisher.publish([RECORD])
    (waited,) = producer.waits
    assert waited < 5.0


@pytest.mark.parametrize(
    ("code", "blamed"),
    [
        *((code, False) for code in sorted(module.PASSING_ERRORS)),
        (KafkaError.MSG_SIZE_TOO_LARGE, True),
        (KafkaError._INVALID_ARG, True),
    ],
)
def test_no_record_is_blamed_for_a_topic_a_right_or_another_record(producer, log, code, blamed):
    publisher = Publisher({}, Topics("lw."), log=log)
    producer.refused = KafkaError(code)
    with pytest.raises(UnpublishableError if blamed else ClusterUnavailableError):
        publisher.publish([RECORD])


@pytest.mark.parametrize("code", [KafkaError._STATE, KafkaError._INVALID_ARG])
def test_an_early_record_is_blamed_though_the_client_then_takes_no_more(producer, log, code):
    """Its refusal comes while later records of a long transaction are handed over."""
    publisher = Publisher({}, Topics("lw."), log=log)
    take = producer.produce

    def produce(*arguments, **options):
        if producer.delivered:
            producer.delivered[0](KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
            producer.refused = KafkaError(code)
        take(*arguments, **options)

    producer.produce = produce
    late = OutgoingRecord(topic="lw.triggers", key=b"k", value=b"v", partition=0)
    with pytest.raises(UnpublishableError, match=r"lw\.assignments/0 is refused"):
        publisher.publish([RECORD, late])


def test_a_missing_right_to_the_id_is_asked_for_again_by_another_client(monkeypatch, log):
    """The error is fatal to the client: once the right was there, it still said the same."""
    lacking, allowed = EndingProducer(), EndingProducer()
    lacking.dead = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True)
    made = iter([lacking, allowed])
    monkeypatch.setattr(module.clients, "producer", lambda *_: next(made))
    publisher = Publisher({}, Topics("lw."), log=log)
    with pytest.raises(LevelwindError, match=r"lacks WRITE on transactional id lw\.planner"):
        publisher.init()
    publisher.init()
    assert log.names == ["publisher.ready"]


def test_an_error_that_is_fatal_to_the_client_ends_the_term(producer, log):
    publisher = Publisher({}, Topics("lw."), log=log)
    producer.dead = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True)
    for _ in range(2):
        with pytest.raises(
            LevelwindError, match=r"lacks WRITE on transactional id lw\.planner"
        ) as raised:
            publisher.publish([RECORD])
        assert raised.type is FencedError

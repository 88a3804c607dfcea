"""Where a record goes, and what happens while a producer's queue is full."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    OperatorRecord,
    PlannerRecord,
    Tombstone,
    encode,
    encode_key,
)
from levelwind.assignors.protocol.records.cutting import cut_assignments
from levelwind.assignors.protocol.topics import Topics, partition_for
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka import record_writer
from levelwind.daemon.kafka.record_writer import OutgoingRecord, enqueue, outgoing, write
from levelwind_testing import records

TOPICS = Topics()


def message(partition=0, value=b"v", **fields):
    return OutgoingRecord(topic="t", key=b"k", value=value, partition=partition, **fields)


def failed(code):
    return KafkaException(KafkaError(code))


class ScriptedProducer:
    """Meets one outcome a call of `produce`: an exception to raise, or an error to deliver."""

    def __init__(self, *outcomes, unsent=0):
        self.outcomes, self.unsent = list(outcomes), unsent
        self.sent, self.polled, self.headers = [], [], []

    def produce(self, topic, value, key, *, partition, headers, on_delivery):
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        self.sent.append((topic, key, value, partition))
        self.headers.append(headers)
        if on_delivery is not None:
            on_delivery(outcome, None)

    def poll(self, timeout):
        self.polled.append(timeout)

    def flush(self, _timeout):
        return self.unsent


def test_a_record_goes_to_the_partition_of_its_group():
    record = OperatorRecord(group="g", at=1, by="me", action="rebalance", reason="")
    (sent,) = outgoing(TOPICS, "control", record, 7)
    assert (sent.topic, sent.partition) == (TOPICS.control, partition_for("g", 7))
    assert (sent.key, sent.value) == encode(record)


def test_a_record_has_headers_with_its_schema_and_its_epoch():
    plan = replace(records.plan(), group_epoch=7)
    (shard,) = cut_assignments("g", 8, {"a": {"t": (0,)}})[0]
    member = replace(records.assignment("i", {"t": (0,)}), member_epoch=9)
    for record, schema, epoch in (
        (plan, b"group/2", b"7"),
        (shard, b"plan_shard/1", b"8"),
        (member, b"member_assignment/1", b"9"),
        (PlannerRecord(planner_epoch=3, instance="me", started_at=1), b"planner/1", b"3"),
    ):
        (sent, *_) = outgoing(TOPICS, "assignments", record, 1)
        assert dict(sent.headers) == {
            "schema": schema,
            "content-type": b"application/json",
            "epoch": epoch,
        }
    (layout,) = outgoing(TOPICS, "metadata", records.topic(), 1)
    assert dict(layout.headers) == {"schema": b"topic/1", "content-type": b"application/json"}
    (end,) = outgoing(TOPICS, "assignments", Tombstone(("g", "g")), 1)
    assert end.headers == ()


def test_the_planners_own_record_goes_to_every_partition():
    record = PlannerRecord(planner_epoch=1, instance="me", started_at=1)
    assert [sent.partition for sent in outgoing(TOPICS, "assignments", record, 3)] == [0, 1, 2]


def test_a_tombstone_goes_where_its_record_went():
    key = ("m", "g", "i", "1")
    member = records.member("i", incarnation="1", state="active", heartbeat=1)
    (record,), (end,) = (outgoing(TOPICS, "members", r, 50) for r in (member, Tombstone(key)))
    assert end.value is None
    assert (end.topic, end.key, end.partition) == (record.topic, encode_key(key), record.partition)


def test_a_full_queue_is_waited_for():
    producer = ScriptedProducer(BufferError(), BufferError())
    enqueue(producer, message(3, headers=(("schema", b"s/1"),)))
    assert producer.sent == [("t", b"k", b"v", 3)]
    assert producer.headers == [[("schema", b"s/1")]]
    assert sum(producer.polled) > 0


def test_who_cannot_wait_is_told_that_the_queue_is_full():
    producer = ScriptedProducer(BufferError())
    with pytest.raises(BufferError):
        enqueue(producer, message(), wait=False)
    assert (producer.sent, producer.polled) == ([], [])


def test_what_the_client_refuses_is_raised():
    with pytest.raises(KafkaException):
        enqueue(ScriptedProducer(failed(KafkaError.MSG_SIZE_TOO_LARGE)), message())


@pytest.fixture
def written(monkeypatch):
    """Writes three records with a producer of these outcomes."""

    def written(*outcomes, unsent=0):
        producer = ScriptedProducer(*outcomes, unsent=unsent)
        monkeypatch.setattr(record_writer.clients, "producer", lambda *_: producer)
        try:
            write({}, [message(0), message(1, name="the second"), message(2)], timeout=5)
        except ClusterUnavailableError as error:
            return [sent[3] for sent in producer.sent], str(error)
        return [sent[3] for sent in producer.sent], None

    return written


def test_records_are_written_in_their_order(written):
    assert written(BufferError()) == ([0, 1, 2], None)


def test_a_record_that_the_client_refuses_is_named_and_the_others_are_written(written):
    sent, error = written(None, failed(KafkaError.MSG_SIZE_TOO_LARGE))
    assert sent == [0, 2]
    assert "not every record was acknowledged: the second: " in error


def test_a_record_that_the_brokers_refuse_is_named_by_its_partition(written):
    sent, error = written(None, None, KafkaError(KafkaError._MSG_TIMED_OUT))
    assert sent == [0, 1, 2]
    assert "not every record was acknowledged: t/2: " in error


def test_no_answer_at_all_is_an_error(written):
    assert "no answer" in written(unsent=1)[1]

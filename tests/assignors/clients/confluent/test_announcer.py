from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from levelwind.assignors.clients.confluent.following.announcer import Announcer
from levelwind_testing.kafka.failed_producer import FailedProducer
from levelwind_testing.records import member


@pytest.fixture
def events():
    return []


@pytest.fixture
def announcer(events):
    settings = SimpleNamespace(producer={"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    return Announcer(
        settings,
        topic="levelwind.members",
        on_acked=lambda *_: None,
        on_failed=lambda reason: events.append(("failed", reason)),
        on_replaced=lambda reason: events.append(("replaced", reason)),
    )


def test_a_producer_that_failed_for_good_is_replaced_and_the_member_goes_on(announcer, events):
    announcer._producer = failed = FailedProducer()
    announcer.serve()
    assert [event for event, _ in events] == ["replaced"]
    assert announcer._producer is not failed
    announcer.announce(replace(member("a"), acked_epoch=1))
    announcer.serve()
    assert announcer.undelivered


def test_the_end_of_a_member_survives_a_failed_producer(announcer, events):
    announcer._producer = FailedProducer()
    announcer.flush(0)
    assert [event for event, _ in events] == ["failed"]


def test_any_other_error_is_raised(announcer):
    announcer._producer = FailedProducer(KafkaError(KafkaError._FAIL, "no"))
    with pytest.raises(KafkaException):
        announcer.serve()

"""`BrokerLag`: settings that no client has, and brokers that are gone.

What it counts is tested on brokers.
"""

from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, TopicPartition

from levelwind.assignors.clients import broker_lag
from levelwind.clients.classic import BrokerLag, LagUnavailableError

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("word", ["Earliest", "earlest", "", "by_duration", 0, None, True])
def test_a_word_that_no_client_has_is_refused_with_those_that_there_are(word):
    with pytest.raises(ValueError, match=r"one of latest, largest, .*error, not "):
        BrokerLag(NOWHERE, "g", auto_offset_reset=word)


def test_brokers_that_do_not_answer_make_the_lag_unknown():
    with pytest.raises(LagUnavailableError, match="lag of group g"):
        BrokerLag(NOWHERE, "g", auto_offset_reset="none", timeout=0.2)({"t"})


class Answers:
    """A consumer that answers as librdkafka does beside a broker that is gone."""

    def __init__(self):
        self.committed_offsets = {0: 4, 1: 4, 2: OFFSET_INVALID}
        self.ends = {0: 10, 1: -1, 2: 10}
        self.starts = {2: 3}
        self.without_leader = (1,)

    def list_topics(self, **_):
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=dict.fromkeys(self.ends))})

    def committed(self, partitions, **_):
        return [
            TopicPartition("t", asked.partition, self.committed_offsets[asked.partition])
            for asked in partitions
        ]

    def offsets_for_times(self, partitions, **_):
        return [self.answer(asked) for asked in partitions]

    def answer(self, asked):
        known = self.starts if asked.offset == OFFSET_BEGINNING else self.ends
        error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
        return SimpleNamespace(
            topic="t",
            partition=asked.partition,
            offset=known[asked.partition],
            error=error if asked.partition in self.without_leader else None,
        )


def test_a_partition_without_a_leader_costs_its_own_lag_alone_and_is_named_once(
    monkeypatch, caplog
):
    answers = Answers()
    monkeypatch.setattr(broker_lag, "Consumer", lambda _: answers)
    lag = BrokerLag(NOWHERE, "g", auto_offset_reset="earliest")
    assert lag(["t"]) == lag(["t"]) == {"t": [6, 0, 7]}
    assert caplog.text.count("lag of 1 of 3 partitions is not known and counts as 0") == 1
    answers.without_leader = (0, 1)
    assert lag(["t"]) == {"t": [0, 0, 7]}
    assert caplog.text.count("the first is t-0") == 1
    answers.without_leader = (0, 1, 2)
    with pytest.raises(LagUnavailableError, match="LEADER_NOT_AVAILABLE"):
        lag(["t"])
    answers.without_leader = ()
    answers.ends[1] = 5
    assert lag(["t"]) == {"t": [6, 1, 7]}

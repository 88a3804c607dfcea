"""Where records end, below markers and aborted records: the rule, and the look at real logs."""

from collections import Counter
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, Producer

from levelwind.daemon.observer import log_reading
from levelwind.daemon.observer.cluster_state import UNKNOWN
from levelwind.daemon.observer.last_records import (
    EXAMINED,
    FEWEST_EXAMINED,
    MAX_GAPS,
    MAX_STILL_SAMPLES,
    PARTITIONS_AT_ONCE,
    STILL_SAMPLES,
    WINDOWS,
    LogTail,
    LogTails,
    gaps_between,
    partitions_by_id,
    record_offsets,
)
from levelwind.daemon.observer.log_reading import ObserverConsumer
from levelwind_testing.waiting import GENEROUS_SECONDS


def stood(end, samples, tail=None):
    tail = tail or LogTail(end=end)
    for _ in range(samples):
        tail = tail.sampled(end)
    return tail


def test_a_partition_is_looked_at_once_its_end_has_stood_still():
    assert not stood(10, STILL_SAMPLES - 1).due
    assert stood(10, STILL_SAMPLES).due
    assert not stood(10, STILL_SAMPLES).sampled(11).due


def test_a_partition_at_rest_keeps_its_tail_as_it_is():
    tail = stood(9, MAX_STILL_SAMPLES)
    assert tail.sampled(9) is tail
    assert tail.sampled(9, open_transaction=True).has_gaps


def test_what_was_found_holds_until_the_end_moves():
    after_read = stood(10, STILL_SAMPLES).after_read(8, 0)
    assert after_read.data_end == 9
    assert not stood(10, 100, after_read).searching
    assert after_read.sampled(11).data_end == UNKNOWN


def test_records_that_came_after_the_sample_are_not_told_with_its_end():
    tail = stood(10, STILL_SAMPLES).after_reading(range(2, 12), 0)
    assert tail.data_end == 10
    assert not tail.has_gaps


def test_a_window_without_records_makes_the_next_one_larger_and_the_last_one_ends_the_search():
    tail = stood(100_000, STILL_SAMPLES)
    for window in WINDOWS:
        assert tail.due
        assert tail.start(0) == 100_000 - window
        tail = tail.after_read(None, 0)
    assert not tail.due
    assert tail.data_end == UNKNOWN


def test_a_log_without_any_record_ends_where_it_begins():
    assert stood(10, STILL_SAMPLES).after_read(None, 7).data_end == 7
    assert stood(10, STILL_SAMPLES).start(7) == 7


def test_who_ends_with_a_record_is_looked_at_less_often_and_who_ends_with_a_marker_is_not():
    tail = stood(10, STILL_SAMPLES).after_read(9, 0)
    assert tail.data_end == 10
    assert not stood(11, 2 * STILL_SAMPLES - 1, tail.sampled(11)).due
    assert stood(11, 2 * STILL_SAMPLES, tail.sampled(11)).due
    marker = stood(11, 2 * STILL_SAMPLES, tail.sampled(11)).after_read(9, 0)
    assert stood(12, STILL_SAMPLES, marker.sampled(12)).due
    for end in range(20, 40):
        tail = stood(end, MAX_STILL_SAMPLES, tail.sampled(end)).after_read(end - 1, 0)
    assert tail.still_needed == MAX_STILL_SAMPLES


def test_the_last_offsets_of_a_log_with_gaps_are_examined_and_later_only_what_came_since():
    tail = stood(100, STILL_SAMPLES).after_reading([92, 93, 94, 95, 98, 99], 0)
    assert tail.known_gaps == (100, 100), "gaps were seen, and none examined"
    assert tail.due
    assert tail.start(0) == 0
    tail = tail.after_reading([*range(40), *range(60, 96), 98, 99], 0)
    assert tail.known_gaps == (0, 100, 40, 60, 96, 98)
    assert not stood(100, 100, tail).due
    tail = stood(110, MAX_STILL_SAMPLES, tail.sampled(110))
    assert tail.known_gaps == (0, 100, 40, 60, 96, 98), "a range keeps its gaps"
    tail = tail.after_reading(range(102, 110), 0)
    assert tail.due
    assert tail.start(0) == 100
    tail = tail.after_reading(range(101, 110), 0)
    assert tail.known_gaps == (0, 110, 40, 60, 96, 98, 100, 101)


def test_a_log_without_gaps_is_never_examined():
    tail = stood(10_000, STILL_SAMPLES).after_reading(range(9992, 10_000), 0)
    assert (tail.known_gaps, stood(10_000, 100, tail).due) == ((), False)


def test_a_transaction_that_was_seen_open_lets_a_log_be_examined():
    tail = LogTail(end=10_000).sampled(10_000, open_transaction=True)
    tail = stood(10_005, STILL_SAMPLES, tail.sampled(10_005)).after_reading(range(9997, 10_005), 0)
    assert (tail.due, tail.start(0)) == (True, 10_005 - EXAMINED)


def test_what_takes_too_long_to_examine_is_examined_less_and_in_the_end_not_at_all():
    tail = stood(10_000, STILL_SAMPLES).after_reading([9_999 - 3], 0)
    while tail.due:
        assert tail.start(0) <= 10_000 - FEWEST_EXAMINED
        tail = stood(10_000, MAX_STILL_SAMPLES, tail.unread())
    assert tail.known_gaps == (10_000, 10_000)


@pytest.mark.parametrize("missed", [1, 3])
def test_a_read_that_failed_does_not_end_the_search_in_a_log_that_goes_on(missed):
    period, end, reads, known = 2 * STILL_SAMPLES, 100, 0, 0
    tail = LogTail(end=end, still=-1)
    for sample in range(20 * period):
        if sample % period == 0:
            end += 2  # a record, and the marker of its transaction
        tail = tail.sampled(end)
        if tail.due:
            reads += 1
            start = tail.start(0)
            records = range(start + start % 2, end, 2)
            tail = tail.unread() if reads == missed else tail.after_reading(records, 0)
        known += tail.data_end == end - 1
    assert reads > missed
    assert known > 15 * STILL_SAMPLES


def test_logs_that_stood_still_longest_are_read_before_those_that_move_and_cannot_be_read():
    reader, tails = DenyingReader("secret"), LogTails({})
    tails._reader = reader
    partitions = partitions_by_id([("1", "secret", 10 * PARTITIONS_AT_ONCE), ("2", "orders", 100)])
    ends = dict.fromkeys(partitions, 10)
    for sample in range(3 * MAX_STILL_SAMPLES):
        moved = sample % (STILL_SAMPLES + 1)
        for key in partitions:
            ends[key] += key[0] == "1" and key[1] % (STILL_SAMPLES + 1) == moved
        tails.sampled(ends, ends)
        tails.read_due(partitions, {}, 2.0)
    assert {tails.data_end(key) for key, (name, _) in partitions.items() if name == "orders"} == {0}


class DenyingReader:
    """Reads every log to its end but those of one topic; notes which partitions it is asked for."""

    def __init__(self, denied):
        self.denied = denied
        self.asked = []

    def records_to_ends(self, starts, _timeout):
        self.asked.append([*starts])
        for partition in starts:
            if partition[0] != self.denied:
                yield partition, None


@pytest.mark.parametrize("denied", [1, PARTITIONS_AT_ONCE, 3 * PARTITIONS_AT_ONCE])
def test_partitions_that_cannot_be_read_hold_up_no_others(denied):
    reader, tails = DenyingReader("secret"), LogTails({})
    tails._reader = reader
    partitions = partitions_by_id([("1", "secret", denied), ("2", "orders", 100)])
    ends = dict.fromkeys(partitions, 10)
    samples = 12 * MAX_STILL_SAMPLES
    for _ in range(samples):
        tails.sampled(ends, ends)
        tails.read_due(partitions, {}, 2.0)
    assert {tails.data_end(key) for key, (name, _) in partitions.items() if name == "orders"} == {0}
    waited = Counter(name for asked in reader.asked for name, _ in asked)["secret"]
    assert waited <= denied * samples / MAX_STILL_SAMPLES


class ScriptedConsumer:
    """A consumer that gives answers of the test, and none after the last."""

    def __init__(self, *answers):
        self.answers = [*answers]

    def assign(self, _):
        """Nothing is fetched but the answers."""

    def unassign(self):
        """Likewise."""

    def consume(self, _number, _timeout):
        return [self.answers.pop(0)]


def test_a_partition_with_an_error_is_read_no_further_and_the_others_are(monkeypatch):
    def answer(partition, code):
        error = KafkaError(code)
        return SimpleNamespace(
            topic=lambda: "t", partition=lambda: partition, error=lambda: error, offset=lambda: 1
        )

    consumer = ScriptedConsumer(
        answer(0, KafkaError.TOPIC_AUTHORIZATION_FAILED), answer(1, KafkaError._PARTITION_EOF)
    )
    monkeypatch.setattr(log_reading.clients, "consumer", lambda *_: consumer)
    reader = ObserverConsumer({}, "read_committed")
    assert record_offsets(reader, {("t", 0): 0, ("t", 1): 0}, GENEROUS_SECONDS) == {("t", 1): []}


def test_of_many_gaps_the_newest_are_kept_and_what_is_before_them_counts_as_not_examined():
    tail = stood(4000, STILL_SAMPLES).after_reading([3998], 0)
    tail = tail.after_reading(range(0, 4000, 2), 0)
    first, end, *gaps = tail.known_gaps
    assert len(gaps) == 2 * MAX_GAPS
    assert (first, end) == (gaps[0] - 1, 4000)


def test_gaps_lie_between_records_and_at_both_ends():
    assert gaps_between(3, [5, 6, 9], 12) == [3, 5, 7, 9, 10, 12]
    assert gaps_between(3, [3, 4], 5) == []
    assert gaps_between(3, [], 5) == [3, 5]


@pytest.mark.integration
def test_the_last_records_of_real_logs(kafka, fresh, client_config):
    topic = fresh("tails")
    kafka.create(topic, 5)
    plain = Producer(client_config)
    for partition in (0, 1, 2):
        plain.produce(topic, b"x", partition=partition)
    plain.flush(20)
    producer = Producer({**client_config, "transactional.id": topic})
    producer.init_transactions(20)
    for partition, end in ((1, producer.commit_transaction), (2, producer.abort_transaction)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"y", partition=partition)
        end(20)
    producer.begin_transaction()
    producer.produce(topic, b"z", partition=3)
    producer.flush(20)
    reader = ObserverConsumer(client_config, "read_committed")
    after_read = record_offsets(reader, {(topic, number): 0 for number in range(5)}, 30)
    producer.abort_transaction(20)
    reader.close()
    assert after_read == {
        (topic, 0): [0],
        (topic, 1): [0, 1, 2, 3],  # and a marker at 4
        (topic, 2): [0],  # three records that never were, and a marker
        (topic, 3): [],  # a transaction that is still open
        (topic, 4): [],
    }

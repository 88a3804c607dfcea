"""What the observer asks of five hundred brokers: bounded in each tick, and of each its share."""

import pytest

from levelwind_testing.kafka.observed_fleet import ObservedFleet
from levelwind_testing.kafka.simulated_admin import SETTINGS_BYTES

BROKERS, TOPICS, PARTITIONS = 500, 500, 10
ROUND = 10
"""Ticks in which everything is asked for once."""


@pytest.fixture(scope="module")
def fleet():
    fleet = ObservedFleet(BROKERS, TOPICS, PARTITIONS)
    yield fleet
    fleet.close()


@pytest.fixture(scope="module")
def first(fleet):
    """The first probe, which has to ask for everything."""
    (traffic,) = fleet.layouts(1)
    return traffic


def test_the_first_probe_asks_each_broker_for_little_more_than_its_settings(fleet, first):
    assert max(first.requests.values()) <= 3
    assert sum(size >= SETTINGS_BYTES for size in first.bytes.values()) == BROKERS
    assert len(fleet.observer._state.topics) == TOPICS
    assert len(fleet.observer._state.brokers) == BROKERS


def test_later_probes_share_what_no_list_shows(fleet, first):
    probes = fleet.layouts(2 * ROUND)
    totals = [sum(probe.requests.values()) for probe in probes]
    assert max(totals) <= 10
    sizes = [sum(probe.bytes.values()) for probe in probes]
    assert max(sizes) <= 1.2 * min(sizes)
    assert max(max(probe.requests.values()) for probe in probes) <= 2
    assert fleet.published.changes == TOPICS + BROKERS, "nothing was news"


@pytest.mark.slow
@pytest.mark.parametrize(("growing", "most"), [(True, 8), (False, 6)])
def test_a_sample_asks_each_broker_a_few_times_for_its_own_partitions(fleet, first, growing, most):
    fleet.samples(1, growing=growing)
    samples = fleet.samples(ROUND, growing=growing)
    for sample in samples:
        assert max(sample.requests.values()) <= most
        assert max(sample.bytes.values()) <= 2.5 * min(sample.bytes.values())
    sizes = [sum(sample.bytes.values()) for sample in samples]
    assert max(sizes) <= 1.2 * min(sizes)


TOPIC = "topic-00001"


@pytest.fixture
def few():
    """A small fleet after its first probe and sample."""
    few = ObservedFleet(3, 3, 2)
    few.layouts(1)
    few.samples(1, growing=True)
    yield few
    few.close()


def probed(fleet):
    """What a probe publishes, followed by a sample."""
    fleet.layouts(1)
    fleet.samples(1, growing=True)
    return [change.key for change in fleet.published.last]


def test_a_topic_is_deleted_once_two_probes_in_a_row_do_not_find_it(few):
    few.admin.unknown.add(TOPIC)
    assert probed(few) == []
    assert TOPIC in few.observer._state.topics
    assert probed(few) == [("topic", TOPIC), ("offsets", TOPIC)]
    assert TOPIC not in few.observer._state.topics
    assert probed(few) == []


def test_a_topic_that_one_probe_does_not_find_is_not_deleted_however_often(few):
    for _ in range(3):
        few.admin.unknown.add(TOPIC)
        assert probed(few) == []
        few.admin.unknown.clear()
        assert probed(few) == []


def test_a_topic_that_is_back_with_another_id_is_published_at_once(few):
    few.admin.unknown.add(TOPIC)
    assert probed(few) == []
    few.admin.unknown.clear()
    few.admin.recreations[TOPIC] += 1
    changes = [key for _ in range(ROUND) for key in probed(few)]
    assert changes == [("topic", TOPIC)]


def test_nobody_is_asked_for_the_offsets_of_a_topic_that_the_last_probe_did_not_find(few):
    few.admin.unknown.add(TOPIC)
    few.layouts(1)
    asked = []
    list_offsets = few.admin.list_offsets

    def recorded(wanted, **more):
        asked.extend(wanted)
        return list_offsets(wanted, **more)

    few.admin.list_offsets = recorded
    few.samples(1, growing=True)
    assert TOPIC not in {partition.topic for partition in asked}
    assert "topic-00000" in {partition.topic for partition in asked}

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

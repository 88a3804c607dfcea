"""Kafka's classes for the tests that compare with them, and this folder's own modules on the path."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from coordinator_oracle import Coordinator
from kafka_oracle import Kafka

# A busy machine is no defect: nothing here is judged by time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """Kafka's own assignors, in one Java process for all tests of the session."""
    oracle = Kafka()
    yield oracle
    oracle.close()


@pytest.fixture(scope="session")
def coordinator(kafka: Kafka) -> Coordinator:
    """The group coordinator's assignors, in the same process."""
    return Coordinator(kafka)

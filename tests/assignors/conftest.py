"""Kafka's classes for the tests that compare with them, and this folder's own modules on the path."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kafka_oracle import Kafka


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """Kafka's own assignors, in one Java process for all tests of the session."""
    oracle = Kafka()
    yield oracle
    oracle.close()

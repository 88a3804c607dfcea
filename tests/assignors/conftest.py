"""Kafka's classes for the tests that compare with them."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from levelwind_testing.kafka.coordinator_oracle import Coordinator
from levelwind_testing.kafka.kafka_oracle import Kafka

# A busy machine is no defect: nothing here is judged by time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


TOLD = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def told(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Tells whoever reads the run's summary: what is written while a test runs is seen only where it fails."""
    lines = request.config.stash.setdefault(TOLD, [])
    return lambda what: lines.append(str(what))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what tests told."""
    if lines := terminalreporter.config.stash.get(TOLD, []):
        terminalreporter.section("beside Kafka's classes")
        for line in lines:
            terminalreporter.write_line(line)


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

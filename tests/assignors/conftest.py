"""Kafka's assignors for the tests that compare with them."""

from collections.abc import Callable
from typing import Any

import pytest

from levelwind_testing.kafka.coordinator_oracle import CoordinatorAssignors
from levelwind_testing.kafka.kafka_oracle import Kafka

SUMMARY_LINES = pytest.StashKey[list[str]]()
LINES = "summary_lines"
"""Key of the lines in what a process of a parallel run gives back."""


@pytest.fixture(scope="session")
def note_in_summary(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Add a line to the summary of the run; output of a test is shown only if the test fails."""
    lines = request.config.stash.setdefault(SUMMARY_LINES, [])
    return lambda line: lines.append(str(line))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give the lines to the run's own process, where this one is one of several."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[LINES] = session.config.stash.get(SUMMARY_LINES, [])


def pytest_testnodedown(node: Any) -> None:
    """Take the lines of a process that has ended."""
    lines = node.config.stash.setdefault(SUMMARY_LINES, [])
    lines += getattr(node, "workeroutput", {}).get(LINES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines that tests added to the summary."""
    if lines := terminalreporter.config.stash.get(SUMMARY_LINES, []):
        terminalreporter.section("beside Kafka's classes")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def kafka(java: Kafka) -> Kafka:
    """Kafka's own assignors."""
    return java


@pytest.fixture(scope="session")
def coordinator(kafka: Kafka) -> CoordinatorAssignors:
    """The group coordinator's assignors, in the same process."""
    return CoordinatorAssignors(kafka)

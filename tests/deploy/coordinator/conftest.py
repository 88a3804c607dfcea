"""The jar for brokers, and a process with its assignors."""

import pytest

from levelwind_testing.coordinator.assignor_process import AssignorProcess, compiled


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The jar and the programs that test it, compiled once."""
    return compiled(tmp_path_factory.mktemp("coordinator"))


@pytest.fixture(scope="session")
def brokers_assignors(programs):
    """The assignors for brokers, in one Java process for all tests of the session."""
    with AssignorProcess(programs) as process:
        yield process

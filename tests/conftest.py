"""What tests share: real brokers, one cluster a session and only when a test asks for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from uuid import uuid4

import pytest

from deploy.cluster import Cluster
from levelwind_testing.kafka import reassignment

# Nobody takes a broker of the shared cluster away. On a machine that is busy with tests one may be late with a heartbeat;
# were it given up for lost, leaders and coordinators would move under tests that have nothing to do with it.
PATIENT = {"broker.session.timeout.ms": "45000", "controller.quorum.fetch.timeout.ms": "20000"}
# Commits that are to expire do so at once; those of our clients live for a week.
PROMPT = {"offsets.retention.check.interval.ms": "1000"}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers in racks a, b and c, for all tests of the session: leave them as they are, use names of your own."""
    with Cluster.start(settings=PATIENT | PROMPT) as cluster:
        yield cluster


_numbers = count()
_session = uuid4().hex[:6]


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """A name for a topic, group or instance that nobody else has: `fresh("orders")`."""
    return lambda stem: f"{stem}-{_session}-{next(_numbers)}"


@pytest.fixture
def reassign(cluster: Cluster) -> Callable[[str, Mapping[int, Sequence[int]]], None]:
    """Moves partitions of a topic to other brokers and waits for it: `reassign("orders", {0: [2, 3]})`."""
    return lambda topic, placement: reassignment.reassign(cluster.bootstrap, topic, placement)

"""Fixtures of all tests: real brokers, one cluster a session, started when a test needs it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from deploy.cluster import Cluster
from levelwind_testing.examples import FULL, QUICK
from levelwind_testing.kafka import reassignment

# No deadline: a test must not fail because the machine is busy.
for name, number in (("full", FULL), ("quick", QUICK)):
    settings.register_profile(
        name,
        max_examples=number,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("full")

# No test takes a broker of the shared cluster away. On a machine that is busy with tests a broker
# may be late with a heartbeat; if it were fenced for that, leaders and coordinators would move
# under tests that have nothing to do with it.
PATIENT = {"broker.session.timeout.ms": "45000", "controller.quorum.fetch.timeout.ms": "20000"}
# Commits that are to expire do so at once; those of the tests' clients live for a week.
PROMPT = {"offsets.retention.check.interval.ms": "1000"}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers in racks a, b and c, for all tests of the session.

    Tests leave the brokers as they are and use names of their own.
    """
    with Cluster.start(settings=PATIENT | PROMPT) as cluster:
        yield cluster


_numbers = count()
_session = uuid4().hex[:6]


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """A unique name for a topic, group or instance: `fresh("orders")`."""
    return lambda stem: f"{stem}-{_session}-{next(_numbers)}"


@pytest.fixture
def reassign(cluster: Cluster) -> Callable[[str, Mapping[int, Sequence[int]]], None]:
    """Moves partitions to other brokers, and waits for it: `reassign("orders", {0: [2, 3]})`."""
    return lambda topic, placement: reassignment.reassign(cluster.bootstrap, topic, placement)

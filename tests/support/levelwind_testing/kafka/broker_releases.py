"""Releases of the brokers that a test runs on: the present one, and by `make rare` others."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from levelwind.deploy.cluster import Cluster
from levelwind.deploy.jars import OTHER_BROKERS, OtherBrokers
from levelwind_testing.kafka.patient_brokers import PATIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = [
    pytest.param(None, id="present"),
    *(pytest.param(version, id=version, marks=pytest.mark.rare) for version in OTHER_BROKERS),
]
"""Parameters of a fixture that starts brokers; None is the release of the pom."""
READY_SECONDS = 400.0
"""Longest start of brokers that have no archive of classes, while other tests use the machine."""
WITHOUT_KIP_848 = {"3.6.2", "3.9.1"}
"""Releases whose brokers give no partitions to a consumer with `group.protocol=consumer`."""
NEWER = {"4.4.0"}
"""Releases after the present one."""
PRESENT_AND_NEWER = [each for each in RELEASES if {None, *NEWER}.intersection(each.values)]
"""Parameters of a fixture that starts brokers with levelwind's jar."""


@contextmanager
def brokers_of(release: OtherBrokers | None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers of a release: of the present one those that all tests of the run share."""
    if release is None:
        yield request.getfixturevalue("cluster")
    else:
        with Cluster.start(
            settings=PATIENT, version=release, ready_within=READY_SECONDS
        ) as cluster:
            yield cluster

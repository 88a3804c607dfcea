"""Fixtures of the tests of deploy/."""

import pytest

from levelwind.deploy import distribution


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A release, built for the tests of a module."""
    return distribution.build_release(tmp_path_factory.mktemp("dist"))

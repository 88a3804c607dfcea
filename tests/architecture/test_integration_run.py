"""The integration tests of `make test` share their brokers; one process has the Spark session."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def conftest(request):
    return request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))


def test_what_stays_in_one_process_and_what_begins_exists(conftest):
    named = (*conftest.SPARK_TESTS, *conftest.LONG)
    assert [path for path in named if not list(ROOT.glob(f"{path}*"))] == []


def test_the_parallel_run_of_the_makefile_is_scheduled_as_one_of_integration_tests(conftest):
    makefile = (ROOT / "Makefile").read_text()
    (expression,) = re.findall(r"-m '([^']+)' -n 4", makefile)
    (others,) = re.findall(r"-m '([^']+)' -n logical\n", makefile)

    def is_integration_run(markers: str) -> bool:
        return conftest.is_integration_run(
            SimpleNamespace(option=SimpleNamespace(markexpr=markers))
        )

    assert is_integration_run(expression)
    assert not is_integration_run(others)

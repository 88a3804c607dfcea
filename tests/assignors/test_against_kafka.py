"""The same groups through Kafka's own classes.

A fixed seed finds the same every time; a fresh one, which is printed, finds what nobody thought of.
"""

from secrets import randbelow

import pytest
from random_groups import Shape, seeded

from assignors.strategies import STRATEGIES

pytestmark = pytest.mark.integration
GROUPS = 1000


@pytest.fixture(scope="module", params=["fixed", "fresh"])
def seeds(request):
    first = 0 if request.param == "fixed" else randbelow(2**40)
    terminal = request.config.pluginmanager.getplugin("terminalreporter")
    terminal.write_line(f" {request.param} seeds from {first}")
    return range(first, first + GROUPS)


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_it_is_exactly_kafkas_answer(kafka, seeds, name):
    for seed in seeds:
        problem = seeded(seed, Shape(lags=False))
        ours = STRATEGIES[name](problem.group).to_names(problem.group)
        assert ours == kafka.assign(name, problem.topics, problem.members), f"seed {seed}: {problem}"

"""The library's public names, as `import levelwind.assignors` offers them."""

import ast
import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from levelwind import assignors
from levelwind.assignors import Member, ProblemError, Topic, plan
from levelwind.assignors.registry import STRATEGIES

HEAVY_MODULES = {"ortools", "confluent_kafka", "pyspark", "pandas", "pydantic", "structlog"}
TOPICS = {"orders": Topic(partitions=4, lags=[100, 1, 1, 1])}
MEMBERS = [Member(id="a", topics="*"), Member(id="b", topics="*")]


def loaded_by(source):
    """Top-level names of the modules that a fresh interpreter loads for a program."""
    program = f"{source}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def typed_imports():
    """Module of each name that type checkers see in `assignors/__init__.py`."""
    tree = ast.parse(Path(assignors.__file__).read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {alias.name: node.module for node in block.body for alias in node.names}


@pytest.mark.parametrize("name", assignors.__all__)
def test_each_public_name_can_be_imported_and_is_documented(name):
    value = getattr(assignors, name)
    assert name in dir(assignors)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__name__ == name
        assert inspect.getdoc(value)
        assert not value.__doc__.startswith(f"{name}("), "a dataclass without words of its own"


def test_type_checkers_see_the_names_that_are_loaded_when_they_are_used():
    assert typed_imports() == assignors._MODULES
    assert sorted(assignors._MODULES) == sorted(assignors.__all__)


def test_every_strategy_of_the_table_has_a_public_function():
    for name, strategy in STRATEGIES.items():
        assert getattr(assignors, f"{name.replace('-', '_')}_strategy") is strategy


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'levelwind\.assignors' has no attribute 'plans'"):
        assignors.plans  # noqa: B018 - the access is what is tested


def test_the_example_of_the_package_runs():
    results = doctest.testmod(assignors)
    assert results.attempted >= 8
    assert results.failed == 0


def test_importing_the_package_loads_none_of_its_modules_and_no_numpy():
    loaded = loaded_by("import levelwind.assignors")
    assert not loaded & {*HEAVY_MODULES, "numpy"}
    own = "[name for name in sys.modules if name.startswith('levelwind.assignors.')]"
    program = f"import levelwind.assignors, sys; print({own})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_all_public_names_together_load_neither_a_solver_nor_a_kafka_client():
    loaded = loaded_by("from levelwind.assignors import *")
    assert "numpy" in loaded
    assert not loaded & HEAVY_MODULES


def test_a_plan_has_its_group_its_assignment_and_their_names():
    planned = plan(TOPICS, reversed(MEMBERS), "lag")
    assert planned.to_names() == {"a": {"orders": [0, 3]}, "b": {"orders": [1, 2]}}
    assert planned.to_names() == planned.assignment.to_names(planned.group)
    assert planned.certificate is None


def test_options_reach_the_strategy():
    planned = plan(TOPICS, MEMBERS, "lag-global", max_count_skew=2)
    assert planned.to_names() == {"a": {"orders": [0]}, "b": {"orders": [1, 2, 3]}}


def test_a_plan_of_optimal_brings_its_certificate():
    assert plan(TOPICS, MEMBERS, "optimal").certificate.counts.value == 2


def test_a_plan_names_what_is_withheld_for_the_next_round():
    owner = Member(id="a", topics="*", owned={"orders": [0, 1, 2, 3]}, generation=1)
    planned = plan(TOPICS, [owner, MEMBERS[1]], "cooperative-sticky")
    assert planned.to_names() == {"a": {"orders": [0, 1]}, "b": {}}
    assert planned.withheld_names() == {"b": {"orders": [2, 3]}}


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("lagg", {}, "'lagg' is unknown; the nearest is 'lag'"),
        ("lag-global", {"max_count_skw": 2}, "'lag-global'; the nearest is 'max_count_skew'"),
        ("lag", {"max_count_skew": 2}, "unknown to strategy 'lag'; it takes none"),
        ("lag-global", {"max_count_skew": 0}, "option max_count_skew: must be an integer from 1"),
    ],
)  # fmt: skip
def test_an_unknown_strategy_or_option_is_refused(strategy, options, message):
    with pytest.raises(ProblemError, match=message):
        plan(TOPICS, MEMBERS, strategy, **options)

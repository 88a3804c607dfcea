"""Partition assignment for Kafka consumer groups, as a library.

A *group* is a problem: topics with their partitions, lags and racks, and members with their
subscriptions and claims. A *strategy* is a pure function from a group to an assignment. `plan` does
both steps at once, `violations` and `score` judge an assignment, and `compare` runs several
strategies on one group.

    >>> from assignors import Member, Topic, compare, plan, score, violations
    >>> topics = {"orders": Topic(partitions=3, lags=[100_000, 60_000, 50_000])}
    >>> members = [Member(id="a", topics=["orders"]), Member(id="b", topics="*")]
    >>> planned = plan(topics, members, "lag")
    >>> planned.to_names()
    {'a': {'orders': [0]}, 'b': {'orders': [1, 2]}}
    >>> violations(planned.group, planned.assignment)
    ()
    >>> score(planned.group, planned.assignment).skew
    1.047619
    >>> for row in compare(planned.group, ["range", "lag"]):
    ...     print(row.strategy, row.score.skew)
    range 1.52381
    lag 1.047619

Importing this package loads nothing else: each name loads its module when it is first used. Topics
and members arrive as plain values; nothing here talks to Kafka except `assignors.clients`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignors.comparison import ComparisonRow, compare
    from assignors.group_plan import GroupPlan, plan
    from assignors.optimal import Certificate, optimal_strategy
    from assignors.problem.assignment import Assignment
    from assignors.problem.group import Group
    from assignors.problem.inputs import Member, ProblemError, Topic
    from assignors.problem.score import Score, score
    from assignors.problem.topic_index import TopicIndex
    from assignors.problem.validity import violations
    from assignors.registry import STRATEGIES, Strategy
    from assignors.solver import SolverMissingError
    from assignors.sticky import sticky_strategy
    from assignors.strategies.cooperative_sticky import cooperative_sticky_strategy
    from assignors.strategies.failover import failover_strategy
    from assignors.strategies.fair import fair_strategy
    from assignors.strategies.lag import lag_strategy
    from assignors.strategies.lag_global import lag_global_strategy
    from assignors.strategies.range import range_strategy
    from assignors.strategies.roundrobin import roundrobin_strategy
    from assignors.strategies.server_range import server_range_strategy
    from assignors.strategies.topic_roundrobin import topic_roundrobin_strategy
    from assignors.strategies.uniform import uniform_strategy

__all__ = [
    "STRATEGIES",
    "Assignment",
    "Certificate",
    "ComparisonRow",
    "Group",
    "GroupPlan",
    "Member",
    "ProblemError",
    "Score",
    "SolverMissingError",
    "Strategy",
    "Topic",
    "TopicIndex",
    "compare",
    "cooperative_sticky_strategy",
    "failover_strategy",
    "fair_strategy",
    "lag_global_strategy",
    "lag_strategy",
    "optimal_strategy",
    "plan",
    "range_strategy",
    "roundrobin_strategy",
    "score",
    "server_range_strategy",
    "sticky_strategy",
    "topic_roundrobin_strategy",
    "uniform_strategy",
    "violations",
]

_MODULES = {
    "STRATEGIES": "assignors.registry",
    "Assignment": "assignors.problem.assignment",
    "Certificate": "assignors.optimal",
    "ComparisonRow": "assignors.comparison",
    "Group": "assignors.problem.group",
    "GroupPlan": "assignors.group_plan",
    "Member": "assignors.problem.inputs",
    "ProblemError": "assignors.problem.inputs",
    "Score": "assignors.problem.score",
    "SolverMissingError": "assignors.solver",
    "Strategy": "assignors.registry",
    "Topic": "assignors.problem.inputs",
    "TopicIndex": "assignors.problem.topic_index",
    "compare": "assignors.comparison",
    "cooperative_sticky_strategy": "assignors.strategies.cooperative_sticky",
    "failover_strategy": "assignors.strategies.failover",
    "fair_strategy": "assignors.strategies.fair",
    "lag_global_strategy": "assignors.strategies.lag_global",
    "lag_strategy": "assignors.strategies.lag",
    "optimal_strategy": "assignors.optimal",
    "plan": "assignors.group_plan",
    "range_strategy": "assignors.strategies.range",
    "roundrobin_strategy": "assignors.strategies.roundrobin",
    "score": "assignors.problem.score",
    "server_range_strategy": "assignors.strategies.server_range",
    "sticky_strategy": "assignors.sticky",
    "topic_roundrobin_strategy": "assignors.strategies.topic_roundrobin",
    "uniform_strategy": "assignors.strategies.uniform",
    "violations": "assignors.problem.validity",
}
"""Module of each public name, loaded when the name is first used (PEP 562)."""

if not TYPE_CHECKING:  # mypy must see the imports above, not a function that accepts any name

    def __getattr__(name: str) -> object:
        """Load the module of a public name, and keep the name."""
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Names of the package, with the public ones that are not loaded yet."""
        return sorted({*globals(), *__all__})

"""Partition assignment for Kafka consumer groups, as a library.

A *group* is a problem: topics with their partitions, lags and racks, and members with their
subscriptions and claims. A *strategy* is a pure function from a group to an assignment. `plan` does
both steps at once, `violations` and `score` judge an assignment, and `compare` runs several
strategies on one group.

    >>> from levelwind.assignors import Member, Topic, compare, plan, score, violations
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
and members arrive as plain values; nothing here talks to Kafka except
`levelwind.assignors.clients`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelwind.assignors.comparison import ComparisonRow, compare
    from levelwind.assignors.group_plan import GroupPlan, plan
    from levelwind.assignors.optimal import Certificate, optimal_strategy
    from levelwind.assignors.problem.assignment import Assignment
    from levelwind.assignors.problem.group import Group
    from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
    from levelwind.assignors.problem.score import Score, score
    from levelwind.assignors.problem.topic_index import TopicIndex
    from levelwind.assignors.problem.validity import violations
    from levelwind.assignors.registry import STRATEGIES, Strategy
    from levelwind.assignors.solver import SolverMissingError
    from levelwind.assignors.sticky import sticky_strategy
    from levelwind.assignors.strategies.cooperative_sticky import cooperative_sticky_strategy
    from levelwind.assignors.strategies.failover import failover_strategy
    from levelwind.assignors.strategies.fair import fair_strategy
    from levelwind.assignors.strategies.lag import lag_strategy
    from levelwind.assignors.strategies.lag_global import lag_global_strategy
    from levelwind.assignors.strategies.range import range_strategy
    from levelwind.assignors.strategies.roundrobin import roundrobin_strategy
    from levelwind.assignors.strategies.server_range import server_range_strategy
    from levelwind.assignors.strategies.topic_roundrobin import topic_roundrobin_strategy
    from levelwind.assignors.strategies.uniform import uniform_strategy

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
    "STRATEGIES": "levelwind.assignors.registry",
    "Assignment": "levelwind.assignors.problem.assignment",
    "Certificate": "levelwind.assignors.optimal",
    "ComparisonRow": "levelwind.assignors.comparison",
    "Group": "levelwind.assignors.problem.group",
    "GroupPlan": "levelwind.assignors.group_plan",
    "Member": "levelwind.assignors.problem.inputs",
    "ProblemError": "levelwind.assignors.problem.inputs",
    "Score": "levelwind.assignors.problem.score",
    "SolverMissingError": "levelwind.assignors.solver",
    "Strategy": "levelwind.assignors.registry",
    "Topic": "levelwind.assignors.problem.inputs",
    "TopicIndex": "levelwind.assignors.problem.topic_index",
    "compare": "levelwind.assignors.comparison",
    "cooperative_sticky_strategy": "levelwind.assignors.strategies.cooperative_sticky",
    "failover_strategy": "levelwind.assignors.strategies.failover",
    "fair_strategy": "levelwind.assignors.strategies.fair",
    "lag_global_strategy": "levelwind.assignors.strategies.lag_global",
    "lag_strategy": "levelwind.assignors.strategies.lag",
    "optimal_strategy": "levelwind.assignors.optimal",
    "plan": "levelwind.assignors.group_plan",
    "range_strategy": "levelwind.assignors.strategies.range",
    "roundrobin_strategy": "levelwind.assignors.strategies.roundrobin",
    "score": "levelwind.assignors.problem.score",
    "server_range_strategy": "levelwind.assignors.strategies.server_range",
    "sticky_strategy": "levelwind.assignors.sticky",
    "topic_roundrobin_strategy": "levelwind.assignors.strategies.topic_roundrobin",
    "uniform_strategy": "levelwind.assignors.strategies.uniform",
    "violations": "levelwind.assignors.problem.validity",
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

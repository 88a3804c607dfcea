"""Registry of strategies and their options, by the names that users write."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from levelwind.assignors.optimal import Certificate, ClockCuts, optimal_plan, optimal_strategy
from levelwind.assignors.optimal.model.plan_options import (
    MOST_PARTITIONS,
    MOST_SHARE,
    OPTION_CHECKS,
    number_check,
)
from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError
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

Strategy: TypeAlias = Callable[[Group], Assignment]
"""Pure function from a group to an assignment."""

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "cooperative-sticky": cooperative_sticky_strategy,
        "failover": failover_strategy,
        "fair": fair_strategy,
        "lag": lag_strategy,
        "lag-global": lag_global_strategy,
        "optimal": optimal_strategy,
        "range": range_strategy,
        "roundrobin": roundrobin_strategy,
        "server-range": server_range_strategy,
        "sticky": sticky_strategy,
        "topic-roundrobin": topic_roundrobin_strategy,
        "uniform": uniform_strategy,
    }
)


Check: TypeAlias = Callable[[str, Any], Any]
"""Valid value of an option, from the option's name and the given value; raises `ProblemError`."""

OPTIONS: Mapping[str, Mapping[str, Check]] = MappingProxyType(
    {
        "lag-global": {
            "max_count_skew": number_check(1, MOST_PARTITIONS, whole=True),
            "stick_within": number_check(1, MOST_SHARE, whole=False),
        },
        "optimal": OPTION_CHECKS,
    }
)
"""Options of each strategy that takes any, with the check of each option."""


def strategy_named(name: object, options: Mapping[str, Any] = MappingProxyType({})) -> Strategy:
    """Look up a strategy and apply those of the options that it takes.

    Options of other strategies are ignored, so that one set of options serves several strategies.

    Raises:
        ProblemError: the name is unknown, and the message names the nearest one; or an option is
            out of its range.
    """
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        nearest = get_close_matches(str(name), STRATEGIES, n=1, cutoff=0.0)
        raise ProblemError(
            f"strategy {name!r} is unknown; the nearest is {nearest[0]!r}, "
            f"all are {', '.join(STRATEGIES)}"
        )
    accepted = {
        option: check(option, options[option])
        for option, check in OPTIONS.get(str(name), {}).items()
        if option in options
    }
    return partial(strategy, **accepted) if accepted else strategy


CertifiedStrategy: TypeAlias = Callable[[Group], tuple[Assignment, Certificate | None]]
"""Strategy that also gives a certificate; None for every strategy but `optimal`."""


def certified_strategy(
    name: object,
    options: Mapping[str, Any] = MappingProxyType({}),
    *,
    clock_cuts: ClockCuts | None = None,
) -> CertifiedStrategy:
    """Look up a strategy like `strategy_named`, with its certificate where it has one.

    Args:
        name: the name of the strategy.
        options: options, of which the strategy takes those that it knows.
        clock_cuts: where the clock cut an earlier search, to repeat it; empty: a plan may take any
            time for the work that `time_budget` stands for, so that it is the same on every
            machine. None: the clock cuts where a machine is too slow.

    Raises:
        ProblemError: as `strategy_named`.
    """
    strategy = strategy_named(name, options)

    def answer(group: Group) -> tuple[Assignment, Certificate | None]:
        if name != "optimal":
            return strategy(group), None
        known = {option: options[option] for option in OPTION_CHECKS if option in options}
        plan = optimal_plan(group, clock_cuts=clock_cuts, **known)
        return plan.assignment, plan.certificate

    return answer

"""The table of strategies: a name, and the function from a problem to its answer."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeAlias

from assignors.assignment import Assignment
from assignors.cooperative_sticky import cooperative_sticky
from assignors.failover import failover
from assignors.fair import fair
from assignors.group import Group, ProblemError
from assignors.lag import lag
from assignors.range import range_
from assignors.roundrobin import roundrobin
from assignors.sticky import sticky
from assignors.topic_roundrobin import topic_roundrobin

Strategy: TypeAlias = Callable[[Group], Assignment]

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "cooperative-sticky": cooperative_sticky,
        "failover": failover,
        "fair": fair,
        "lag": lag,
        "range": range_,
        "roundrobin": roundrobin,
        "sticky": sticky,
        "topic-roundrobin": topic_roundrobin,
    }
)


def strategy_named(name: object) -> Strategy:
    """The strategy of a name.

    Raises:
        ProblemError: there is none; the message names the nearest one.
    """
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        near = get_close_matches(str(name), STRATEGIES, n=1, cutoff=0.0)
        raise ProblemError(
            f"strategy {name!r} is unknown; the nearest is {near[0]!r}, all are {', '.join(STRATEGIES)}"
        )
    return strategy

"""The table of strategies: a name, and the function from a problem to its answer."""

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from assignors.assignment import Assignment
from assignors.cooperative_sticky import cooperative_sticky
from assignors.failover import failover
from assignors.fair import fair
from assignors.group import Group, ProblemError
from assignors.lag import lag
from assignors.lag_global import lag_global
from assignors.range import range_
from assignors.roundrobin import roundrobin
from assignors.server_range import server_range
from assignors.sticky import sticky
from assignors.topic_roundrobin import topic_roundrobin
from assignors.uniform import uniform

Strategy: TypeAlias = Callable[[Group], Assignment]

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "cooperative-sticky": cooperative_sticky,
        "failover": failover,
        "fair": fair,
        "lag": lag,
        "lag-global": lag_global,
        "range": range_,
        "roundrobin": roundrobin,
        "server-range": server_range,
        "sticky": sticky,
        "topic-roundrobin": topic_roundrobin,
        "uniform": uniform,
    }
)


# By strategy: the options that it takes, each with its least value and whether it must be whole.
OPTIONS: Mapping[str, Mapping[str, tuple[float, bool]]] = MappingProxyType(
    {"lag-global": {"max_count_skew": (1, True), "stick_within": (1.0, False)}}
)


def strategy_named(name: object, options: Mapping[str, Any] = MappingProxyType({})) -> Strategy:
    """The strategy of a name, with those of the options that it knows.

    Raises:
        ProblemError: there is none, and the message names the nearest one; or an option is out of its range.
    """
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        near = get_close_matches(str(name), STRATEGIES, n=1, cutoff=0.0)
        raise ProblemError(
            f"strategy {name!r} is unknown; the nearest is {near[0]!r}, all are {', '.join(STRATEGIES)}"
        )
    known = {
        option: _checked(option, options[option], *bounds)
        for option, bounds in OPTIONS.get(str(name), {}).items()
        if option in options
    }
    return partial(strategy, **known) if known else strategy


def _checked(option: str, value: Any, least: float, whole: bool) -> float:
    sound = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not sound or not least <= value < math.inf:
        raise ProblemError(
            f"option {option}: must be {'an integer' if whole else 'a number'} from {least} up, not {value!r}"
        )
    checked: float = value
    return checked

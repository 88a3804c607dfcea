"""Candidates: the strategies of a simulation, by name or with options.

An example with options is `optimal:count_slack=2:horizon=30`.

Guarantees: without options a strategy plans as the daemon lets it plan, except for the time budget:
a plan cut short on a slow machine would make the result depend on the machine, so only the work
budget limits a plan here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.registry import OPTIONS, strategy_named
from levelwind.daemon.control.planning import horizon_of, options_of
from levelwind.daemon.control.settings import PlanSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.problem.assignment import Assignment
    from levelwind.assignors.problem.group import Group
    from levelwind.daemon.control.settings import Cause

WITHOUT_TIME_LIMIT: Mapping[str, Any] = {"time_budget": 3600.0}
"""Options that keep a plan independent of the machine's speed."""
EAGER_STRATEGIES = frozenset(
    {"fair", "failover", "lag", "lag-global", "range", "roundrobin", "sticky", "topic-roundrobin"}
)
"""Strategies that classic consumers run by the eager protocol: each consumer gives up all of its
partitions before it is assigned new ones."""


class PlanningStrategy(Protocol):
    """A strategy with its options, and with those that the daemon adds for a cause."""

    def __call__(self, group: Group, cause: Cause, /) -> Assignment:
        """Plan a group."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A strategy that is ready to plan."""

    name: str
    """The text that was parsed, options included."""
    eager: bool
    """Whether classic consumers run the strategy by the eager protocol."""
    plan: PlanningStrategy


def candidate(text: str) -> Candidate:
    """Parse a candidate: a strategy's name, then `:option=value` for each option.

    Raises:
        ProblemError: the strategy or an option is unknown, or an option has the wrong type.
    """
    name, *pairs = (part.strip() for part in text.split(":"))
    strategy_named(name)
    accepted = OPTIONS.get(name, {})
    defaults = {**options_of(PlanSettings(strategy=name)), **WITHOUT_TIME_LIMIT}
    options = {option: value for option, value in defaults.items() if option in accepted}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals or option not in accepted:
            accepted_names = ", ".join(accepted) or "none"
            raise ProblemError(
                f"strategy {text!r}: {option!r} is not an option of {name};"
                f" its options: {accepted_names}"
            )
        options[option] = _value(value)
    strategy_named(name, options)  # an option out of its range is found before the first plan

    def plan(group: Group, cause: Cause) -> Assignment:
        return strategy_named(name, {**horizon_of(cause, group), **options})(group)

    return Candidate(name=text.strip(), eager=name in EAGER_STRATEGIES, plan=plan)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # the option's own check reports what is expected

"""Candidates: the strategies of a simulation, by name or with options.

An example with options is `optimal:count_slack=2:horizon=30`.

Guarantees: without options a strategy plans as the daemon lets it plan, except for the time budget:
a plan cut short on a slow machine would make the result depend on the machine, so only the work
budget limits a plan here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignors.problem.inputs import ProblemError
from assignors.registry import OPTIONS, strategy_named
from daemon.control.planning import options_of
from daemon.control.settings import PlanSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.registry import Strategy

UNHURRIED: Mapping[str, Any] = {"time_budget": 3600.0}
"""Options that keep a plan independent of the machine's speed."""
EAGER_STRATEGIES = frozenset(
    {"fair", "failover", "lag", "lag-global", "range", "roundrobin", "sticky", "topic-roundrobin"}
)
"""Strategies of the eager protocol: classic consumers revoke everything before they are assigned
anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A strategy that is ready to plan."""

    name: str
    """The requested text with all options."""
    eager: bool
    """Whether classic consumers run the strategy by the eager protocol."""
    plan: Strategy


def candidate(text: str) -> Candidate:
    """Parse a candidate.

    Raises:
        ProblemError: the strategy or an option is unknown, or an option has the wrong type.
    """
    name, *pairs = (part.strip() for part in text.split(":"))
    strategy_named(name)
    known = OPTIONS.get(name, {})
    usual = {**options_of(PlanSettings(strategy=name)), **UNHURRIED}
    options = {option: value for option, value in usual.items() if option in known}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals or option not in known:
            options_known = ", ".join(known) or "none"
            raise ProblemError(
                f"strategy {text!r}: {option!r} is not an option of {name};"
                f" its options: {options_known}"
            )
        options[option] = _value(value)
    return Candidate(
        name=text.strip(), eager=name in EAGER_STRATEGIES, plan=strategy_named(name, options)
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # the option's own check reports what is expected

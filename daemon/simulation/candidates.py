"""What is played against each other: a strategy by its name, or with options, `optimal:count_slack=2:horizon=30`.

Law: without options a strategy plans as the daemon would let it, but for the limit of time: a plan that is cut short where the
machine is slow would make the day depend on the machine, so its work alone limits it here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignors.problem.inputs import ProblemError
from assignors.registry import (
    OPTIONS,
    strategy_named,
)
from daemon.control.planning import options_of
from daemon.control.settings import PlanSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.registry import Strategy

PATIENT: Mapping[str, Any] = {"time_budget": 3600.0}
EAGER = frozenset(
    {"fair", "failover", "lag", "lag-global", "range", "roundrobin", "sticky", "topic-roundrobin"}
)
"""What classic consumers run by the eager protocol: they give up everything before they are told what they get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A strategy that is ready to plan."""

    name: str
    """As it was asked for, options and all."""
    eager: bool
    plan: Strategy


def contender(text: str) -> Contender:
    """The one that is asked for.

    Raises:
        ProblemError: there is no such strategy or option, or an option has the wrong shape.
    """
    name, *pairs = (part.strip() for part in text.split(":"))
    strategy_named(name)
    known = OPTIONS.get(name, {})
    usual = {**options_of(PlanSettings(strategy=name)), **PATIENT}
    options = {option: value for option, value in usual.items() if option in known}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals or option not in known:
            there = ", ".join(known) or "none"
            raise ProblemError(
                f"strategy {text!r}: {option!r} is no option of {name}; there are {there}"
            )
        options[option] = _value(value)
    return Contender(name=text.strip(), eager=name in EAGER, plan=strategy_named(name, options))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # the option's own check says what it should be

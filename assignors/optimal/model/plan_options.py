"""What a group asks of `optimal` beyond a good plan: who gets what or nothing, and how much each objective may give way.

Law: names outlive members and topics, so a wish about who is not there is passed over; a wish of the wrong shape is an error
that names the option.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from assignors.problem.inputs import ProblemError

NOTHING: Mapping[str, Mapping[int, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `optimal`."""

    pins: Mapping[str, Mapping[int, str]] = field(default_factory=lambda: NOTHING)
    """By topic and partition: the member that owns it while it reads the topic, drained or not."""
    drain: tuple[str, ...] = ()
    """Members that get nothing where another member reads it."""
    evacuate: tuple[str, ...] = ()
    """Racks whose members get nothing where a member elsewhere reads it."""
    count_slack: int = 0
    """How much further from even a member's count may be, for the sake of load."""
    load_tolerance: float = 0.02
    """How much longer than the best found the longest time to drain may be."""
    load_floor: float = 0.0
    """A time to drain that is good enough whatever the best is: so little lag is no reason to cross racks or to move."""
    cross_tolerance: float = 0.0
    """How much more than the least found may cross racks."""
    max_moves: int | None = None
    """Moves a plan may make beyond those that cannot wait; None: as many as it takes."""
    time_budget: float = 1.0
    """Seconds after which a plan is refined no further."""
    horizon: float = 60.0
    """Seconds of arrivals that count as load beside the lag, where rates are known."""

    def within(self, drain: float) -> float:
        """The time to drain that is good enough where this is the best."""
        return max(drain * (1 + self.load_tolerance), self.load_floor)

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "Options":
        """The wishes among options; others are left alone.

        Raises:
            ProblemError: an option has the wrong shape.
        """
        return cls(
            **{
                name: check(name, options[name])
                for name, check in OPTION_CHECKS.items()
                if name in options
            }
        )


def number_check(least: float, *, whole: bool, none: bool = False) -> Callable[[str, Any], Any]:
    """A check: a finite number from some least one up."""

    def check(option: str, value: Any) -> Any:
        if none and value is None:
            return None
        sound = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not sound or not least <= value < math.inf:
            kind = "an integer" if whole else "a number"
            raise ProblemError(f"option {option}: must be {kind} from {least} up, not {value!r}")
        return value

    return check


def _names(option: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise ProblemError(f"option {option}: must be a list of names, not {value!r}")
    if not all(isinstance(name, str) for name in value):
        raise ProblemError(f"option {option}: must hold names, each a string")
    return tuple(sorted(set(value)))


def _pins(option: str, value: Any) -> Mapping[str, Mapping[int, str]]:
    if not isinstance(value, Mapping) or not all(
        isinstance(theirs, Mapping) for theirs in value.values()
    ):
        raise ProblemError(
            f"option {option}: must be {{topic: {{partition: member}}}}, not {value!r}"
        )
    return {
        topic: {
            _partition(option, topic, place): _member(option, topic, who)
            for place, who in theirs.items()
        }
        for topic, theirs in value.items()
    }


def _partition(option: str, topic: str, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():  # JSON's keys are strings
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ProblemError(
            f"option {option}: {topic!r}: a partition must be a number from 0 up, not {value!r}"
        )
    return value


def _member(option: str, topic: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ProblemError(f"option {option}: {topic!r}: must name a member, not {value!r}")
    return value


# By option: what makes a sound value of what was given, or says what is wrong with it.
OPTION_CHECKS: Mapping[str, Callable[[str, Any], Any]] = MappingProxyType(
    {
        "pins": _pins,
        "drain": _names,
        "evacuate": _names,
        "count_slack": number_check(0, whole=True),
        "load_tolerance": number_check(0, whole=False),
        "load_floor": number_check(0, whole=False),
        "cross_tolerance": number_check(0, whole=False),
        "max_moves": number_check(0, whole=True, none=True),
        "time_budget": number_check(0, whole=False),
        "horizon": number_check(0, whole=False),
    }
)

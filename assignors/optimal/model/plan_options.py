"""Options of `optimal`: pins, drained members and racks, and tolerances.

Guarantees: an option that names an absent member, topic or rack is ignored, since names outlive
members and topics; an option of the wrong shape is an error that names the option.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from levelwind.assignors.problem.inputs import ProblemError

MOST_PARTITIONS = 10**15
"""Largest option that counts partitions, as in the daemon's settings: sums stay within 64 bits."""
MOST_SHOWN = 100
"""Characters of a wrong value that its error shows."""
MAX_DIGITS = 20
"""Digits of a partition that is given as a text; no partition has more."""
MOST_SECONDS = 10_000_000_000
"""Largest option in seconds, three centuries: more than any setting of the daemon allows."""
MOST_SHARE = 1_000_000_000
"""Largest option that is a share of something."""
NO_PINS: Mapping[str, Mapping[int, str]] = MappingProxyType({})

Counts: TypeAlias = Literal["load", "even"]
"""How far counts may depart from the most even ones."""
OptionCheck: TypeAlias = Callable[[str, Any], Any]
"""Takes an option's name and value; returns the valid value or raises `ProblemError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `optimal`, parsed and checked."""

    pins: Mapping[str, Mapping[int, str]] = field(default_factory=lambda: NO_PINS)
    """Owner by topic and partition, while that member reads the topic, drained or not."""
    drain: tuple[str, ...] = ()
    """Members that get no partition which another member reads."""
    evacuate: tuple[str, ...] = ()
    """Racks whose members get no partition which a member in another rack reads."""
    counts: Counts = "load"
    """How far counts may depart from the most even ones: `load`, as far as load needs; `even`, not
    at all."""
    count_slack: int | None = None
    """Partitions by which counts may depart from the most even ones at most; None for as many as
    the even count has, and at least 8."""
    load_tolerance: float = 0.02
    """Share by which the longest time to drain may exceed the best one found."""
    load_floor: float = 0.0
    """Load in seconds that is always acceptable.

    So little load justifies neither uneven counts, nor cross-rack reads, nor moves.
    """
    cross_tolerance: float = 0.0
    """Share by which the cross-rack cost may exceed the least one found."""
    move_cost: float = 0.0
    """Seconds of load that a move has to save beyond the limits of load, to be worth its price."""
    max_moves: int | None = None
    """Moves that a plan may make; moves that cannot wait are made regardless. None: no limit."""
    time_budget: float = 1.0
    """Seconds after which a plan is not refined further."""
    horizon: float | None = None
    """Seconds of arrivals that count beside the lag; None for the group's own time to drain."""

    @property
    def slack_bound(self) -> int | None:
        """Slack that no plan may exceed; None for the even count."""
        return 0 if self.counts == "even" else self.count_slack

    def acceptable_drain_time(self, best: float) -> float:
        """Return the longest acceptable time to drain, given the best one found."""
        return max(best * (1 + self.load_tolerance), self.load_floor)

    def longest_drain_time(self, best: float, enough: float) -> float:
        """Return the longest acceptable time to drain; the tolerance counts once.

        Args:
            best: the best one found.
            enough: an acceptable one, from what no plan can beat.
        """
        return enough if best <= enough else self.acceptable_drain_time(best)

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> "Options":
        """Read the options of `optimal` from a mapping; other keys are ignored.

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


def number_check(
    minimum: float, maximum: float, *, whole: bool, optional: bool = False
) -> OptionCheck:
    """Return a check for a number from `minimum` to `maximum`."""

    def check(option: str, value: Any) -> Any:
        if optional and value is None:
            return None
        valid = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not valid or not minimum <= value <= maximum:
            kind = "an integer" if whole else "a number"
            raise ProblemError(
                f"option {option}: must be {kind} from {minimum} to {maximum}, not {_shown(value)}"
            )
        return value

    return check


def _shown(value: Any) -> str:
    """A wrong value as the error shows it; Python writes no integer of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > MOST_SHOWN:
        return "a number of many digits"
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _counts(option: str, value: Any) -> Counts:
    if value not in ("load", "even"):
        raise ProblemError(f"option {option}: must be 'load' or 'even', not {_shown(value)}")
    return "even" if value == "even" else "load"


def _names(option: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise ProblemError(f"option {option}: must be a list of names, not {_shown(value)}")
    if not all(isinstance(name, str) for name in value):
        raise ProblemError(f"option {option}: must hold names, each a string")
    return tuple(sorted(set(value)))


def _pins(option: str, value: Any) -> Mapping[str, Mapping[int, str]]:
    if not isinstance(value, Mapping) or not all(
        isinstance(members, Mapping) for members in value.values()
    ):
        raise ProblemError(
            f"option {option}: must be {{topic: {{partition: member}}}}, not {_shown(value)}"
        )
    return {
        topic: {
            _partition(option, topic, partition): _member(option, topic, member)
            for partition, member in members.items()
        }
        for topic, members in value.items()
    }


def _partition(option: str, topic: str, value: Any) -> int:
    number = value
    # JSON's keys are strings; Python reads no integer of thousands of digits.
    if isinstance(value, str) and value.isdecimal() and len(value) <= MAX_DIGITS:
        number = int(value)
    valid = isinstance(number, int) and not isinstance(number, bool)
    if not valid or not 0 <= number <= MOST_PARTITIONS:
        raise ProblemError(
            f"option {option}: {topic!r}: a partition must be a number from 0 to"
            f" {MOST_PARTITIONS}, not {_shown(value)}"
        )
    return int(number)


def _member(option: str, topic: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ProblemError(f"option {option}: {topic!r}: must name a member, not {_shown(value)}")
    return value


# By option: returns the valid value of what was given, or raises what is wrong with it.
OPTION_CHECKS: Mapping[str, OptionCheck] = MappingProxyType(
    {
        "pins": _pins,
        "drain": _names,
        "evacuate": _names,
        "counts": _counts,
        "count_slack": number_check(0, MOST_PARTITIONS, whole=True, optional=True),
        "load_tolerance": number_check(0, MOST_SHARE, whole=False),
        "load_floor": number_check(0, MOST_SECONDS, whole=False),
        "cross_tolerance": number_check(0, MOST_SHARE, whole=False),
        "move_cost": number_check(0, MOST_SECONDS, whole=False),
        "max_moves": number_check(0, MOST_PARTITIONS, whole=True, optional=True),
        "time_budget": number_check(0, MOST_SECONDS, whole=False),
        "horizon": number_check(0, MOST_SECONDS, whole=False, optional=True),
    }
)

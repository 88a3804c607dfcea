"""What one group wants otherwise: the `[groups.NAME]` tables of the configuration.

Law: an option that the group's strategy does not take is refused, and so is one that the strategy would refuse: at the start,
not at the first plan.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from daemon.control.settings import (
    EVERY,
    Count,
)
from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.control.settings import PlanSettings


def _listed(value: object) -> object:
    """The command line gives a list as one text."""
    return (
        [name.strip() for name in value.split(",") if name.strip()]
        if isinstance(value, str)
        else value
    )


Names = Annotated[list[str], BeforeValidator(_listed)]
Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSection:
    """What one group wants otherwise, from its next plan on: `levelwind rebalance` asks for one.

    Members are named by instance; who is not there is passed over.
    """

    strategy: str | None = None
    pins: dict[str, dict[str, str]] | None = None
    """By topic and partition: the member that has it while it reads the topic."""
    drain: Names | None = None
    """Members that get nothing where another reads it."""
    evacuate: Names | None = None
    """Racks whose members get nothing where a member elsewhere reads it."""
    count_slack: Count | None = None
    """How much further from even a member's count may be, for the sake of load."""
    load_tolerance: Figure | None = None
    """How much longer than the best found, as a share, the longest time to drain may be."""
    load_floor: Figure | None = None
    """Records over capacity that are no reason to cross racks, nor to move anything."""
    cross_tolerance: Figure | None = None
    """How much more than the least found, as a share, may cross racks."""
    max_moves: Count | None = None
    """Moves that a plan may make beyond those that cannot wait; the next plan goes on."""
    time_budget: Figure | None = None
    """Seconds after which a plan is refined no further."""
    horizon: Figure | None = None
    """Seconds of arrivals that count as load beside the lag."""
    record_bytes: Size | dict[str, Size] | None = None
    """Of all topics, or by topic with `*` for the others: what crosses racks is then weighed by the bytes that arrive."""

    def options(self) -> dict[str, Any]:
        """The strategy's options that are set."""
        named = {name: getattr(self, name) for name in OPTION_NAMES}
        return {name: value for name, value in named.items() if value is not None}

    def sizes(self) -> dict[str, float]:
        """Bytes of a record by topic; none: partitions are counted."""
        given = self.record_bytes
        return given if isinstance(given, dict) else {} if given is None else {EVERY: given}


OPTION_NAMES = tuple(
    each.name for each in fields(GroupSection) if each.name not in {"strategy", "record_bytes"}
)


def check_strategies(default: str, groups: Mapping[str, PlanSettings]) -> None:
    """Check the default strategy, and each group's strategy and options.

    Imports every strategy, and NumPy with them: `load` calls this only where the settings name a strategy or a group.

    Raises:
        ConfigurationError: names the setting, and what to do.
    """
    from assignors.registry import STRATEGIES  # noqa: PLC0415 - see the docstring

    named = {"control": default} | {
        f"groups.{group}": planning.strategy for group, planning in groups.items()
    }
    for table, strategy in named.items():
        if strategy not in STRATEGIES:
            raise ConfigurationError(
                f"{table}.strategy: {strategy!r} is no strategy"
                f"; there are {', '.join(sorted(STRATEGIES))}"
            )
    for group, planning in groups.items():
        check_options(group, planning)


def check_options(group: str, planning: PlanSettings) -> None:
    """Hold a group's options to those that its strategy takes, and to what the strategy makes of them.

    Raises:
        ConfigurationError: names the option, and what to do.
    """
    from assignors.problem.inputs import ProblemError  # noqa: PLC0415 - as `check_strategies`
    from assignors.registry import OPTIONS  # noqa: PLC0415 - as `check_strategies`

    known = OPTIONS.get(planning.strategy, {})
    for option, value in planning.options.items():
        if option not in known:
            takers = [name for name, theirs in sorted(OPTIONS.items()) if option in theirs]
            raise ConfigurationError(
                f"groups.{group}.{option}: strategy {planning.strategy!r} takes no such option; leave it out, or let"
                f" the group be planned by {' or '.join(takers)}"
            )
        try:
            known[option](option, value)
        except ProblemError as wrong:
            raise ConfigurationError(f"groups.{group}: {wrong}") from None
    if planning.record_bytes and planning.strategy != "optimal":
        raise ConfigurationError(
            f"groups.{group}.record_bytes: strategy {planning.strategy!r} does not weigh traffic; leave it out, or let"
            " the group be planned by optimal"
        )

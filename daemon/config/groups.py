"""Settings of single groups: the `[groups.NAME]` tables of the configuration.

Guarantees: an option that the group's strategy does not take, or would refuse, is refused at the
start and not at the first plan.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from levelwind.daemon.control.settings import EVERY, Count, Speed
from levelwind.daemon.durations import PositiveSeconds, Seconds  # noqa: TC001 - the settings are validated by their annotations
from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.control.settings import PlanSettings, ScalingSettings


Figure = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Size = Annotated[float, Field(gt=0, le=2**31 - 1, allow_inf_nan=False)]
"""Bytes of a record; Kafka has no longer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScaling:
    """Scaling of one group's members; None: as the table `scaling` says."""

    drain_within: PositiveSeconds | None = None
    """As `scaling.drain_within`."""
    scale_down_after: Seconds | None = None
    """As `scaling.scale_down_after`."""
    min_members: Count | None = None
    """As `scaling.min_members`."""
    max_members: Annotated[Count, Field(ge=1)] | None = None
    """As `scaling.max_members`."""
    member_speed: Speed | None = None
    """As `scaling.member_speed`."""

    def over(self, scaling: ScalingSettings) -> ScalingSettings:
        """Return the settings of all groups with those that this group has of its own."""
        own = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(scaling, **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSection:
    """Settings of one group, in effect from its next plan on; None: not set.

    Members are named by instance, and a name that is not there is ignored. The defaults of the
    options are those of the strategy `optimal`.
    """

    strategy: str | None = None
    """The group's strategy; by default that of `control.strategy`."""
    mode: Literal["managed", "published", "proxy", "advisory"] = "managed"
    """How members get plans: `managed`, they follow levelwind alone; `published`, they subscribe,
    and their `PublishedAssignor` applies the plans; `proxy`, they subscribe, with whatever
    client, and the daemon joins their group and leads it; `advisory`, they subscribe, and nobody
    applies the plans, which are recommendations."""
    approval: bool = False
    """Whether plans because of racks, skew or an operator's request for one wait as proposals until
    an operator approves them. Members and topics that change get at once a plan that moves only
    what must move."""
    new_partitions: Literal["beginning", "reset"] = "beginning"
    """Where members of a managed group begin in a partition that nobody has committed and that did
    not exist when plans began to cover its topic: at its `beginning`, whatever their
    `auto.offset.reset` says, or where that says, `reset`."""
    reset_policy: Literal["latest", "earliest"] | None = None
    """Where the group's readers begin without a commit; by default as `pipeline.reset_policy` says.
    The group need not be a planned one. In effect when the daemon starts."""
    pins: dict[str, dict[str, str]] | None = None
    """By topic and partition, the member that owns it while that member reads the topic."""
    drain: list[str] | None = None
    """Members that get nothing that another member can read."""
    evacuate: list[str] | None = None
    """Racks whose members get nothing that a member in another rack can read."""
    counts: Literal["load", "even"] | None = None
    """How far members' counts may be from even: `load`, as far as load needs; `even`, not at all:
    counts come before load."""
    count_slack: Count | None = None
    """Number of partitions by which a member's count may be further from even, for better load; by
    default as many as the even count has, and at least 8."""
    load_tolerance: Figure | None = None
    """Share by which the largest load may exceed the best one found."""
    load_floor: Seconds | None = None
    """Seconds of load that justify neither uneven counts, nor crossing racks, nor a move."""
    cross_tolerance: Figure | None = None
    """Share by which the traffic across racks may exceed the least found; 0.05 where `record_bytes`
    is set."""
    move_cost: Seconds | None = None
    """Seconds of load that a move has to save to be worth its price, once loads are within five
    percent of their limits, or ten where next to nothing waits."""
    max_moves: Count | None = None
    """The most moves of one plan beyond those that cannot wait; the next plan makes the rest."""
    time_budget: Seconds | None = None
    """Seconds after which a plan is refined no further."""
    horizon: Seconds | None = None
    """Seconds of arrivals that count as load beside the lag; by default the group's own time to
    drain."""
    record_bytes: Size | dict[str, Size] | None = None
    """Bytes of a record, of all topics or by topic with `*` for the others: traffic across racks is
    then weighed by the bytes that arrive, and not by the number of partitions."""

    scaling: GroupScaling = GroupScaling()
    """Scaling of the group's members."""

    def options(self) -> dict[str, Any]:
        """Return the options of the strategy that are set."""
        values = {name: getattr(self, name) for name in OPTION_NAMES}
        return {name: value for name, value in values.items() if value is not None}

    def sizes(self) -> dict[str, float]:
        """Return the bytes of a record by topic; empty: partitions are counted."""
        given = self.record_bytes
        return given if isinstance(given, dict) else {} if given is None else {EVERY: given}


OPTION_NAMES = tuple(
    setting.name
    for setting in fields(GroupSection)
    if setting.name
    not in {
        "strategy",
        "mode",
        "approval",
        "new_partitions",
        "reset_policy",
        "record_bytes",
        "scaling",
    }
)
"""Names of the settings that are options of a strategy."""


def check_strategies(default: str, groups: Mapping[str, PlanSettings]) -> None:
    """Check the default strategy, and each group's strategy and options.

    Imports every strategy, and NumPy with them: `load` calls this only where the settings name a
    strategy or a group.

    Raises:
        ConfigurationError: names the setting, and what to do.
    """
    from levelwind.assignors.registry import STRATEGIES  # noqa: PLC0415 - see the docstring

    strategies = {"control": default} | {
        f"groups.{group}": planning.strategy for group, planning in groups.items()
    }
    for table, strategy in strategies.items():
        if strategy not in STRATEGIES:
            raise ConfigurationError(
                f"{table}.strategy: {strategy!r} is no strategy"
                f"; there are {', '.join(sorted(STRATEGIES))}"
            )
    for group, planning in groups.items():
        check_options(group, planning)


def check_options(group: str, planning: PlanSettings) -> None:
    """Check that a group's strategy takes the group's options and their values.

    Raises:
        ConfigurationError: an option does not fit; the text names it, and what to do.
    """
    from levelwind.assignors.problem.inputs import ProblemError  # noqa: PLC0415 - as `check_strategies`
    from levelwind.assignors.registry import OPTIONS  # noqa: PLC0415 - as `check_strategies`

    accepted = OPTIONS.get(planning.strategy, {})
    for option, value in planning.options.items():
        if option not in accepted:
            takers = [name for name, taken in sorted(OPTIONS.items()) if option in taken]
            raise ConfigurationError(
                f"groups.{group}.{option}: strategy {planning.strategy!r} takes no such"
                f" option; leave it out, or let the group be planned by {' or '.join(takers)}"
            )
        try:
            accepted[option](option, value)
        except ProblemError as wrong:
            raise ConfigurationError(f"groups.{group}: {wrong}") from None
    if planning.record_bytes and planning.strategy != "optimal":
        raise ConfigurationError(
            f"groups.{group}.record_bytes: strategy {planning.strategy!r} does not weigh"
            " traffic; leave it out, or let the group be planned by optimal"
        )

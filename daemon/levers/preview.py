"""Dry run: what the planner would do with a group now. Pure.

The control takes in the records of levelwind's topics as a daemon does at its start, under the
levers in force and those to be tried, and one plan is computed; nothing is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    LeverRecord,
    OperatorRecord,
    Tombstone,
)
from levelwind.daemon.control.audit.group_decision import Decision
from levelwind.daemon.control.boundary.control_events import Recovered
from levelwind.daemon.control.context import Clock
from levelwind.daemon.control.controller import step
from levelwind.daemon.control.decision.decide import computed_plan
from levelwind.daemon.control.decision.ordered_plan import basis_digest
from levelwind.daemon.control.lever_set import GroupLevers, LeverSet
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.control.snapshot import GroupSnapshot
from levelwind.daemon.control.state.control_state import ControlState
from levelwind.daemon.control.watched.watched_snapshot import WatchedSnapshot
from levelwind.daemon.decisions.encoding import plan_body
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.levers.orders import OPTION_OF, OrderError
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import Record
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.planning import ComputedPlan
    from levelwind.daemon.levers.orders import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPreview:
    """A plan that was computed and not published."""

    group: str
    cause: str
    plan: ComputedPlan
    basis: str
    """Hash of the members and topics that the plan is for."""
    moves: tuple[dict[str, Any], ...]
    """Partitions that change their owner: `topic`, `partition`, `from`, `to` and `lag`."""
    in_force: str | None
    """The plan in force; None without one."""

    @property
    def summary(self) -> tuple[str, ...]:
        """The plan's proven bounds in sentences; none where its strategy proves none."""
        certificate = self.plan.certificate
        return () if certificate is None else certificate.lines()

    def as_json(self) -> dict[str, Any]:
        """Return the preview for a program; `levelwind apply` takes it back."""
        body = plan_body(self.plan)
        del body["inputs"]
        return {
            "group": self.group,
            "cause": self.cause,
            "in_force": self.in_force,
            "basis": self.basis,
            **body,
            "moves": list(self.moves),
        }


def state_of(settings: Settings, records: Records, at: int | None = None) -> ControlState:
    """Return the control as a daemon would have it that starts on these records.

    Args:
        settings: the settings.
        records: the records of levelwind's topics, in the order of each partition's log.
        at: the time, in milliseconds since the epoch; None for now.
    """
    modes = settings.watched_modes()
    state = ControlState(
        instance="dry run",
        settings=settings.control,
        timers=settings.timers,
        planning_of=settings.planning_of,
        modes=modes,
        members_partitions=1,
    )
    clock = _clock(at)
    # A request that waits would be answered by the recovery itself.
    kept = tuple(
        (kind, record) for kind, record in records if not isinstance(record, OperatorRecord)
    )
    return step(state, Recovered(records=kept), clock)[0]


def _clock(at: int | None) -> Clock:
    wall = now_ms() if at is None else at
    return Clock(now=wall / 1000, at=wall)


def levers_in_force(
    records: Iterable[tuple[TopicKind, Record | Tombstone]], group: str | None = None
) -> list[LeverRecord]:
    """Return the levers in force: all, or those that hold for one group."""
    levers = LeverSet.of_records(record for kind, record in records if kind == "control")
    return levers.records if group is None else list(levers.of(group).records)


def override(settings: Settings, lever: LeverRecord) -> dict[str, Any]:
    """Return what a lever overrides of the configuration, with the value in the file.

    A row with `path`, `value` (in force), `origin`, and `file` (what the file says).
    """
    name = OPTION_OF.get(lever.kind, lever.kind)
    group = lever.group
    of_file = settings.planning_of(group)
    effective = GroupLevers((lever,)).planning(of_file)
    before = of_file.strategy if name == "strategy" else of_file.options.get(name)
    after = effective.strategy if name == "strategy" else effective.options.get(name)
    return {
        "path": f"groups.{group}.{name}",
        "value": True if lever.kind == "pause" else after,
        "origin": f"lever of {lever.by}" + (f": {lever.reason}" if lever.reason else ""),
        "file": before,
    }


def preview(
    settings: Settings,
    records: Records,
    group: str,
    *,
    levers: Sequence[LeverRecord | Tombstone] = (),
    request: OperatorRecord | None = None,
    at: int | None = None,
) -> PlanPreview:
    """Compute the plan that a group would get now, if an operator asked for one.

    Args:
        settings: the settings.
        records: the records of levelwind's topics, in the order of each partition's log.
        group: the group.
        levers: levers to try, set or released, as if they were in force.
        request: the operator's request; None: a plan is computed.
        at: the time, in milliseconds since the epoch; None for now.

    Raises:
        NotFoundError: no such group is known, or nobody is there to plan for.
        OrderError: the request cannot be followed; the text says why.
    """
    tried = [("control", lever) for lever in levers]
    state = state_of(settings, [*records, *tried], at)  # type: ignore[list-item]
    found = state.groups.get(group)
    if found is None:
        raise NotFoundError(f"no group {group!r} is known here: `levelwind groups` lists them")
    clock = _clock(at)
    if request is None and not levers:
        request = OperatorRecord(group=group, at=clock.at, by="", action="rebalance", reason="")
    found = replace(found, operator=request)
    watched = state.modes.get(group, "managed") != "managed" and found.idle
    context = state.context(clock)
    snapshot = (WatchedSnapshot if watched else GroupSnapshot)(found, context)
    if not snapshot.members:
        raise NotFoundError(
            f"group {group!r} has no members that levelwind plans for: nothing to plan"
        )
    planning = state.planning_of(group)
    plan = computed_plan(found, Cause.OPERATOR, planning, snapshot)
    if isinstance(plan, Decision):
        raise OrderError(_refusal(plan))
    return PlanPreview(
        group=group,
        cause=Cause.OPERATOR.value,
        plan=plan,
        basis=basis_digest(snapshot.basis),
        moves=_moves(plan, found, snapshot),
        in_force=found.plan.plan_id if found.plan else None,
    )


def _refusal(decision: Decision) -> str:
    fields = decision.events[0].fields if decision.events else {}
    text = str(fields.get("reason") or fields.get("error") or "the order cannot be followed")
    return text.strip().splitlines()[-1]


def _moves(
    plan: ComputedPlan, group: ManagedGroup, snapshot: GroupSnapshot
) -> tuple[dict[str, Any], ...]:
    becomes = plan.owners
    was = {partition: snapshot.owners.get(partition) for partition in becomes}
    lags = {
        (topic, number): lag
        for topic, record in group.lags.items()
        for number, lag in enumerate(record.lag)
    }
    return tuple(changed_owners(was, becomes, lags))


def changed_owners(
    was: Mapping[TopicPartition, str | None],
    becomes: Mapping[TopicPartition, str],
    lags: Mapping[TopicPartition, int],
) -> list[dict[str, Any]]:
    """Return the partitions with another owner: `topic`, `partition`, `from`, `to` and `lag`."""
    return [
        {
            "topic": topic,
            "partition": number,
            "from": was.get((topic, number)),
            "to": becomes.get((topic, number)),
            "lag": lags.get((topic, number)),
        }
        for topic, number in sorted({*was, *becomes})
        if was.get((topic, number)) != becomes.get((topic, number))
    ]

"""Replay of a decision: its plan is computed again from the recorded inputs, offline. Pure.

Plans are deterministic: their search is limited by counted work, and not by time. The clock only
cuts where a machine takes several times as long as the work should (`cut_by_clock`); the decision
records where (`clock_cuts`), and the replay is cut there, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from levelwind.assignors.json_problems import parse_problem
from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.canonical_json import dumps, loads
from levelwind.daemon.control.plan_inputs import PlanInputs
from levelwind.daemon.control.planning import solved
from levelwind.daemon.decisions.encoding import plan_body
from levelwind.daemon.errors import NotFoundError

if TYPE_CHECKING:
    from levelwind.assignors.optimal import ClockCuts
    from levelwind.daemon.control.planning import ComputedPlan
    from levelwind.daemon.decisions.encoding import DecisionEntry

COMPARED = ("target", "before", "after", "waiting", "certificate")
"""Fields of a decision that its replay computes again."""
FIGURES = ("before", "after", "waiting", "certificate")
"""Those of them to which a later version may add figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """Comparison of a recorded plan with the one that its inputs give now."""

    group: str
    id: str
    plan_id: str | None
    differences: dict[str, tuple[Any, Any]]
    """By field, the recorded value and the computed one; empty if every byte is equal."""
    moved_otherwise: int
    """Partitions that the computed plan gives to another member than the recorded one."""
    note: str
    """What a reader must know of the comparison; empty: nothing."""

    @property
    def identical(self) -> bool:
        """Whether the computed plan is the recorded one, byte by byte."""
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        """Return the comparison for a program."""
        return {
            "group": self.group,
            "id": self.id,
            "plan_id": self.plan_id,
            "identical": self.identical,
            "moved_otherwise": self.moved_otherwise,
            "differences": {
                name: {"recorded": recorded, "computed": computed}
                for name, (recorded, computed) in self.differences.items()
            },
            "note": self.note,
        }


def recorded_inputs(entry: DecisionEntry) -> PlanInputs:
    """Return the inputs that a decision recorded.

    Raises:
        NotFoundError: the decision computed no plan, or what it recorded is no problem.
    """
    fields = entry.body.get("inputs")
    if not isinstance(fields, dict):
        raise NotFoundError(f"decision {entry.id} computed no plan: nothing to replay")
    try:
        problem = parse_problem(fields)
        return PlanInputs(
            topics=problem.topics,
            members=tuple(problem.members),
            strategy=str(problem.strategies[0]),
            options=problem.options,
            pause=float(fields["pause"]),
            target=fields.get("target"),
        )
    except (ProblemError, KeyError, TypeError, ValueError) as error:
        raise NotFoundError(f"decision {entry.id} recorded no problem: {error}") from error


def replay(entry: DecisionEntry) -> ReplayResult:
    """Compute a recorded plan again, and compare the two.

    Raises:
        NotFoundError: the decision computed no plan, or what it recorded is no problem.
    """
    inputs = recorded_inputs(entry)
    try:
        plan = solved(inputs, inputs.problem(), inputs.owners, clock_cuts=_clock_cuts(entry))
    except (ProblemError, RuntimeError) as error:
        raise NotFoundError(f"decision {entry.id} cannot be computed again: {error}") from error
    # Through JSON, as the record went: a tuple and a list are the same bytes.
    body: Any = loads(dumps(plan_body(plan)))
    computed = {
        name: _as_recorded(entry.body.get(name), body[name]) if name in FIGURES else body[name]
        for name in COMPARED
    }
    differences = {
        name: (entry.body.get(name), computed[name])
        for name in COMPARED
        if dumps(entry.body.get(name)) != dumps(computed[name])
    }
    return ReplayResult(
        group=entry.group,
        id=entry.id,
        plan_id=entry.plan_id,
        differences=differences,
        moved_otherwise=_moved_otherwise(entry, plan),
        note=_note(entry),
    )


def _as_recorded(recorded: Any, computed: Any) -> Any:
    """Return what was computed without the figures that the recording version did not know.

    The sentences of a certificate say what its objectives say, and count where these are the same.
    """
    if not isinstance(recorded, dict) or not isinstance(computed, dict):
        return computed
    known = {
        name: _as_recorded(recorded[name], value)
        for name, value in computed.items()
        if name in recorded
    }
    further = computed.get("objectives", {}).keys() - recorded.get("objectives", {}).keys()
    if further:
        known["summary"] = recorded.get("summary")
    return known


def _moved_otherwise(entry: DecisionEntry, plan: ComputedPlan) -> int:
    recorded = ranges.owners(entry.target)
    return sum(recorded.get(partition) != member for partition, member in plan.owners.items())


def _clock_cuts(entry: DecisionEntry) -> ClockCuts:
    """Return where the clock cut the recorded search.

    Raises:
        NotFoundError: what the decision recorded is no list of cuts.
    """
    cuts = entry.body.get("clock_cuts", [])
    try:
        return tuple((int(budget), int(call)) for budget, call in cuts)
    except (TypeError, ValueError) as error:
        raise NotFoundError(f"decision {entry.id} recorded no cuts: {error}") from error


def _note(entry: DecisionEntry) -> str:
    if not entry.body.get("cut_by_clock"):
        return ""
    if "clock_cuts" not in entry.body:
        return (
            "the clock cut the recorded plan's search on a machine that was too slow for its work"
            " budget, and the version that made it did not record where: no replay can repeat it,"
            " and a difference says nothing about the planner"
        )
    return (
        "the clock cut the recorded plan's search on a machine that was too slow for its work"
        " budget; the replay was cut at the same points. With more time a better plan may be found"
    )

"""Certificates: how good a plan is, provably.

For each objective: the plan's value, a bound that no plan beats, and the reason for the bound.

Guarantees: a bound is never above the best value of any plan that is as good in the preceding
objectives, so value and bound together limit how much better a plan could be. Certificates name
topics and members, since people and records read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.bounds import (
    Bound,
    count_moves_bound,
    load_moves_bound,
    wait_bound,
)
from levelwind.assignors.optimal.model.load_limits import LoadLimits
from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import ClockCuts
from levelwind.assignors.optimal.search.class_flow import cross_rack_bound
from levelwind.assignors.optimal.target import Target
from levelwind.assignors.optimal.within_limits import PlanWithin
from levelwind.assignors.problem.columns import Ints
from levelwind.assignors.problem.drain import wait_seconds

MAX_NAMED_PARTITIONS = 3
"""Partitions of a bound that a certificate names; more names add nothing for a reader."""
EXHAUSTIVE = "every plan was compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One objective of a plan: its value and a lower bound; less is better."""

    name: str
    """Name of the objective in records."""
    value: float
    """Value of the plan."""
    bound: float
    """Value that no plan is below. Invariant: bound <= value."""
    bound_kind: str
    """The argument that gives the bound, in words."""
    partitions: tuple[tuple[str, int], ...] = ()
    """Topic and number of the partitions that alone cause the bound; empty if there are none."""

    @property
    def met(self) -> bool:
        """Whether no plan has a lower value."""
        return self.value <= self.bound * (1 + 1e-9)

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The partitions as `topic-number`."""
        return tuple(f"{topic}-{number}" for topic, number in self.partitions)

    def as_json(self) -> dict[str, object]:
        """The objective as a JSON object."""
        return {
            "value": _plain(self.value),
            "bound": _plain(self.bound),
            "bound_kind": self.bound_kind,
            "partitions": list(self.partition_names),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The objectives of a plan in order of importance, and whether the search was cut short."""

    load: Objective
    """Largest load of a member in seconds: its lag and the horizon's arrivals over its capacity."""
    cross_rack: Objective
    """Weight of the partitions that are read across racks."""
    wait: Objective
    """Mean wait of the records of the horizon in seconds, which level loads make short."""
    moves: Objective
    """Partitions that change their owner."""
    counts: Objective
    """Partitions of the member with the most partitions."""
    before: tuple[float, float] | None
    """Largest load and mean wait in seconds under the current owners; None where a partition that
    is read has none, or one that may not keep it."""
    spared_moves: int
    """Moves that were left out because they are not worth `move_cost`."""
    spared_seconds: float
    """Seconds of load that these would save, of all members together."""
    traffic: int
    """Weight of all partitions whose racks and whose owner's rack are known."""
    horizon: float
    """Seconds of arrivals that count as load."""
    slack: int
    """How far counts may depart from the most even ones, as load needs."""
    assumed: bool
    """Whether no member's speed is known, so that seconds are assumed."""
    tolerance: float
    """Share by which the load may exceed the best one found."""
    cut_by_time: bool
    """The work budget was exhausted before every improvement was tried."""
    cut_by_moves: bool
    """`max_moves` postponed moves."""
    clock_cuts: ClockCuts = ()
    """Where the clock cut the search while work was left: another run may find another plan, unless
    it is cut there, too."""

    @property
    def complete(self) -> bool:
        """Whether the search tried everything and no move was postponed."""
        return not (self.cut_by_time or self.cut_by_moves)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives in order of importance."""
        return self.load, self.cross_rack, self.wait, self.moves, self.counts

    @property
    def cut_by(self) -> tuple[str, ...]:
        """Limits that kept the plan from being better: `time`, `moves`."""
        return tuple(
            name for name, cut in (("time", self.cut_by_time), ("moves", self.cut_by_moves)) if cut
        )

    def as_json(self) -> Mapping[str, object]:
        """The certificate as a JSON object."""
        return {
            "complete": self.complete,
            "cut_by": list(self.cut_by),
            "horizon_seconds": _plain(self.horizon),
            "count_slack": self.slack,
            "assumed": self.assumed,
            "objectives": {objective.name: objective.as_json() for objective in self.objectives},
            "before": None
            if self.before is None
            else dict(zip(("load", "wait"), map(_plain, self.before), strict=True)),
            "spared_moves": self.spared_moves,
            "summary": list(self.lines()),
        }

    def lines(self) -> tuple[str, ...]:
        """One sentence for each objective and for each limit that was reached."""
        load = _bound_reason(self.load, "no plan can do better", " s")
        wait = _bound_reason(self.wait, "no plan can do better", " s")
        moves = _bound_reason(self.moves, "no plan needs fewer")
        counts = _bound_reason(self.counts, "no plan is more even")
        assumed = " at assumed speeds" if self.assumed and self.load.value else ""
        sentences = [
            f"largest load {_figure(self.load.value)} s{assumed}, {load}",
            self._cross_rack_line(),
            f"mean wait {_figure(self.wait.value)} s{assumed}, {wait}",
            f"moves {self.moves.value:,.0f}, {moves}{self._bought()}",
            f"largest count {self.counts.value:,.0f}, {counts}",
        ]
        if self.spared_moves:
            sentences.append(
                f"moves left out {self.spared_moves:,}: they would save"
                f" {_figure(self.spared_seconds)} s of load, less than their price (move_cost)"
            )
        if self.cut_by_time:
            sentences.append(
                "the time budget ran out before every improvement was tried: a larger time_budget"
                " may find a better plan, and the next plan continues from this one"
            )
        if self.cut_by_moves:
            sentences.append(
                "max_moves postponed the other moves: the next plan continues from this one"
            )
        return tuple(sentences)

    def _bought(self) -> str:
        """What the moves buy, as the end of a sentence."""
        if self.before is None or not self.moves.value:
            return ""
        load, wait = map(_figure, self.before)
        return (
            f"; largest load {load} s before and {_figure(self.load.value)} s after,"
            f" mean wait {wait} s before and {_figure(self.wait.value)} s after"
        )

    def _cross_rack_line(self) -> str:
        if not self.traffic:
            return "cross-rack: not measured, since no racks of a partition and its owner are known"
        value, bound = self.cross_rack.value / self.traffic, self.cross_rack.bound / self.traffic
        if self.cross_rack.met:
            return f"cross-rack {value:.1%}, no plan can do better"
        reason = f"no plan can do better than {bound:.1%}: {self.cross_rack.bound_kind}"
        return f"cross-rack {value:.1%}, {reason}"


def certify(
    model: Model,
    owner: Ints,
    bound: Bound,
    target: Target,
    planned: PlanWithin,
    *,
    truncated: bool,
    exhausted: bool,
    clock_cuts: ClockCuts = (),
) -> Certificate:
    """Compare a plan with the bounds.

    Args:
        model: the problem.
        owner: the plan.
        bound: lower bound on the largest load.
        target: the values that were found to be within reach.
        planned: the full plan, with the limits that it was made for.
        truncated: whether moves were postponed.
        exhausted: whether the work budget left something untried.
        clock_cuts: where it did so because time was up while work was left.
    """
    racks_known = np.flatnonzero((owner >= 0) & (np.diff(model.group.replica_start) > 0))
    racks_known = racks_known[model.group.member_rack[owner[racks_known]] >= 0]
    count = model.member_count(owner)
    max_even_count = model.even.quota + (model.even.extras > 0)
    exact = planned.cheapest is not None
    if exact:
        load = Bound(
            target.drain_time,
            EXHAUSTIVE,
            bound.partitions if bound.value >= target.drain_time else (),
        )
    else:
        load = bound
    return Certificate(
        counts=Objective(
            name="counts",
            value=int(count.max(initial=0)),
            bound=min(int(max_even_count.max(initial=0)), int(count.max(initial=0))),
            bound_kind="most even flow",
        ),
        load=Objective(
            name="load",
            value=model.max_drain_time(owner),
            bound=min(load.value, model.max_drain_time(owner)),
            bound_kind=load.kind,
            partitions=tuple(
                _partition_name(model, partition)
                for partition in load.partitions[:MAX_NAMED_PARTITIONS]
            ),
        ),
        cross_rack=_cross_rack_objective(model, owner, planned.cheapest),
        wait=_wait_objective(model, owner),
        moves=_moves_objective(model, owner, planned.limits, exact=exact and not truncated),
        before=_before(model),
        spared_moves=planned.spared_moves,
        spared_seconds=planned.spared_seconds,
        traffic=int(model.weight[racks_known].sum()),
        horizon=model.horizon,
        slack=model.slack,
        assumed=model.group.assumed,
        tolerance=model.options.load_tolerance,
        cut_by_time=exhausted,
        cut_by_moves=truncated,
        clock_cuts=clock_cuts,
    )


def _before(model: Model) -> tuple[float, float] | None:
    if not np.array_equal(model.keepable_owner >= 0, model.assignable):
        return None
    drain_time = model.drain_time(model.keepable_owner)
    return float(drain_time.max(initial=0.0)), wait_seconds(drain_time, model.capacity)


def _cross_rack_objective(model: Model, owner: Ints, cheapest: Ints | None) -> Objective:
    value = model.total_cross_rack_cost(owner)
    if cheapest is not None:
        bound, kind = model.total_cross_rack_cost(cheapest), EXHAUSTIVE
    elif value == 0:
        bound, kind = 0, "no cross-rack reads"
    elif model.class_count <= 1:
        bound, kind = value, "all members in one class"
    else:
        bound, kind = cross_rack_bound(model), "min-cost flow at these counts"
    return Objective(name="cross_rack", value=value, bound=min(bound, value), bound_kind=kind)


def _wait_objective(model: Model, owner: Ints) -> Objective:
    value = wait_seconds(model.drain_time(owner), model.capacity)
    bound = wait_bound(model)
    return Objective(name="wait", value=value, bound=min(bound.value, value), bound_kind=bound.kind)


def _moves_objective(model: Model, owner: Ints, limits: LoadLimits, *, exact: bool) -> Objective:
    value = int(np.count_nonzero(model.moved(owner)))
    if exact:
        bound, kind = value, EXHAUSTIVE
    else:
        # A plan that was cut short may exceed the limit: no plan of at most its load moves less.
        limit = max(limits.largest, model.max_drain_time(owner))
        bound, kind = max(
            (count_moves_bound(model), "partitions kept at these counts"),
            (load_moves_bound(model, limit), "load has to be taken up within its tolerance"),
            key=lambda found: found[0],
        )
    return Objective(name="moves", value=value, bound=min(bound, value), bound_kind=kind)


def _partition_name(model: Model, partition: int) -> tuple[str, int]:
    topic = int(model.group.partition_topic[partition])
    return model.group.topics[topic], partition - int(model.group.topic_start[topic])


def _bound_reason(objective: Objective, best: str, unit: str = "") -> str:
    causes = " and ".join(objective.partition_names)
    if causes:
        causes += (
            " alone causes that" if len(objective.partition_names) == 1 else " together cause that"
        )
    if objective.met:
        return f"{best}: {causes}" if causes else best
    bound = _figure(objective.bound) + unit
    return f"no plan can do better than {bound}: {causes or objective.bound_kind}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:,.2f}"


def _plain(value: float) -> float:
    return int(value) if value == int(value) else round(value, 6)

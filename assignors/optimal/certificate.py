"""How good a plan is, provably: for each objective its value, what no plan can do better than, and why.

Law: a bound is never above the best value of any plan that is as good in the objectives before it, so value and bound together
say how much could be left to gain. Names instead of numbers: a certificate is for people and for records.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assignors.optimal.bounds import Bound, growth_bound, moves_bound
from assignors.optimal.model.model import Model
from assignors.optimal.search.class_flow import crossing_bound
from assignors.optimal.target import Target
from assignors.problem.columns import Ints

TOLD = 3  # partitions of a bound that are named; more say no more
COMPARED = "every plan was compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What a plan is worth in one respect; less is better."""

    name: str
    value: float
    bound: float
    bound_kind: str  # what the bound rests on
    partitions: tuple[tuple[str, int], ...] = ()  # that alone make it so

    @property
    def met(self) -> bool:
        """No plan is better."""
        return self.value <= self.bound * (1 + 1e-9)

    @property
    def named(self) -> tuple[str, ...]:
        """The partitions as people write them."""
        return tuple(f"{topic}-{number}" for topic, number in self.partitions)

    def as_json(self) -> dict[str, object]:
        """By name."""
        return {
            "value": _plain(self.value),
            "bound": _plain(self.bound),
            "bound_kind": self.bound_kind,
            "partitions": list(self.named),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A plan's objectives in their order, and whether it was cut short."""

    counts: Objective  # partitions of the member that has most
    load: Objective  # the longest time to drain
    crossing: Objective  # the weight of what crosses racks
    moves: Objective  # partitions that change hands
    traffic: int  # the weight of all that could cross racks
    unit: str  # of load
    tolerance: float  # of load
    cut_by_time: bool
    cut_by_moves: bool

    @property
    def complete(self) -> bool:
        """Nothing that could be tried was left out for want of time, and no move was put off."""
        return not (self.cut_by_time or self.cut_by_moves)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """In their order."""
        return self.counts, self.load, self.crossing, self.moves

    @property
    def cut_by(self) -> tuple[str, ...]:
        """What kept the plan from being better."""
        return tuple(
            name for name, cut in (("time", self.cut_by_time), ("moves", self.cut_by_moves)) if cut
        )

    def as_json(self) -> Mapping[str, object]:
        """By name."""
        return {
            "complete": self.complete,
            "cut_by": list(self.cut_by),
            "objectives": {objective.name: objective.as_json() for objective in self.objectives},
            "summary": list(self.lines()),
        }

    def lines(self) -> tuple[str, ...]:
        """In an operator's words, a line for each objective."""
        told = [
            f"largest count {self.counts.value:,.0f}, {_reason(self.counts, 'no plan is more even')}",
            f"largest {self.unit} {_figure(self.load.value)}, {_reason(self.load, 'no plan can do better')}",
            self._crossing(),
            f"moves {self.moves.value:,.0f}, {_reason(self.moves, 'no plan needs fewer')}",
        ]
        if self.cut_by_time:
            told.append(
                "not everything was tried: a larger time_budget may find better, and the next plan goes on"
            )
        if self.cut_by_moves:
            told.append("max_moves put the other moves off: the next plan goes on")
        return tuple(told)

    def _crossing(self) -> str:
        if not self.traffic:
            return "cross-rack: nothing to measure, racks are not known on both sides"
        value, bound = self.crossing.value / self.traffic, self.crossing.bound / self.traffic
        if self.crossing.met:
            return f"cross-rack {value:.1%}, no plan can do better"
        return f"cross-rack {value:.1%}, no plan can do better than {bound:.1%}: {self.crossing.bound_kind}"


def certified(
    terms: Model, owner: Ints, bound: Bound, goal: Target, *, exact: bool, cut: bool, spent: bool
) -> Certificate:
    """Hold a plan against the bounds.

    Args:
        terms: the problem.
        owner: the plan.
        bound: of load.
        goal: what was found to be within reach.
        exact: whether nothing better than the goal is there.
        cut: whether moves were put off.
        spent: whether something was left untried.
    """
    known = np.flatnonzero((owner >= 0) & (np.diff(terms.group.replica_start) > 0))
    known = known[terms.group.member_rack[owner[known]] >= 0]
    count = terms.count(owner)
    even = terms.blocks.level + (terms.blocks.extras > 0)
    if exact:
        load = Bound(goal.drain, COMPARED, bound.partitions if bound.value >= goal.drain else ())
    else:
        load = bound
    return Certificate(
        counts=Objective(
            name="counts",
            value=int(count.max(initial=0)),
            bound=min(int(even.max(initial=0)), int(count.max(initial=0))),
            bound_kind="most even flow",
        ),
        load=Objective(
            name="load",
            value=terms.drain(owner),
            bound=min(load.value, terms.drain(owner)),
            bound_kind=load.kind,
            partitions=tuple(_named(terms, partition) for partition in load.partitions[:TOLD]),
        ),
        crossing=_crossing(terms, owner, goal, exact=exact),
        moves=_moves(terms, owner, goal, exact=exact and not cut),
        traffic=int(terms.weight[known].sum()),
        unit=_unit(terms),
        tolerance=terms.wishes.load_tolerance,
        cut_by_time=spent,
        cut_by_moves=cut,
    )


def _crossing(terms: Model, owner: Ints, goal: Target, *, exact: bool) -> Objective:
    value = terms.crossed(owner)
    if exact:
        bound, kind = goal.crossing, COMPARED
    elif value == 0:
        bound, kind = 0, "nothing crosses"
    elif len(terms.signature) <= 1:
        bound, kind = value, "one kind of members"
    else:
        bound, kind = crossing_bound(terms), "transport at these counts"
    return Objective(name="cross_rack", value=value, bound=min(bound, value), bound_kind=kind)


def _moves(terms: Model, owner: Ints, goal: Target, *, exact: bool) -> Objective:
    value = int(np.count_nonzero(terms.moved(owner)))
    if exact:
        bound, kind = value, COMPARED
    else:
        # A plan cut short may be above the limit: of those that are no better in load, none moves less than this.
        limit = max(terms.wishes.within(goal.drain), terms.drain(owner))
        bound, kind = max(
            (moves_bound(terms), "kept partitions at these counts"),
            (growth_bound(terms, limit), "load has to be taken up within its tolerance"),
            key=lambda found: found[0],
        )
    return Objective(name="moves", value=value, bound=min(bound, value), bound_kind=kind)


def _unit(terms: Model) -> str:
    if bool((terms.capacity == 1).all()) and not bool(
        terms.group.rate.any() and terms.wishes.horizon
    ):
        return "lag"
    return "time to drain"


def _named(terms: Model, partition: int) -> tuple[str, int]:
    topic = int(terms.group.partition_topic[partition])
    return terms.group.topics[topic], partition - int(terms.group.topic_start[topic])


def _reason(objective: Objective, best: str) -> str:
    alone = " and ".join(objective.named)
    if alone:
        alone += " alone is that" if len(objective.named) == 1 else " together are that"
    if objective.met:
        return f"{best}: {alone}" if alone else best
    return f"no plan can do better than {_figure(objective.bound)}: {alone or objective.bound_kind}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:,.2f}"


def _plain(value: float) -> float:
    return int(value) if value == int(value) else round(value, 6)

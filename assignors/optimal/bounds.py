"""Lower bounds on the objectives of any plan within the count limits of a model.

Guarantees: no bound is above the best plan's value, and each names what it is derived from. No
bound needs a plan.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.model.model import Model, sum_by_index
from levelwind.assignors.problem.columns import Floats
from levelwind.assignors.problem.drain import best_wait
from levelwind.assignors.solver import Arcs, concat_arcs, max_flow

MAX_HEAVY_PER_MEMBER = 16
"""Largest number of heavy partitions that one member must own together, in `_heaviest_together`."""
MAX_CUT_ROUNDS = 24
"""Cuts after which the search for the densest set of reader sets ends."""
LOAD_PARTS = 2**40
"""Units that all load is scaled to, since flows are whole numbers."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that no plan is below, the kind of bound, and the partitions that alone cause it."""

    value: float
    kind: str
    partitions: tuple[int, ...] = ()


def load_bound(model: Model) -> Bound:
    """Lower bound on the largest load, in seconds."""
    found = [Bound(0.0, "nothing to drain")]
    if bool(model.assignable.any()):
        found += [
            _total(model),
            _largest_partition(model),
            *_heaviest_together(model),
            *_slowest_members(model),
        ]
    return max(found, key=lambda bound: bound.value)


def wait_bound(model: Model) -> Bound:
    """Lower bound on the mean wait, in seconds: each component as level as its partitions allow."""
    owned = np.flatnonzero(model.assignable)
    component_of = model.connected.of_reader_set[model.reader_set[owned]]
    members_of = model.connected.of_eligibility[model.eligibility[model.member_class]]
    waiting = 0.0
    for number in range(len(model.connected.quota)):
        work = model.load[owned[component_of == number]]
        waiting += best_wait(work, model.capacity[members_of == number]) * float(work.sum())
    total = float(model.load[owned].sum())
    return Bound(waiting / total if total else 0.0, "level beside the heaviest partitions")


def _total(model: Model) -> Bound:
    """Total load over total capacity, of all members or of the readers for which it is largest."""
    owned = model.assignable
    classes = model.class_count
    load = sum_by_index(model.reader_set[owned], model.load[owned], len(model.allowed))
    capacity = sum_by_index(model.member_class, model.capacity, classes)
    loaded = np.flatnonzero(load > 0)
    if not len(loaded):
        return Bound(0.0, "nothing to drain")
    rows, which = np.unique(model.allowed[loaded], axis=0, return_inverse=True)
    load = sum_by_index(which.ravel(), load[loaded], len(rows))
    overall = float(load.sum() / capacity[rows.any(axis=0)].sum())
    best = overall
    for row, row_load in zip(rows, load.tolist(), strict=True):
        best = max(best, row_load / float(capacity[row].sum()))
    if len(rows) > 1:
        best = _densest_subset(rows, load, capacity, best)
    return Bound(best, "total over members" if best <= overall else "subset of subscriptions")


def _densest_subset(rows: np.ndarray, load: Floats, capacity: Floats, level: float) -> float:
    """Largest load over capacity of any set of reader sets and all their members, by minimum cuts.

    Args:
        rows: distinct rows of `Model.allowed`: reader sets by member classes.
        load: load of each row.
        capacity: capacity of each member class.
        level: the best ratio found so far.
    """
    reader_set, member_class = np.nonzero(rows)
    count, classes = rows.shape
    scale = LOAD_PARTS / float(load.sum())
    supply = np.floor(load * scale).astype(np.int64)
    for _ in range(MAX_CUT_ROUNDS):
        room = np.ceil(capacity * (level * scale)).astype(np.int64)
        arcs = concat_arcs(
            Arcs(np.zeros(count, np.int64), 2 + np.arange(count), supply),
            Arcs(2 + reader_set, 2 + count + member_class, supply[reader_set]),
            Arcs(2 + count + np.arange(classes), np.ones(classes, np.int64), room),
        )
        flow, side = max_flow(arcs, 0, 1)
        short = side[2 : 2 + count]
        if flow >= int(supply.sum()) or not short.any():
            break
        tighter = float(load[short].sum() / capacity[rows[short].any(axis=0)].sum())
        if tighter <= level * (1 + 1e-9):
            break
        level = tighter
    return level


def _largest_partition(model: Model) -> Bound:
    """The heaviest partition on its fastest possible owner.

    Its load counts with the lightest partitions that the owner must have besides.
    """
    owned = np.flatnonzero(model.assignable)
    heaviest = np.full(len(model.allowed), -1.0)
    np.maximum.at(heaviest, model.reader_set[owned], model.load[owned])
    fastest = np.zeros(model.class_count)
    np.maximum.at(fastest, model.member_class, model.capacity)
    fewest = np.full(model.class_count, np.iinfo(np.int64).max)
    np.minimum.at(fewest, model.member_class, model.min_count)
    light = np.concatenate([[0.0], np.cumsum(np.sort(model.load[owned]))])
    best = Bound(0.0, "largest partition")
    for reader_set in np.flatnonzero(heaviest >= 0).tolist():
        owners = model.allowed[reader_set]
        company = max(int(fewest[owners].min()) - 1, 0)
        value = float((heaviest[reader_set] + light[company]) / fastest[owners].max())
        if value > best.value:
            candidates = owned[model.reader_set[owned] == reader_set]
            top = int(candidates[np.argmax(model.load[candidates])])
            best = Bound(
                value, "largest partition" + (" and its company" if company else ""), (top,)
            )
    return best


def _heaviest_together(model: Model) -> list[Bound]:
    """Pigeonhole bounds: of the k n + 1 heaviest partitions of n members, one member has k + 1.

    The load of that member is at least the sum of the k + 1 lightest of them.
    """
    found = []
    component_of = model.partition_component
    for number in range(len(model.components.quota)):
        members = np.flatnonzero(model.component == number)
        parts = np.flatnonzero(component_of == number)
        order = (
            parts[np.lexsort((parts, -model.load[parts]))] if len(parts) > len(members) else parts
        )
        fastest = float(model.capacity[members].max())
        for k in range(1, MAX_HEAVY_PER_MEMBER):
            last = k * len(members)
            if last >= len(order):
                break
            heaviest = order[last - k : last + 1]
            kind = "M-th plus (M+1)-th largest" if k == 1 else f"{k + 1} of the {last + 1} largest"
            value = float(model.load[heaviest].sum()) / fastest
            found.append(Bound(value, kind, tuple(np.sort(heaviest).tolist())))
    return found


def _slowest_members(model: Model) -> list[Bound]:
    """The slowest members of a component with their minimum counts.

    They have at least as much load as the component's lightest partitions.
    """
    found = []
    component_of = model.partition_component
    for number in range(len(model.components.quota)):
        members = np.flatnonzero(model.component == number)
        light = np.concatenate([[0.0], np.cumsum(np.sort(model.load[component_of == number]))])
        order = members[np.argsort(model.capacity[members], kind="stable")]
        value = light[np.cumsum(model.min_count[order])] / np.cumsum(model.capacity[order])
        found.append(Bound(float(value.max()), "counts of the slowest members"))
    return found


def max_kept_partitions(model: Model) -> int:
    """Upper bound on the partitions that keep their owner within the count limits.

    By component: Σ min(own, least) + min(r, Σ max(own - least, 0)) for the least counts, and the r
    partitions beyond them.
    """
    own = model.member_count(model.keepable_owner)
    component, inside = model.component, model.component >= 0
    extra = np.clip(own - model.min_count, 0, model.max_count - model.min_count)
    components = len(model.components.quota)
    wanted = np.bincount(component[inside], weights=extra[inside], minlength=components)
    return int(
        np.minimum(own, model.min_count).sum() + np.minimum(wanted, model.extra_partitions).sum()
    )


def count_moves_bound(model: Model) -> int:
    """Fewest moves of any plan within the count limits."""
    return int(np.count_nonzero(model.current_owner >= 0)) - max_kept_partitions(model)


def load_moves_bound(model: Model, limit: float) -> int:
    """Fewest moves of any plan in which no member exceeds a time to drain.

    Members with room for it take up the partitions without an owner and the load that members hold
    beyond the limit, the member with the most room first. Each of these members receives at least
    one partition, which is a move unless it had no owner.
    """
    held = model.keepable_owner >= 0
    unowned = model.assignable & ~held & (model.load > 0)
    room = limit * model.capacity - model.member_load(model.keepable_owner)
    excess = np.maximum(-room, 0.0)
    total = (float(model.load[unowned].sum()) + float(excess.sum())) * (1 - 1e-9)
    absorbed = np.concatenate([[0.0], np.cumsum(-np.sort(-np.maximum(room, 0.0)))])
    growing = int(np.count_nonzero(absorbed[:-1] < total))
    givers = int(np.count_nonzero(excess > 1e-9 * limit * model.capacity))
    lost = int(np.count_nonzero((model.current_owner >= 0) & ~held))
    return lost + max(growing - int(np.count_nonzero(unowned)), givers)

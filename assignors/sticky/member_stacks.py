"""Each member's partitions in piles by what they have in common, for searches that come by few of the members.

Law: in a pile what the member held before is first, so that it is passed on last; of equals the last goes first. All are sorted
at once, and a member's piles are laid out when they are first asked for: whoever moves partitions keeps them up to date.
"""

from itertools import pairwise

import numpy as np

from assignors.problem.columns import (
    Ints,
    Longs,
    radix,
)


class MemberStacks:
    """Partitions by member and label, such as their topics."""

    __slots__ = ("_begins", "_bounds", "_label", "_laid_out", "_order")

    def __init__(self, owner: Ints, held: Ints, label: Ints | Longs, members: int) -> None:
        """By partition: the owner, -1 nobody; who held it; and the label."""
        order = radix(label * 2 + (owner != held), 2 * (int(label.max(initial=-1)) + 1))
        order = order[radix(owner[order], members)][np.count_nonzero(owner < 0) :]
        owners, labels = owner[order], label[order]
        edges = np.flatnonzero((owners[1:] != owners[:-1]) | (labels[1:] != labels[:-1])) + 1
        begins = np.concatenate([[0], edges]) if len(order) else edges
        self._order, self._label, self._begins = order, label, np.append(begins, len(order))
        self._bounds = np.searchsorted(owners[begins], np.arange(members + 1)).tolist()
        self._laid_out: dict[int, dict[int, list[int]]] = {}

    def __getitem__(self, member: int) -> dict[int, list[int]]:
        """A member's piles by label."""
        if member not in self._laid_out:
            begins = self._begins[self._bounds[member] : self._bounds[member + 1] + 1]
            partitions, first = self._order[begins[0] : begins[-1]].tolist(), int(begins[0])
            stacks = [partitions[begin:end] for begin, end in pairwise((begins - first).tolist())]
            labels = self._label[self._order[begins[:-1]]].tolist()
            self._laid_out[member] = dict(zip(labels, stacks, strict=True))
        return self._laid_out[member]

"""Each member's partitions in stacks by label, for searches that visit few of the members.

Guarantees: in a stack, partitions that the member held before lie at the bottom, so that they are
transferred last; of equal partitions the last goes first. All partitions are sorted at once, and a
member's stacks are laid out on first access; a caller that moves partitions updates the stacks.
"""

from itertools import pairwise

import numpy as np

from levelwind.assignors.problem.columns import Ints, Longs, radix


class MemberStacks:
    """Stacks of partitions by member and label; a label is a topic or a partition class."""

    __slots__ = ("_begins", "_bounds", "_label", "_laid_out", "_order")

    def __init__(self, owner: Ints, held: Ints, label: Ints | Longs, members: int) -> None:
        """Sort the partitions; each column is by partition, and owner -1 is nobody."""
        order = radix(label * 2 + (owner != held), 2 * (int(label.max(initial=-1)) + 1))
        order = order[radix(owner[order], members)][np.count_nonzero(owner < 0) :]
        owners, labels = owner[order], label[order]
        edges = np.flatnonzero((owners[1:] != owners[:-1]) | (labels[1:] != labels[:-1])) + 1
        begins = np.concatenate([[0], edges]) if len(order) else edges
        self._order, self._label, self._begins = order, label, np.append(begins, len(order))
        self._bounds = np.searchsorted(owners[begins], np.arange(members + 1)).tolist()
        self._laid_out: dict[int, dict[int, list[int]]] = {}

    def __getitem__(self, member: int) -> dict[int, list[int]]:
        """Stacks of a member by label, to be updated in place."""
        if member not in self._laid_out:
            begins = self._begins[self._bounds[member] : self._bounds[member + 1] + 1]
            partitions, first = self._order[begins[0] : begins[-1]].tolist(), int(begins[0])
            stacks = [partitions[begin:end] for begin, end in pairwise((begins - first).tolist())]
            labels = self._label[self._order[begins[:-1]]].tolist()
            self._laid_out[member] = dict(zip(labels, stacks, strict=True))
        return self._laid_out[member]

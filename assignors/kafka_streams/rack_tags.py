"""Tag spread: over which tags the copies of a task are spread.

Guarantees: the copies of a task, its active one first, cover as many distinct tag values as
possible: the sum over the tags of their distinct values is the largest that the processes allow.
Each standby may go to those classes (processes of equal tags) from which that sum can still be
reached, and of them to those that add most values at once: the first standby is the farthest from
the active task. Where looking ahead is too expensive, each standby goes where it adds most.
Cost: O(classes) a standby with more than `MAX_CLASSES` classes; else classes to the power of the
remaining standbys, up to `MAX_LOOKAHEAD_WAYS`, once for each set of classes met.
Source: KIP-708, which drops a tag once its values are used up; the sum implies that and more: with
two tags it also finds the pairs that a choice one by one misses.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from levelwind.assignors.problem.columns import Longs

MAX_LOOKAHEAD_WAYS = 2_000
"""Combinations of classes up to which several standbys are looked ahead."""
MAX_CHOICES = 64
"""Choices for all missing standbys beyond which only the next one is chosen."""
MAX_CLASSES = 64
"""Classes beyond which each standby goes where it adds most."""


class TagSpread:
    """Processes that may hold the next standby of a task.

    Results are cached by the classes of the copies so far.
    """

    def __init__(self, values: Sequence[tuple[str | None, ...]], room: Sequence[int]) -> None:
        """Take the tag values of each class, and the number of processes of each class."""
        self.too_many_classes = len(values) > MAX_CLASSES
        self._values = values
        self._room = room
        self._codes = _value_codes(values)
        self._best: dict[tuple[tuple[int, ...], int], int] = {}
        self._allowed: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        self._most: dict[tuple[int, ...], bytes] = {}
        self._choices: dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], ...]] = {}

    def allowed(self, used: Sequence[int], left: int) -> tuple[int, ...]:
        """Classes that the next of `left` standbys may go to, ascending.

        The task has copies on the `used` classes.
        """
        if self.too_many_classes:
            return tuple(each for each, most in enumerate(self.adding_most(used)) if most)
        key = tuple(sorted(used)), self._lookahead(left)
        if key not in self._allowed:
            self._allowed[key] = self._find_allowed(*key)
        return self._allowed[key]

    def choices(self, used: Sequence[int], left: int) -> tuple[tuple[int, ...], ...]:
        """Allowed combinations of classes for all remaining standbys.

        For the next standby alone if the combinations are too many.
        """
        key = tuple(sorted(used)), left
        if key not in self._choices:
            self._choices[key] = self._combine_choices(*key)
        return self._choices[key]

    def _combine_choices(self, used: tuple[int, ...], left: int) -> tuple[tuple[int, ...], ...]:
        """The combinations of `choices`, uncached."""
        choices: dict[tuple[int, ...], None] = {(): None}
        if self.too_many_classes:
            return tuple((each,) for each in self.allowed(used, left))
        for step in range(left):
            further = {
                tuple(sorted((*choice, each))): None
                for choice in choices
                for each in self.allowed((*used, *choice), left - step)
            }
            if step and len(further) > MAX_CHOICES:
                return tuple((each,) for each in self.allowed(used, left))
            choices = further
        return tuple(choices)

    def allows(self, used: Sequence[int], left: int, tag_class: int) -> bool:
        """Whether a class is among the allowed ones."""
        if self.too_many_classes:
            return bool(self.adding_most(used)[tag_class])
        return tag_class in self.allowed(used, left)

    def adding_most(self, used: Sequence[int]) -> bytes:
        """By class, 1 or 0: whether it adds as many values as any class with a free process."""
        key = tuple(sorted(used))
        if key not in self._most:
            new = np.zeros(len(self._values), dtype=np.int64)
            for column in self._codes.T:
                fresh = column >= 0
                for each in used:
                    fresh &= column != column[each]
                new += fresh
            for each, taken in Counter(used).items():
                if taken >= self._room[each]:
                    new[each] = -1
            self._most[key] = (new == new.max()).tobytes()
        return self._most[key]

    def distinct(self, used: Sequence[int]) -> tuple[int, ...]:
        """By tag: number of values that the copies cover."""
        rows = [self._values[each] for each in used]
        return tuple(
            len({value for value in column if value is not None})
            for column in zip(*rows, strict=True)
        )

    def covered(self, used: Sequence[int]) -> int:
        """Number of values that the copies cover, over all tags."""
        key = tuple(sorted(used)), 0
        if key not in self._best:
            self._best[key] = sum(self.distinct(used))
        return self._best[key]

    def possible(self) -> tuple[int, ...]:
        """By tag: number of values that exist."""
        return self.distinct(range(len(self._values)))

    def _lookahead(self, left: int) -> int:
        """Number of standbys to look ahead."""
        ahead = 1
        while ahead < left and len(self._values) ** (ahead + 1) <= MAX_LOOKAHEAD_WAYS:
            ahead += 1
        return min(ahead, left)

    def _find_allowed(self, used: tuple[int, ...], left: int) -> tuple[int, ...]:
        """The classes of `allowed`, uncached."""
        worth = {
            each: (self._best_coverage((*used, each), left - 1), self.covered((*used, each)))
            for each in self._free(used)
        }
        best = max(worth.values(), default=None)
        return tuple(each for each, value in worth.items() if value == best)

    def _best_coverage(self, used: tuple[int, ...], left: int) -> int:
        """Most values that the copies can cover with `left` more standbys."""
        key = tuple(sorted(used)), left
        if key not in self._best:
            further = (
                [self._best_coverage((*key[0], each), left - 1) for each in self._free(key[0])]
                if left
                else []
            )
            self._best[key] = max(further, default=sum(self.distinct(key[0])))
        return self._best[key]

    def _free(self, used: tuple[int, ...]) -> list[int]:
        """Classes with a process that has no copy."""
        taken = Counter(used)
        return [each for each, room in enumerate(self._room) if taken[each] < room]


def _value_codes(values: Sequence[tuple[str | None, ...]]) -> Longs:
    """By class and tag: the value as an integer; -1 for none."""
    numbers: dict[str, int] = {}
    codes = [
        [-1 if each is None else numbers.setdefault(each, len(numbers)) for each in row]
        for row in values
    ]
    return np.array(codes, dtype=np.int64).reshape(len(values), -1)

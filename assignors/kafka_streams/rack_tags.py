"""Over which tags the copies of a task are spread.

Law: the copies of a task, its active one first, cover as many distinct values of the tags as can be: the sum over the tags
of their distinct values is the greatest that the processes allow. Each standby may go to those classes (processes of equal
tags) that still lead there, and of them to those that add most at once: the first standby is the farthest from the active
one. Where following all ways is too long, each standby goes where it adds most.
Cost: O(classes) a standby with more than `MAX_CLASSES` classes; else classes to the power of the standbys that are left, up to `MAX_WAYS`, once for each set of classes met.
Source: KIP-708, which drops a tag once its values are used up; the sum says the same and more: with two tags it also finds
the pairs that a choice one by one walks past.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from assignors.problem.columns import Longs

MAX_WAYS = 2_000
MAX_CHOICES = 64
MAX_CLASSES = 64


class TagSpread:
    """Where the next standby of a task may go, remembered by what the copies so far are on."""

    def __init__(self, values: Sequence[tuple[str | None, ...]], room: Sequence[int]) -> None:
        """Take the tag values of each class, and how many processes are of it."""
        self.many = len(values) > MAX_CLASSES  # too many to follow any way further than one step
        self._values = values
        self._room = room
        self._codes = _numbered(values)  # by class and tag; -1 none
        self._best: dict[tuple[tuple[int, ...], int], int] = {}
        self._allowed: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        self._most: dict[tuple[int, ...], bytes] = {}
        self._ways: dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], ...]] = {}

    def allowed(self, used: Sequence[int], left: int) -> tuple[int, ...]:
        """The classes that the next of `left` standbys may go to, after copies on the `used` classes; ascending."""
        if self.many:
            return tuple(each for each, most in enumerate(self.adding_most(used)) if most)
        key = tuple(sorted(used)), self._followed(left)
        if key not in self._allowed:
            self._allowed[key] = self._found(*key)
        return self._allowed[key]

    def ways(self, used: Sequence[int], left: int) -> tuple[tuple[int, ...], ...]:
        """The classes of all standbys that are left, each way that is allowed; of the next one alone where they are many."""
        key = tuple(sorted(used)), left
        if key not in self._ways:
            self._ways[key] = self._followed_through(*key)
        return self._ways[key]

    def _followed_through(self, used: tuple[int, ...], left: int) -> tuple[tuple[int, ...], ...]:
        ways: dict[tuple[int, ...], None] = {(): None}
        if self.many:
            return tuple((each,) for each in self.allowed(used, left))
        for step in range(left):
            further = {
                tuple(sorted((*way, each))): None
                for way in ways
                for each in self.allowed((*used, *way), left - step)
            }
            if step and len(further) > MAX_CHOICES:
                return tuple((each,) for each in self.allowed(used, left))
            ways = further
        return tuple(ways)

    def allows(self, used: Sequence[int], left: int, tag_class: int) -> bool:
        """Whether a class is among the allowed ones."""
        if self.many:
            return bool(self.adding_most(used)[tag_class])
        return tag_class in self.allowed(used, left)

    def adding_most(self, used: Sequence[int]) -> bytes:
        """By class, 1 or 0: whether it adds as many values as any class with a process that is free."""
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
        """By tag: how many values the copies cover."""
        rows = [self._values[each] for each in used]
        return tuple(
            len({value for value in column if value is not None})
            for column in zip(*rows, strict=True)
        )

    def covered(self, used: Sequence[int]) -> int:
        """How many values the copies cover, over all tags."""
        key = tuple(sorted(used)), 0
        if key not in self._best:
            self._best[key] = sum(self.distinct(used))
        return self._best[key]

    def possible(self) -> tuple[int, ...]:
        """By tag: how many values there are."""
        return self.distinct(range(len(self._values)))

    def _followed(self, left: int) -> int:
        """How many standbys ahead are looked at."""
        ahead = 1
        while ahead < left and len(self._values) ** (ahead + 1) <= MAX_WAYS:
            ahead += 1
        return min(ahead, left)

    def _found(self, used: tuple[int, ...], left: int) -> tuple[int, ...]:
        worth = {
            each: (self._value((*used, each), left - 1), self.covered((*used, each)))
            for each in self._free(used)
        }
        best = max(worth.values(), default=None)
        return tuple(each for each, value in worth.items() if value == best)

    def _value(self, used: tuple[int, ...], left: int) -> int:
        key = tuple(sorted(used)), left
        if key not in self._best:
            further = (
                [self._value((*key[0], each), left - 1) for each in self._free(key[0])]
                if left
                else []
            )
            self._best[key] = max(further, default=sum(self.distinct(key[0])))
        return self._best[key]

    def _free(self, used: tuple[int, ...]) -> list[int]:
        taken = Counter(used)
        return [each for each, room in enumerate(self._room) if taken[each] < room]


def _numbered(values: Sequence[tuple[str | None, ...]]) -> Longs:
    numbers: dict[str, int] = {}
    codes = [
        [-1 if each is None else numbers.setdefault(each, len(numbers)) for each in row]
        for row in values
    ]
    return np.array(codes, dtype=np.int64).reshape(len(values), -1)

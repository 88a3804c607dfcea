"""Proof that a reader has read everything: which questions for the log's end it caught up with.

Pure. Offsets are next offsets in one partition of `levelwind.assignments`.
"""

from __future__ import annotations

from typing import NamedTuple

LONGEST_WAIT = 64
"""Number of answers that may wait for the reader; a further one replaces the newest."""


class _Answer(NamedTuple):
    asked_at: float
    stable_offset: int


class ReadProof:
    """Reading of one partition, and the answered questions that it has not caught up with.

    The last stable offset lies behind transaction markers, which no record shows: a reader reaches
    it through the end-of-partition event. Once it has been reached, everything that stood in the
    partition when the offset was asked for was read.
    """

    def __init__(self, start: int) -> None:
        """Begin at `start`: what stands below is of no concern to the reader."""
        self.read_to = start
        """Offset below which everything was read. It goes back when the log was made anew."""
        self._waiting: list[_Answer] = []

    def read(self, next_offset: int) -> float | None:
        """Note that everything below `next_offset` was read.

        Returns:
            The time of the newest question that the reader has now caught up with, if any.
        """
        self.read_to = next_offset
        return self._confirmed()

    def answered(self, asked_at: float, read_to: int, stable_offset: int) -> float | None:
        """Take in an answer.

        Args:
            asked_at: Time before the question was sent.
            read_to: `read_to` at that time.
            stable_offset: The last stable offset.

        Returns:
            As for `read`.
        """
        if stable_offset < read_to:
            # The log ends before what was read of it: it was made anew or cut off, and what was
            # read proves nothing. Or a broker answered that no longer leads.
            return None
        if len(self._waiting) == LONGEST_WAIT:
            self._waiting.pop()
        self._waiting.append(_Answer(asked_at, stable_offset))
        return self._confirmed()

    def _confirmed(self) -> float | None:
        reached = [answer for answer in self._waiting if answer.stable_offset <= self.read_to]
        self._waiting = [answer for answer in self._waiting if answer.stable_offset > self.read_to]
        return max((answer.asked_at for answer in reached), default=None)

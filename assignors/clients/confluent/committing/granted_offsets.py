"""Offsets that belong to the present grant of each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair


class NotOwnedError(RuntimeError):
    """A commit, stored offset or seek of a partition that the consumer does not own.

    Also raised for a message that was handed out under an earlier grant of its partition, and for
    every partition near the end of the lease or while the consumer is lost. After a poll that
    returned something the consumer is neither.
    """


@dataclass(slots=True)
class _Range:
    start: int | None
    """The lowest offset of the grant; None before a first record showed where it begins.

    No offset that the grant handed out lies below it: librdkafka goes below the committed offset
    where that lies beyond the log's end, as after an unclean election or in a topic made again."""
    handed_out: int
    """Offset behind the highest message that was handed out; 0 before the first."""
    position: int | None = None
    """Offset behind the last message that was handed out; None before one and after a seek."""


class GrantedOffsets:
    """Range of offsets of each owned partition's present grant, as far as it was handed out.

    While a partition was away, another owner may have committed further on. So an offset below the
    grant's start would put the group back, and a message that the present grant has not handed out
    was handed out by an earlier one.
    """

    def __init__(self) -> None:
        self._ranges: dict[Pair, _Range] = {}

    def start(self, pair: Pair, offset: int) -> None:
        """Begin a grant at a committed offset; below 0 means that there is none."""
        self._ranges[pair] = _Range(offset if offset >= 0 else None, 0)

    def hand_out(self, pair: Pair, offset: int) -> None:
        """Note a message that was handed out."""
        if (granted := self._ranges.get(pair)) is not None:
            granted.start = offset if granted.start is None else min(granted.start, offset)
            granted.handed_out = max(granted.handed_out, offset + 1)
            granted.position = offset + 1

    def handed_out(self, pair: Pair, offset: int) -> bool:
        """Whether the present grant handed out the message at `offset`."""
        granted = self._ranges.get(pair)
        return granted is not None and (granted.start or 0) <= offset < granted.handed_out

    def hand_back(self, pair: Pair, offset: int) -> None:
        """Note that a message is handed out again before any other."""
        if (granted := self._ranges.get(pair)) is not None:
            granted.position = offset

    def seek(self, pair: Pair, offset: int) -> None:
        """Note that the grant continues at an offset; one below 0 has a meaning of its own."""
        if (granted := self._ranges.get(pair)) is not None:
            granted.start = min(granted.start or 0, max(offset, 0))
            granted.position = None

    def position(self, pair: Pair) -> int | None:
        """Offset behind the last message of the grant; None before one and after a seek."""
        granted = self._ranges.get(pair)
        return None if granted is None else granted.position

    def forget(self, pair: Pair) -> None:
        """End the grant."""
        self._ranges.pop(pair, None)

    def require_handed_out(self, pair: Pair, offset: int) -> None:
        """Raise `NotOwnedError` unless the present grant handed out the message at `offset`."""
        self.require_not_below_start(pair, offset)
        granted = self._ranges.get(pair)
        if granted is not None and offset >= granted.handed_out:
            raise NotOwnedError(
                f"{pair[0]}[{pair[1]}] was away: offset {offset} was handed out before that"
            )

    def require_not_below_start(self, pair: Pair, offset: int) -> None:
        """Raise `NotOwnedError` if `offset` lies before the present grant."""
        granted = self._ranges.get(pair)
        if granted is not None and granted.start is not None and offset < granted.start:
            raise NotOwnedError(
                f"{pair[0]}[{pair[1]}] begins at offset {granted.start} since it was granted: "
                f"{offset} is another owner's; `seek` to read from there again"
            )

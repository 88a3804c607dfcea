"""Journal of a worker: one line for each event, appended before anything depends on it.

    [boottime, event, incarnation, [planner epoch, member epoch], topic, partition, offset,
     valid_at]

`begin` and `end` bracket the handler of a record. A handler that finds its lease over ends with
`abandoned`: nothing of it counts. `declined` is a record whose lease was over when the application
got it, `skipped` a later record of such a batch. `gained`, `released` and `lost` are about a
partition, `failed` about a commit that raised an error.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

NO_EPOCH = (0, 0)


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a journal."""

    at: float
    """Seconds of the boot clock, which all processes of a machine share."""
    event: str
    incarnation: str
    epoch: tuple[int, int] = NO_EPOCH
    """Epoch of the fencing token of the partition; `NO_EPOCH` where there is none."""
    topic: str = ""
    number: int = -1
    offset: int = -1
    valid_at: float = 0.0
    """For `abandoned`: the last time at which the handler found its lease valid."""

    @property
    def partition(self) -> Partition:
        """The partition that the entry is about."""
        return Partition(self.topic, self.number)

    @property
    def line(self) -> bytes:
        """The entry as its line."""
        return json.dumps(astuple(self), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> "Entry":
        """Read an entry from its line."""
        at, event, incarnation, epoch, topic, number, offset, valid_at = json.loads(line)
        return cls(
            at=at,
            event=event,
            incarnation=incarnation,
            epoch=(epoch[0], epoch[1]),
            topic=topic,
            number=number,
            offset=offset,
            valid_at=valid_at,
        )


class JournalWriter:
    """A journal that is appended to, one write for each entry: a kill tears at most the last."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, entry: Entry) -> None:
        """Append an entry."""
        os.write(self._file, entry.line)


def read_journal(path: Path) -> Iterator[Entry]:
    """Entries of a journal in their order, without a last line that a kill tore."""
    *lines, _ = path.read_bytes().split(b"\n")
    return map(Entry.parse, lines)

"""Model of one partition of levelwind's topics, as its readers see it.

Offsets are indices of `entries`. A transaction's records become readable when its marker is
written, which may be long after its commit; until then no later record is readable either.
Compaction takes out what a later record of the same key replaces, and in the end tombstones too.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

MARKER = "marker"


@dataclass(eq=False)
class Transaction:
    """A transaction of one planner; `outcome` is the coordinator's decision."""

    producer_epoch: int
    records: list
    """(topic kind, key, record) of everything in it."""
    outcome: str = "open"  # or "committed", "aborted"
    decided_at: float | None = None
    unmarked: set = field(default_factory=set)
    """Partitions in which the marker is still missing."""
    begun_at: float = 0.0


class Entry(NamedTuple):
    """A record in the log; `record` is None for a tombstone, MARKER for a marker."""

    at: float
    key: tuple
    record: object
    transaction: Transaction | None


class Partition:
    """The log of one partition at its leader."""

    def __init__(self, kind, number):
        self.kind = kind
        self.number = number
        self.entries = []
        self.readers = []
        self._open = {}
        """First offset of each transaction without a marker, oldest first."""
        self._clean = 0

    @property
    def stable_end(self):
        """The last stable offset."""
        return next(iter(self._open.values())) if self._open else len(self.entries)

    def append(self, now, key, record, transaction=None):
        if transaction is not None:
            self._open.setdefault(transaction, len(self.entries))
            transaction.unmarked.add(self)
        self.entries.append(Entry(now, key, record, transaction))
        if not self._open:
            self.wake_readers()

    def mark(self, now, transaction):
        """Write the marker of a decided transaction."""
        self._open.pop(transaction)
        transaction.unmarked.discard(self)
        self.entries.append(Entry(now, (), MARKER, transaction))
        self.wake_readers()

    def wake_readers(self):
        for reader in self.readers:
            reader.wake()

    def readable(self, entry):
        """Whether a reader of committed records gets an entry below the stable end."""
        if entry is None or entry.record is MARKER:
            return False
        return entry.transaction is None or entry.transaction.outcome == "committed"

    def compact(self, now, *, tombstones_older_than):
        """Take out what is replaced below the stable end, except for the newest records."""
        end = self.stable_end
        newest = {}
        for offset in range(end):
            entry = self.entries[offset]
            if entry is not None and self.readable(entry):
                newest[entry.key] = offset
        for offset in range(end):
            entry = self.entries[offset]
            if entry is None:
                continue
            replaced = newest.get(entry.key) != offset
            old_tombstone = entry.record is None and now - entry.at > tombstones_older_than
            if replaced or old_tombstone:
                self.entries[offset] = None

    def clear(self):
        """Make the topic anew: nothing is left, and offsets begin again."""
        for transaction in self._open:
            transaction.unmarked.discard(self)
        self._open = {}
        self.entries = []


class Reader:
    """A consumer's position in one partition; entries arrive with a delay."""

    def __init__(self, scheduler, process, partition, link, on_entry, on_progress, *, position=0):
        self.scheduler = scheduler
        self.process = process
        self.partition = partition
        self.link = link
        self.on_entry = on_entry
        self.on_progress = on_progress
        self.position = position
        self._waiting = False
        partition.readers.append(self)
        self.wake()

    def close(self):
        self.partition.readers.remove(self)

    @property
    def visible_end(self):
        """The stable end at the broker that the reader takes for the leader."""
        return self.link.stale_ends.get(self.partition, self.partition.stable_end)

    def wake(self):
        if self._waiting or self.position == self.visible_end:
            return
        self._waiting = True
        end = self.visible_end
        arrives = self.link.fetch_arrives()
        self.scheduler.at(arrives, self.process, self._fetched, end)

    def _fetched(self, end):
        self._waiting = False
        partition = self.partition
        if len(partition.entries) < self.position:
            # The topic was made anew: the position is out of range, and reading begins again.
            self.position = 0
        for offset in range(self.position, min(end, len(partition.entries))):
            entry = partition.entries[offset]
            self.position = offset + 1
            if partition.readable(entry):
                self.on_entry(self, offset, entry)
                if not self.process.alive:
                    return
        self.on_progress()
        self.wake()

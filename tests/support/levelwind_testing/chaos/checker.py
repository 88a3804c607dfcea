"""Offline check of a chaos run: what the journals, the offsets topic and the log ends prove.

Three properties are checked; bounds are about order, never about how long something took.

- **One owner**: a life of a member that was granted a partition uses it from the begin of the first
  handler to the end of the last one under that grant. No two uses overlap, and no life gains a
  partition that another has not released; a life that was killed or lost holds nothing any more.
  Epochs of the fencing tokens never go back.
- **Nothing lost**: every record of the log was handled to its end.
- **Committed ≤ processed, without gaps**: when a commit arrived, every record below it had been
  handled to its end. Commits that went back are counted, and are violations where a group's
  commits are fenced by the brokers.

A handler that a stop interrupted and that then found its lease over counts until the stop: a
stopped process does nothing. Records handled twice are counted; at-least-once allows them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from levelwind_testing.chaos.journal import Entry, Partition

CLOCKS_DIFFER_SECONDS = 0.02
"""Rounding of the brokers' wall clock, and its slewing against the boot clock in a run."""
DECLINED_BY_CHANCE = 1
"""A stop may fall between the client's look at the lease and the worker's; twice it hardly does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What is known of one worker process."""

    name: str
    entries: Sequence[Entry]
    ended: float
    """Boot time at which the process was gone."""
    pauses: Sequence[tuple[float, float]] = ()
    """Boot times between which it stood still."""


class CommitRecord(NamedTuple):
    """A commit of one partition in the offsets topic."""

    at: float
    """Boot time of its arrival."""
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """Everything that one group did."""

    name: str
    processes: Sequence[ProcessRecord]
    commits: Mapping[Partition, Sequence[CommitRecord]]
    """Commits in the order in which the brokers applied them."""
    committed: Mapping[Partition, int]
    """The group's committed offsets at the end."""
    ends: Mapping[Partition, int]
    """Log ends of the topics."""
    fenced: bool = False
    """Whether the brokers fence the group's commits, so that none may go back."""
    clocks_differ: float = CLOCKS_DIFFER_SECONDS
    """Seconds by which the times of commits and those of the journals may differ."""


@dataclass(slots=True, kw_only=True)
class Findings:
    """Violations, and counts of what is allowed."""

    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def violate(self, text: str) -> None:
        """Note a violation."""
        self.violations.append(text)


class Handling(NamedTuple):
    """One run of a handler."""

    begin: float
    end: float
    process: str
    incarnation: str
    offset: int
    epoch: tuple[int, int]
    done: bool
    """Whether the handler came to its end, so that the record counts as processed."""
    grant: int
    """Number of the grant of the partition, in the process."""


class Use(NamedTuple):
    """What a life did with a partition under one grant."""

    begin: float
    end: float
    process: str
    incarnation: str
    records: int

    def __str__(self) -> str:
        return (
            f"{self.process}/{self.incarnation[:6]} ({self.records} handlers from"
            f" {self.begin:.3f} to {self.end:.3f})"
        )


def check(history: GroupHistory) -> Findings:
    """Check everything that one group did."""
    findings = Findings()
    handled: dict[Partition, list[Handling]] = defaultdict(list)
    for process in history.processes:
        for partition, handling in _handlings(process):
            handled[partition].append(handling)
        for entry in process.entries:
            findings.counts[entry.event] += 1
    if findings.counts["declined"] > DECLINED_BY_CHANCE:
        findings.violate(
            f"{history.name}: {findings.counts['declined']} records were handed out after the end"
            " of the lease"
        )
    for partition, handlings in sorted(handled.items()):
        handlings.sort()
        shown = f"{history.name} {partition.topic}[{partition.number}]"
        _check_overlaps(shown, handlings, findings)
        _check_epochs(shown, handlings, findings)
    _check_ownership(history, findings)
    for partition, end in sorted(history.ends.items()):
        _check_records(history, partition, handled.get(partition, []), end, findings)
    return findings


# One owner.


def _handlings(process: ProcessRecord) -> Iterator[tuple[Partition, Handling]]:
    """The handlers of a process; one that has no end in the journal ended with the process."""
    begun: Entry | None = None
    grants: Counter[Partition] = Counter()

    def handling(begun: Entry, end: float, *, done: bool) -> tuple[Partition, Handling]:
        partition = begun.partition
        return partition, Handling(
            begin=begun.at,
            end=end,
            process=process.name,
            incarnation=begun.incarnation,
            offset=begun.offset,
            epoch=begun.epoch,
            done=done,
            grant=grants[partition],
        )

    for entry in process.entries:
        if entry.event == "gained":
            grants[entry.partition] += 1
        elif entry.event == "begin":
            begun = entry
        elif entry.event in {"end", "abandoned"} and begun is not None:
            done = entry.event == "end"
            end = entry.at if done else _end_of_abandoned(entry, process.pauses)
            yield handling(begun, end, done=done)
            begun = None
    if begun is not None:
        stood = [start for start, end in process.pauses if end >= process.ended]
        yield handling(begun, min([process.ended, *stood]), done=False)


def _end_of_abandoned(entry: Entry, pauses: Sequence[tuple[float, float]]) -> float:
    starts = [start for start, end in pauses if entry.valid_at <= end and start <= entry.at]
    return max(entry.valid_at, min(starts)) if starts else entry.at


def _check_overlaps(shown: str, handlings: Sequence[Handling], findings: Findings) -> None:
    uses: dict[tuple[str, str, int], Use] = {}
    for one in handlings:
        key = (one.process, one.incarnation, one.grant)
        use = uses.get(key, Use(one.begin, one.end, one.process, one.incarnation, 0))
        uses[key] = use._replace(end=max(use.end, one.end), records=use.records + 1)
    ordered = sorted(uses.values())
    for number, use in enumerate(ordered):
        for later in ordered[number + 1 :]:
            if later.begin >= use.end:
                break
            findings.counts["overlaps"] += 1
            findings.violate(f"two owners of {shown}: {use} and {later}")


def _check_epochs(shown: str, handlings: Sequence[Handling], findings: Findings) -> None:
    newest = handlings[0]
    for handling in handlings:
        if handling.epoch < newest.epoch:
            findings.violate(
                f"a fencing token of {shown} went back: {newest.epoch} of {newest.process} at"
                f" {newest.begin:.3f}, then {handling.epoch} of {handling.process} at"
                f" {handling.begin:.3f}"
            )
            return
        newest = handling


def _check_ownership(history: GroupHistory, findings: Findings) -> None:
    """No gain of a partition before its release by the life that had it, lost lives aside."""
    changes: dict[Partition, list[tuple[float, int, str, str]]] = defaultdict(list)
    for process in history.processes:
        held: dict[Partition, Entry] = {}
        for entry in process.entries:
            if entry.event == "gained":
                held[entry.partition] = entry
            elif entry.event in {"released", "lost"}:
                gained = held.pop(entry.partition, None)
                # Until when a lost life owned its partitions, only its handlers can tell.
                if gained is not None and entry.event == "released":
                    changes[entry.partition] += [
                        (gained.at, 1, process.name, gained.incarnation),
                        (entry.at, 0, process.name, gained.incarnation),
                    ]
    for partition, events in sorted(changes.items()):
        owners: dict[str, str] = {}
        for at, gained, process_name, incarnation in sorted(events):
            if gained and owners:
                findings.violate(
                    f"two owners of {history.name} {partition.topic}[{partition.number}]:"
                    f" {process_name}/{incarnation[:6]} gained it at {at:.3f} while"
                    f" {', '.join(owners.values())} had it"
                )
            if gained:
                owners[incarnation] = f"{process_name}/{incarnation[:6]}"
            else:
                owners.pop(incarnation, None)


# Records and commits.


def _check_records(
    history: GroupHistory,
    partition: Partition,
    handlings: Iterable[Handling],
    end: int,
    findings: Findings,
) -> None:
    shown = f"{history.name} {partition.topic}[{partition.number}]"
    done = sorted((h.end, h.offset) for h in handlings if h.done)
    times = Counter(offset for _, offset in done)
    findings.counts["records"] += end
    findings.counts["duplicates"] += sum(times.values()) - len(times)
    if lost := sorted(set(range(end)) - times.keys()):
        findings.violate(f"{len(lost)} records of {shown} were lost: offsets {lost[:5]} of {end}")
    committed = history.committed.get(partition, 0)
    if committed > end:
        findings.violate(f"{shown} is committed at {committed}, beyond its log's end {end}")
    elif committed < end:
        findings.violate(f"{shown} is committed at {committed} in the end, not at {end}")
    prefix_at, prefixes = _prefixes(done)
    highest = 0
    for commit in history.commits.get(partition, ()):
        findings.counts["commits"] += 1
        known = bisect_right(prefix_at, commit.at + history.clocks_differ)
        processed = prefixes[known - 1] if known else 0
        if commit.offset > processed:
            findings.violate(
                f"{shown}: commit of {commit.offset} at {commit.at:.3f}, when only the records"
                f" below {processed} had been processed"
            )
        if commit.offset < highest:
            findings.counts["commits that went back"] += 1
            if history.fenced:
                findings.violate(
                    f"{shown}: the commit went back from {highest} to {commit.offset} at"
                    f" {commit.at:.3f}, though brokers fence this group"
                )
        highest = max(highest, commit.offset)


def _prefixes(done: Iterable[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """Times at which the processed prefix grew, and the offset behind it from then on."""
    prefix, ahead = 0, set()
    times, prefixes = [], []
    for at, offset in done:
        ahead.add(offset)
        before = prefix
        while prefix in ahead:
            ahead.discard(prefix)
            prefix += 1
        if prefix > before:
            times.append(at)
            prefixes.append(prefix)
    return times, prefixes

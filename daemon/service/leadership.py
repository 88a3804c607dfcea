"""Leadership: when a daemon stands by, when it takes over, and when another has taken over. Pure.

Kafka's group protocol gives the lead to one of the daemons (`levelwind.daemon.kafka.lead_group`):
it takes over as soon as it has it. Losing it alone deposes nobody, since the brokers may have lost
the group; who was given it in the meantime fences the planner before.

The group may give the lead to nobody: its members share the partition out again only when one of
them sees a reason. A daemon that reads no canary for much longer than a takeover lasts must join
the group anew.

The planner that leads writes a canary of rising number into `levelwind.members`. A daemon that was
deposed although it has the lead waits until it has read no canary for `takeover` seconds, or one of
the state `stopped`. Silence counts only while the topics could be read: it grows with each end of
the log that was asked for and read to. A daemon that cannot read for `patience` seconds must give
the lead up.

A planner that writes its canaries and does not read them back plans by what it read before, and
keeps the lead: after `patience` seconds of such canaries it stands by, and must give the lead up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from levelwind.assignors.protocol.records import CanaryRecord, PlannerRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

ASKS_MISSED = 2.0
"""Intervals between two asked ends, or two written canaries, that count at most: a longer gap is an
outage, or a daemon that stood still."""

UNLED_SECONDS = 10.0
"""Wait beyond a takeover until a group of daemons in which nobody leads is joined anew: longer than
brokers wait for the first members of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRead:
    """Everything has been read that the topics held at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSighted:
    """A newer canary of another daemon was read."""

    canary: CanaryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUntil:
    """Everything that the topics held at a moment has been read."""

    asked_at: float
    """The moment, in boot seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryWritten:
    """The brokers have acknowledged a canary of this daemon."""

    partition: int
    sent_at: float
    """When it was sent, in boot seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReadBack:
    """A canary of this daemon was read."""

    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadChanged:
    """The group of daemons gave the lead to this daemon, or takes it away."""

    owns: bool


LeadershipEvent: TypeAlias = (
    TopicsRead | LeaderSighted | ReadUntil | CanaryWritten | CanaryReadBack | LeadChanged
)


class LeadPhase(Enum):
    """What a daemon does."""

    READING = "reading"
    """It reads what its topics held at its start."""
    STANDING_BY = "standing by"
    """It reads along, and another daemon may be leading."""
    LEADING = "leading"
    """It is the planner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """One daemon's view of who leads."""

    instance: str
    """The name of this daemon."""
    takeover: float
    """Seconds without a canary after which a deposed daemon that has the lead takes over."""
    interval: float
    """Seconds between two canaries, and between two asked ends."""
    patience: float
    """Seconds of canaries that are written and not read back after which a planner stands by."""
    phase: LeadPhase = LeadPhase.READING
    planner_epoch: int = 0
    """The epoch of this daemon; 0 while it does not lead."""
    leader: CanaryRecord | None = None
    """The newest canary of another daemon."""
    owns: bool = False
    """Whether the group of daemons gave the lead to this one."""
    contended: bool = False
    """Whether another daemon may be leading."""
    silent: float = 0.0
    """Seconds for which no canary could be read though the topics could."""
    asked_at: float | None = None
    """When the newest end that was read to was asked for, in boot seconds."""
    written_at: Mapping[int, float] = field(default_factory=dict)
    """When the newest canary that a partition acknowledged was sent, in boot seconds."""
    unread: Mapping[int, float] = field(default_factory=dict)
    """Seconds of acknowledged canaries since one was read back, by partition."""

    def after(self, event: LeadershipEvent) -> Leadership:
        """Return the view after an event."""
        match event:
            case TopicsRead():
                return replace(self, phase=LeadPhase.STANDING_BY)
            case LeaderSighted(canary=canary):
                return self._sighted(canary)
            case ReadUntil(asked_at=asked_at):
                return self._read_until(asked_at)
            case CanaryWritten(partition=partition, sent_at=sent_at):
                return self._written(partition, sent_at)
            case CanaryReadBack(partition=partition):
                return replace(self, unread={**self.unread, partition: 0.0})
            case LeadChanged(owns=owns):
                # Whoever led before has ended, or lost the lead: it is to be fenced.
                return replace(self, owns=owns, contended=self.contended and not owns)

    def _sighted(self, canary: CanaryRecord) -> Leadership:
        """Return the view after a canary was read.

        Another daemon's canary of a higher epoch deposes this one. A canary that is no newer than
        the newest means nothing: each partition holds one, and a deposed daemon's come late.
        """
        if canary.instance == self.instance or not is_newer(canary, self.leader):
            return self
        newer = self.leader is None or canary.planner_epoch > self.leader.planner_epoch
        # A late canary of whoever lost the lead to this daemon shows no other leader.
        contended = canary.state == "leading" and (self.contended or newer or not self.owns)
        if self.phase is not LeadPhase.LEADING:
            # The silence begins with the next end that is asked for.
            return replace(self, leader=canary, contended=contended, silent=0.0, asked_at=None)
        if canary.planner_epoch <= self.planner_epoch:
            return self
        return replace(self.deposed(), leader=canary, contended=contended)

    def _read_until(self, asked_at: float) -> Leadership:
        gap = 0.0 if self.asked_at is None else max(asked_at - self.asked_at, 0.0)
        silent = self.silent + min(gap, ASKS_MISSED * self.interval)
        return replace(self, asked_at=asked_at, silent=silent)

    def _written(self, partition: int, sent_at: float) -> Leadership:
        """Return the view after a canary was acknowledged; late ones of a term mean nothing."""
        if self.phase is not LeadPhase.LEADING:
            return self
        gap = max(sent_at - self.written_at.get(partition, sent_at), 0.0)
        unread = self.unread.get(partition, 0.0) + min(gap, ASKS_MISSED * self.interval)
        if unread >= self.patience:
            return self.deposed()
        return replace(
            self,
            written_at={**self.written_at, partition: sent_at},
            unread={**self.unread, partition: unread},
        )

    def led(self, planner_epoch: int) -> Leadership:
        """Return the view after this daemon became the planner."""
        return replace(self, phase=LeadPhase.LEADING, planner_epoch=planner_epoch, contended=False)

    def deposed(self) -> Leadership:
        """Return the view after the end of this daemon's term: another may be leading."""
        return replace(
            self,
            phase=LeadPhase.STANDING_BY,
            planner_epoch=0,
            contended=True,
            silent=0.0,
            asked_at=None,
            written_at={},
            unread={},
        )

    @property
    def due(self) -> bool:
        """Whether it is time to take over."""
        return (
            self.phase is LeadPhase.STANDING_BY
            and self.owns
            and (not self.contended or self.silent >= self.takeover)
        )

    @property
    def unled(self) -> bool:
        """Whether it is time to join the group anew, since it gives the lead to nobody."""
        return (
            self.phase is LeadPhase.STANDING_BY
            and not self.owns
            and self.silent >= self.takeover + UNLED_SECONDS
        )

    def gave_up(self) -> Leadership:
        """Return the view after the daemon left the group of daemons, to join it anew."""
        return replace(self, owns=False, silent=0.0, asked_at=None)


def sign_of(planner: PlannerRecord) -> CanaryRecord:
    """Return the record of a planner as the canary before its first: a planner may fail between."""
    return CanaryRecord(
        planner_epoch=planner.planner_epoch, instance=planner.instance, number=0, state="leading"
    )


def is_newer(canary: CanaryRecord, than: CanaryRecord | None) -> bool:
    """Whether a canary was written after another: numbers begin again with each epoch."""
    return than is None or (canary.planner_epoch, canary.number) > (than.planner_epoch, than.number)

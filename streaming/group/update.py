"""How a batch changes what is known of a group: a pure function of the state and the batch's rows.

Everything is applied in event time. A moment (the time of a sample) is judged once something later is seen, when all
that belongs to it has been applied: so where one batch ends and the next begins makes no difference to a trigger. One
limit: owners and plans are no part of a sample's cut (`topic.update`), so that in a backlog whose logs are read at different
paces an old moment may be judged by the owners of another time.

- `skew` follows `skew.next_run`; a group whose owners nobody knows has none.
- `racks` stands while some partition's set of replica racks is not that of the last plan, and a member has a rack.
- A group reads the topics that it commits in, and those of its plan.
- Nobody's group, without members, commits or plan for `TTL_MS`, is forgotten, though its offsets may still lie there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignors.protocol.records import (
    GroupRecord,
    MemberAssignment,
    Tombstone,
    TriggerRecord,
    decode,
)
from streaming.group import event_order, ownership, rack_changes, skew_trigger
from streaming.group.state import (
    GroupState,
    Ownership,
    Standing,
    TopicLag,
)
from streaming.messages.rows import (
    Detached,
    LagSample,
    RacksRow,
    Raw,
)
from streaming.rules.event_time import JUMP_MS, UNKNOWN
from streaming.rules.skew import SkewRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.protocol.records import SkewEvidence
    from assignors.protocol.topics import TopicKind
    from streaming.group.event_order import Event
    from streaming.group.state import Owner
    from streaming.messages.rows import LagRow
    from streaming.rules.skew import SkewRule

TTL_MS = 60 * 24 * 60 * 60 * 1000
"""Milliseconds of event time. Brokers delete the offsets of an empty group after a week unless they are told otherwise; what
is found to have outlived that by far lost its tombstones to compaction before anybody read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What a batch of one group comes to."""

    state: GroupState | None
    triggers: tuple[TriggerRecord | Tombstone, ...]
    """In the order of events."""
    lags: tuple[tuple[LagRow, Ownership], ...]
    ended_topics: tuple[str, ...]
    """Topics whose lag is no more."""
    finished_replays: tuple[Raw, ...]
    """Replayed records that have had their due."""


def advance(
    group: str,
    state: GroupState | None,
    rows: Iterable[tuple[int, bytes]],
    rule: SkewRule,
    ours: Mapping[str, TopicKind],
) -> UpdateResult:
    """The state after a batch's rows (kind and payload, in any order), and what is to be published.

    Args:
        group: the group's name.
        state: what is known of it.
        rows: the batch's.
        rule: when skew counts.
        ours: by topic name, the kind of those topics of ours that the rows' records are from.
    """
    turn = _Turn(group, state or GroupState(), rule, ours)
    batch = event_order.read(rows)
    for at, event in batch.events:
        turn.take(at, event)
    return turn.end(batch.lags, [raw for raw in batch.replays if turn.replay(raw)], batch.doubted)


class _Turn:
    """One batch of one group."""

    def __init__(
        self, group: str, state: GroupState, rule: SkewRule, ours: Mapping[str, TopicKind]
    ) -> None:
        self._state = state
        self._before = frozenset(state.lags)
        self._committed = state.committed
        """Before the batch, too."""
        self._out: list[TriggerRecord | Tombstone] = []
        self._gone: set[str] = set()
        self._group = group
        self._rule = rule
        self._ours = ours
        self._owners: tuple[Owner, ...] | None = None
        """Worked out anew after whatever may change it."""

    def take(self, at: int, event: Event) -> None:
        """One event more, in the order of their times."""
        if (
            at > self._state.moment != UNKNOWN
            and self._state.run.evaluated_at != self._state.moment
        ):
            self._judge()
        match event:
            case LagSample():
                self._measure(event)
                return
            case RacksRow(committed=committed, topic=topic):
                if committed or topic in self._state.by_plan:
                    self._state = rack_changes.laid_out(self._state, event)
            case Detached():
                self._forget(event.topic)
            case Raw():
                self._record(at, event)
        self._owners = None
        self._compare_racks(at)

    def replay(self, raw: Raw) -> bool:
        """A record more whose time has passed, unless something came that nobody has compared it with."""
        if self._state.seen.get(_place(raw), UNKNOWN) >= raw.until:
            return False
        self.take(max(self._state.moment, raw.timestamp), raw)
        return True

    def end(
        self,
        lags: Mapping[str, LagRow],
        finished_replays: Iterable[Raw],
        doubted: Iterable[tuple[str, ...]],
    ) -> UpdateResult:
        """What the batch has come to; `lags` is by topic, `doubted` the keys of what may be published though nobody stands by it."""
        committed = frozenset(topic for topic, row in lags.items() if row.committed)
        self._state = state = replace(
            self._state, committed=self._state.committed - lags.keys() | committed
        )
        for topic in sorted(self._committed - state.committed - state.by_plan):
            self._forget(topic)  # its lag may have been told without any moment
        self._forget_unread()
        kept = {
            topic: row
            for topic, row in lags.items()
            if topic in committed or topic in state.by_plan
        }
        if self._outlived(kept):
            self._gone |= self._before
            self._state, kept = GroupState(), {}
        self._disown(doubted, kept)
        return UpdateResult(
            state=None if self._state.blank else self._state,
            triggers=tuple(self._out),
            lags=tuple((kept[topic], self._ownership(kept[topic])) for topic in sorted(kept)),
            ended_topics=tuple(sorted(self._gone - kept.keys())),
            finished_replays=tuple(finished_replays),
        )

    def _disown(self, doubted: Iterable[tuple[str, ...]], lags: Mapping[str, LagRow]) -> None:
        """End what a former state has published and this one would not have."""
        state = self._state
        for word, _, *topic in doubted:
            match word:
                case "lag" if topic[0] not in state.lags.keys() | state.committed | lags.keys():
                    self._gone.add(topic[0])
                case "racks" if state.racks is None:
                    self._out.append(Tombstone((word, self._group)))
                case "skew" if not state.run.active:
                    self._out.append(Tombstone((word, self._group)))
                case _:
                    pass

    def _outlived(self, lags: Mapping[str, LagRow]) -> bool:
        """Whether nobody has had to do with the group for so long that it counts as gone."""
        state = self._state
        now = max([state.moment, *(row.at for row in lags.values())])
        committed = [row.committed_at for row in lags.values()]
        heard = max(
            [state.heard, *(known.committed_at for known in state.lags.values()), *committed]
        )
        return now - heard > TTL_MS and not self.owners

    def _ownership(self, row: LagRow) -> Ownership:
        """As of the sample that the lag is of."""
        known = self._state.lags.get(row.topic)
        if known is not None and (known.at, known.lag.size) == (row.at, row.partitions):
            return known.ownership
        return Ownership(owner=np.full(row.partitions, -1, np.int64))

    # -- lag and its skew

    @property
    def owners(self) -> tuple[Owner, ...]:
        if self._owners is None:
            self._owners = ownership.owners_of(self._state)
        return self._owners

    def _measure(self, moment: LagSample) -> None:
        state = self._state
        known = state.lags.get(moment.topic)
        if known is not None and 0 <= known.at - moment.at < JUMP_MS:
            return
        commits = {moment.topic} if moment.committed_at != UNKNOWN else set()
        if not commits and moment.topic not in state.by_plan:
            return
        lag = TopicLag(
            at=moment.at,
            lag=moment.lag,
            seconds=moment.seconds,
            committed_at=moment.committed_at,
            source=moment.source,
            ownership=ownership.ownership_of(self.owners, moment.topic, moment.lag.size),
        )
        self._state = replace(
            state,
            committed=state.committed - {moment.topic} | commits,
            lags={**state.lags, moment.topic: lag},
            # A clock that was set back sets the group's back, too.
            moment=moment.at
            if state.moment - moment.at >= JUMP_MS
            else max(state.moment, moment.at),
        )

    def _judge(self) -> None:
        """Judge the newest moment: all that belongs to it is there."""
        self._run(*skew_trigger.evaluate_skew(self._state, self.owners, self._rule))

    def _run(self, run: SkewRun, evidence: SkewEvidence | None) -> None:
        stood, self._state = self._state.run.active, replace(self._state, run=run)
        if run.active and not stood and evidence is not None:
            self._out.append(
                TriggerRecord(
                    group=self._group,
                    at=run.evaluated_at,
                    since=run.since,
                    evidence=evidence,
                    source=skew_trigger.source(self._state),
                )
            )
        elif stood and not run.active:
            self._out.append(Tombstone(("skew", self._group)))

    # -- replica racks

    def _compare_racks(self, at: int) -> None:
        state = self._state
        found = rack_changes.changed(state) if any(owner.rack for owner in self.owners) else None
        if found is None:
            if state.racks is not None:
                self._out.append(Tombstone(("racks", self._group)))
                self._state = replace(state, racks=None)
            return
        evidence, since = found
        if state.racks is not None and state.racks.evidence == evidence:
            return
        at = max(at, since)  # a plan may be told later than what changed after it
        self._state = replace(state, racks=Standing(since=since, evidence=evidence))
        self._out.append(
            TriggerRecord(
                group=self._group,
                at=at,
                since=since,
                evidence=evidence,
                source=rack_changes.source(state, evidence),
            )
        )

    # -- who owns what

    def _record(self, at: int, raw: Raw) -> None:
        kind = self._ours.get(raw.topic)
        seen = {
            **self._state.seen,
            _place(raw): max(raw.offset, self._state.seen.get(_place(raw), UNKNOWN)),
        }
        state = replace(self._state, heard=max(self._state.heard, at), seen=seen)
        if kind is None:
            self._state = ownership.said(state, raw)
            return
        record = decode(kind, raw.key, raw.value)
        match record:
            case GroupRecord():
                state = rack_changes.planned(state, record)
            case MemberAssignment():
                state = ownership.assigned(state, record)
            case Tombstone(key=("m", _, instance, incarnation)):
                state = ownership.left(state, str(instance), str(incarnation))
            case Tombstone(key=("g", _)):
                state = rack_changes.unplanned(state)
        self._state = state
        self._forget_unread()

    # -- what is gone

    def _forget_unread(self) -> None:
        """Neither a plan nor a commit speaks of these topics any more."""
        state = self._state
        for topic in sorted(
            (state.lags.keys() | state.layouts.keys()) - state.committed - state.by_plan
        ):
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        state = self._state
        self._gone.add(topic)
        self._state = replace(
            state,
            lags={name: lag for name, lag in state.lags.items() if name != topic},
            ids={name: known for name, known in state.ids.items() if name != topic},
            layouts={name: known for name, known in state.layouts.items() if name != topic},
            racks_sources={
                name: read for name, read in state.racks_sources.items() if name != topic
            },
            committed=state.committed - {topic},
        )
        if not self._state.lags:  # no moment will come to judge it
            self._run(SkewRun(), None)


def _place(raw: Raw) -> str:
    return f"{raw.topic}/{raw.partition}"

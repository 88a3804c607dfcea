"""How a batch changes what is known of a group: a pure function of the state and the batch's rows.

Everything is applied in event time. A moment (the time of a sample) is judged once something later is seen, when all
that belongs to it has been applied: so where one batch ends and the next begins makes no difference to a trigger.

- `skew` follows `skew.judge`; a group whose owners nobody knows has none.
- `racks` stands while some partition's set of replica racks is not that of the last plan, and a member has a rack. The
  last plan is the `["g"]` record with the newest `metadata_at`; before the first one, what was seen first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from assignors.protocol.records import (
    GroupRecord,
    MemberAssignment,
    RackChange,
    RacksEvidence,
    SkewEvidence,
    Tombstone,
    TriggerRecord,
    decode,
)
from streaming import membership
from streaming.group_state import NOTHING, GroupState, Layout, Owner, Standing, TopicLag
from streaming.racks import changes
from streaming.rows import Gone, Kind, LagRow, Moment, RacksRow, Raw
from streaming.skew import NEVER, SkewRule, SkewRun, judge, skew_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.protocol.topics import TopicKind

Event: TypeAlias = "tuple[int, int, int, Raw | Moment | RacksRow | Gone]"

MAX_LAYOUTS = 16
"""Between two plans; the oldest, which is the plan's, is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a batch of one group comes to."""

    state: GroupState | None
    triggers: tuple[TriggerRecord | Tombstone, ...]
    """In the order of events."""
    lags: tuple[LagRow, ...]
    gone: tuple[str, ...]
    """Topics whose lag is no more."""


def advance(
    group: str,
    state: GroupState | None,
    rows: Iterable[tuple[int, bytes]],
    rule: SkewRule,
    ours: Mapping[str, TopicKind],
) -> Outcome:
    """The state after a batch's rows (kind and payload, in any order), and what is to be published.

    Args:
        group: the group's name.
        state: what is known of it.
        rows: the batch's.
        rule: when skew counts.
        ours: by topic name, the kind of those topics of ours that the rows' records are from.
    """
    turn = _Turn(group, state or GroupState(), rule, ours)
    lags: dict[str, LagRow] = {}
    events: list[Event] = []
    gone: dict[str, int] = {}
    for kind, payload in rows:
        match kind:
            case Kind.LAG:
                lag = LagRow.unpack(payload)
                lags[lag.topic] = lag
            case Kind.MOMENT:
                moment = Moment.unpack(payload)
                events.append((moment.at, 2, 0, moment))
            case Kind.RACKS:
                layout = RacksRow.unpack(payload)
                events.append((layout.at, 1, 0, layout))
            case Kind.GONE:
                end = Gone.unpack(payload)
                gone[end.topic] = end.at
                events.append((end.at, 0, 0, end))
            case _:
                raw = Raw.unpack(payload)
                events.append((raw.timestamp, 0, raw.offset, raw))
    for event in sorted(events, key=_when):
        turn.take(event[0], event[3])
    return Outcome(
        state=None if turn.state.blank else turn.state,
        triggers=tuple(turn.out),
        lags=tuple(lags[topic] for topic in sorted(lags)),
        gone=tuple(topic for topic in sorted(gone) if topic not in lags),
    )


def _when(event: Event) -> tuple[int, int, int, str]:
    at, place, offset, what = event
    return at, place, offset, what.topic


class _Turn:
    """One batch of one group."""

    def __init__(self, group: str, state: GroupState, rule: SkewRule, ours: Mapping[str, TopicKind]) -> None:
        self.state = state
        self.out: list[TriggerRecord | Tombstone] = []
        self._group = group
        self._rule = rule
        self._ours = ours

    def take(self, at: int, event: Raw | Moment | RacksRow | Gone) -> None:
        if at > self.state.moment != NOTHING and self.state.run.judged < self.state.moment:
            self._judge()
        match event:
            case Moment():
                self._measure(event)
            case RacksRow():
                self._lay_out(event)
            case Gone():
                self._forget(event.topic)
            case Raw():
                self._record(event)
        if not isinstance(event, Moment):
            self._compare_racks(at)

    # -- lag and its skew

    def _measure(self, moment: Moment) -> None:
        known = self.state.lags.get(moment.topic)
        if known is not None and known.at >= moment.at:
            return
        lag = TopicLag(at=moment.at, lag=moment.lag, source=moment.source)
        self.state = replace(
            self.state,
            lags={**self.state.lags, moment.topic: lag},
            moment=max(self.state.moment, moment.at),
        )

    def _judge(self) -> None:
        """Judge the newest moment: all that belongs to it is there."""
        state = self.state
        owners = state.owners
        if not any(owner.assigned for owner in owners):
            self._run(SkewRun(judged=state.moment), None)
            return
        shares = [_share(owner, state.lags) for owner in owners]
        loads = np.array([share / owner.capacity for share, owner in zip(shares, owners, strict=True)])
        skew = skew_of(loads)
        lag = sum(int(known.lag.sum()) for known in state.lags.values())
        run = judge(self._rule, state.run, at=state.moment, skew=skew, lag=lag)
        members: dict[str, int] = {}
        for owner, share in zip(owners, shares, strict=True):
            members[owner.name] = members.get(owner.name, 0) + share
        self._run(
            run,
            SkewEvidence(
                skew=round(skew, 6),
                threshold=self._rule.threshold,
                lag=lag,
                floor=self._rule.floor,
                members=members,
            ),
        )

    def _run(self, run: SkewRun, evidence: SkewEvidence | None) -> None:
        stood, self.state = self.state.run.standing, replace(self.state, run=run)
        if run.standing and not stood and evidence is not None:
            source: dict[str, int] = {}
            for known in self.state.lags.values():
                for place, offset in known.source.items():
                    source[place] = max(offset, source.get(place, NEVER))
            self.out.append(
                TriggerRecord(
                    group=self._group, at=run.judged, since=run.since, evidence=evidence, source=source
                )
            )
        elif stood and not run.standing:
            self.out.append(Tombstone(("skew", self._group)))

    # -- replica racks

    def _lay_out(self, row: RacksRow) -> None:
        known = self.state.layouts.get(row.topic, ())
        new = Layout(at=row.at, racks=row.racks)
        if not known or self.state.ids.get(row.topic) != row.id or row.at <= self.state.planned_at:
            layouts: tuple[Layout, ...] = (new,)
        elif row.at <= known[-1].at or row.racks == known[-1].racks:
            return  # told again, as to each group that comes to the topic
        else:
            layouts = (*known[:1], *known[1:][-MAX_LAYOUTS + 2 :], new)
        self.state = replace(
            self.state,
            layouts={**self.state.layouts, row.topic: layouts},
            ids={**self.state.ids, row.topic: row.id},
            racks_source={**self.state.racks_source, **row.source},
        )

    def _plan(self, metadata_at: int) -> None:
        planned_at = max(self.state.planned_at, metadata_at)
        layouts = {}
        for topic, known in self.state.layouts.items():
            seen = sum(1 for layout in known if layout.at <= planned_at)
            layouts[topic] = known[max(seen - 1, 0) :]
        self.state = replace(self.state, planned_at=planned_at, layouts=layouts)

    def _compare_racks(self, at: int) -> None:
        state = self.state
        topics: dict[str, dict[int, RackChange]] = {}
        since = at
        if any(owner.rack for owner in state.owners):
            for topic, known in sorted(state.layouts.items()):
                if len(known) > 1 and (changed := changes(known[0].racks, known[-1].racks)):
                    topics[topic] = changed
                    since = min(since, known[1].at)
        if not topics:
            if state.racks is not None:
                self.out.append(Tombstone(("racks", self._group)))
                self.state = replace(state, racks=None)
            return
        evidence = RacksEvidence(topics=topics)
        if state.racks is not None and state.racks.evidence == evidence:
            return
        self.state = replace(state, racks=Standing(since=since, evidence=evidence))
        self.out.append(
            TriggerRecord(
                group=self._group, at=at, since=since, evidence=evidence, source=dict(state.racks_source)
            )
        )

    # -- who owns what

    def _record(self, raw: Raw) -> None:
        kind = self._ours.get(raw.topic)
        if kind is None:
            self._classic(raw)
            return
        record = decode(kind, raw.key, raw.value)
        match record:
            case GroupRecord(metadata_at=int(metadata_at)):
                self._plan(metadata_at)
            case MemberAssignment():
                self._managed(record)
            case Tombstone(key=("m", _, instance, incarnation)):
                left = {
                    key: owner for key, owner in self.state.managed.items() if key != (instance, incarnation)
                }
                self.state = replace(self.state, managed=left)
            case Tombstone(key=("g", _)):
                self.state = replace(self.state, planned_at=NOTHING)

    def _managed(self, record: MemberAssignment) -> None:
        key = (record.instance, record.incarnation)
        others = {known: owner for known, owner in self.state.managed.items() if known != key}
        if record.state == "evicted":
            self.state = replace(self.state, managed=others)
            return
        owner = Owner(
            name=record.instance, rack=record.rack, capacity=record.capacity, assigned=dict(record.assigned)
        )
        self.state = replace(self.state, managed={**others, key: owner})

    def _classic(self, raw: Raw) -> None:
        members = () if raw.value is None else membership.read(raw.value).members
        self.state = replace(
            self.state,
            classic=tuple(
                Owner(
                    name=member.instance_id or member.member_id,
                    rack=member.rack,
                    capacity=1.0,
                    assigned=dict(member.assigned),
                )
                for member in sorted(members, key=lambda member: member.member_id)
            ),
        )

    def _forget(self, topic: str) -> None:
        self.state = replace(
            self.state,
            lags={name: lag for name, lag in self.state.lags.items() if name != topic},
            ids={name: known for name, known in self.state.ids.items() if name != topic},
            layouts={name: known for name, known in self.state.layouts.items() if name != topic},
        )
        if not self.state.lags:  # no moment will come to judge it
            self._run(SkewRun(), None)


def _share(owner: Owner, lags: Mapping[str, TopicLag]) -> int:
    """The lag of what a member owns."""
    total = 0
    for topic, partitions in owner.assigned.items():
        if (known := lags.get(topic)) is not None:
            owned = np.array(partitions, np.int64)
            total += int(known.lag[owned[owned < known.lag.size]].sum())
    return total

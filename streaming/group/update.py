"""Update of a group's state by a batch: a pure function of the state and the batch's rows.

Everything takes effect in event time. A sample is evaluated once something later is read, when all
that belongs to the sample has been applied: so it makes no difference to a trigger where one batch
ends and the next begins. One limit: members and plans are not part of a sample's cut
(`topic.update`), so in a backlog whose logs are read at different paces an old sample may be
evaluated with the members of another time.

- `skew` follows `skew.next_run`; a group without known members has none.
- `racks` is active while the racks of some partition's replicas differ from those of the last plan,
  and some member has a rack.
- A group reads the topics that it commits in, the topics of its plan, and those that its members
  subscribe to or have partitions of.
- Once the subscriptions of all members are known, the group claims all partitions of the topics
  that these name, and elsewhere only what members own (`ownership.claim_of`).
- A group without members is dropped once commits, members and plan have been silent for `TTL_MS`
  at two samples, even if its offsets remain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import (
    GroupRecord,
    GroupShard,
    MemberAssignment,
    MemberShard,
    SpeedRecord,
    Tombstone,
    TriggerRecord,
    decode,
)
from levelwind.streaming.group import (
    member_speeds,
    ownership,
    rack_changes,
    read_topics,
    record_shards,
    skew_trigger,
)
from levelwind.streaming.group.state import GroupState, RacksTrigger
from levelwind.streaming.messages.lag_columns import LagSample
from levelwind.streaming.messages.rows import Detached, RacksRow, Raw
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.skew import SkewRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.records import RacksEvidence, SkewEvidence
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.streaming.group.event_order import Event, GroupBatch
    from levelwind.streaming.group.state import Owner
    from levelwind.streaming.messages.lag_columns import LagRow
    from levelwind.streaming.rules.skew import SkewRule

TTL_MS = 60 * 24 * 60 * 60 * 1000
"""Event time after which a silent group without members is dropped.

Brokers delete the offsets of an empty group after a week by default. A group that has outlived that
by far was deleted, and compaction removed its tombstones before the pipeline read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """The state of a group after a batch, and what is to be published."""

    state: GroupState | None
    """None: nothing is left to keep."""
    triggers: tuple[TriggerRecord | Tombstone, ...]
    """Raised and cleared triggers, in the order of their events."""
    lags: tuple[read_topics.OwnedLag, ...]
    """Lag to publish, by topic in order."""
    speeds: SpeedRecord | Tombstone | None
    """The newest speeds to publish; None: those that are published are good."""
    ended_topics: tuple[str, ...]
    """Topics whose lag records end with a tombstone, in order."""
    finished_replays: tuple[Raw, ...]
    """Replayed records that were applied: their dead letters end with a tombstone."""


def advance(
    group: str,
    state: GroupState | None,
    batch: GroupBatch,
    rule: SkewRule,
    record_kinds: Mapping[str, TopicKind],
) -> UpdateResult:
    """Apply a batch to a group's state.

    Args:
        group: the group's name.
        state: its state before the batch; None: the group is new.
        batch: what the batch holds of the group.
        rule: when skew counts.
        record_kinds: the kind of records by topic, of levelwind's own topics; a record of any other
            topic is the group coordinator's.
    """
    update = GroupUpdate(group, state or GroupState(), rule, record_kinds)
    for at, event in batch.events:
        update.apply(at, event)
    finished_replays = [raw for raw in batch.replays if update.apply_replay(raw)]
    return update.finish(batch.lags, finished_replays, batch.keys_to_verify)


class GroupUpdate:
    """One batch of one group: `apply` its events in order, then `finish`."""

    def __init__(
        self,
        group: str,
        state: GroupState,
        rule: SkewRule,
        record_kinds: Mapping[str, TopicKind],
    ) -> None:
        self._group = group
        self._state = state
        self._rule = rule
        self._record_kinds = record_kinds
        self._lags_before = frozenset(state.lags)
        """Topics with lag before the batch."""
        self._committed_before = state.committed_topics
        """Topics with commits before the batch."""
        self._triggers: list[TriggerRecord | Tombstone] = []
        self._speeds: SpeedRecord | Tombstone | None = None
        self._ended_topics: set[str] = set()
        self._owners: tuple[Owner, ...] | None = None
        """The group's members, cached; None after an event that may have changed them."""

    def apply(self, at: int, event: Event) -> None:
        """Apply the next event, in the order of their times."""
        self._evaluate_sample_before(at)
        if isinstance(event, LagSample):
            self._state = read_topics.with_sample(self._state, event, self.owners)
            return
        before = self.owners
        match event:
            case RacksRow(committed=committed, topic=topic):
                if committed or read_topics.reads_uncommitted(self._state, topic):
                    self._state = rack_changes.with_layout(self._state, event)
            case Detached():
                self._drop_topic(event.topic)
            case Raw():
                self._apply_record(at, event)
        self._owners = None
        published = member_speeds.published_names(self._state)
        self._state = member_speeds.with_owners(self._state, before, self.owners, at)
        if published - self._state.speeds.keys():  # some are forgotten
            self._publish_speeds(max(at, self._state.sampled_at))
        self._compare_racks(at)

    def apply_replay(self, raw: Raw) -> bool:
        """Apply a replayed record; return whether it was applied.

        The operator's command has compared it with the newer records of its partition, up to the
        offset `raw.until`. If the state knows a record at or after that offset, that record may be
        a newer one of the same key, so the replay is not applied.
        """
        if self._state.newest_offsets.get(_partition(raw), UNKNOWN) >= raw.until:
            return False
        self.apply(max(self._state.sampled_at, raw.timestamp), raw)
        return True

    def finish(
        self,
        lags: Mapping[str, LagRow],
        finished_replays: Iterable[Raw],
        keys_to_verify: Iterable[tuple[str, ...]],
    ) -> UpdateResult:
        """The result of the batch.

        Args:
            lags: the group's lag after the batch, by topic.
            finished_replays: the replayed records that were applied.
            keys_to_verify: keys of published records that an earlier checkpoint's state wrote.
        """
        self._state = read_topics.with_lag_rows(self._state, lags)
        self._drop_topics_without_commits()
        self._drop_unread_topics()
        read = {
            topic: row
            for topic, row in lags.items()
            if row.committed or read_topics.reads_uncommitted(self._state, topic)
        }
        if self._expired(read):
            self._ended_topics |= self._lags_before
            self._state, read = GroupState(speeds_at=self._state.speeds_at), {}
        if self._state.blank and self._state.speeds_at != UNKNOWN:
            self._speeds = Tombstone(("speed", self._group))
        self._end_unconfirmed(keys_to_verify, read)
        return UpdateResult(
            state=None if self._state.blank else self._state,
            triggers=tuple(self._triggers),
            speeds=self._speeds,
            lags=read_topics.owned_lags(self._state, read),
            ended_topics=tuple(sorted(self._ended_topics - read.keys())),
            finished_replays=tuple(finished_replays),
        )

    # -- members: their speeds and the skew of their loads

    @property
    def owners(self) -> tuple[Owner, ...]:
        """The group's members and their partitions, as of the last applied event."""
        if self._owners is None:
            self._owners = ownership.owners_of(self._state)
        return self._owners

    def _evaluate_sample_before(self, at: int) -> None:
        """Evaluate the newest sample for speeds and skew, if all that belongs to it was applied."""
        state = self._state
        if at > state.sampled_at != UNKNOWN and state.skew_run.evaluated_at != state.sampled_at:
            self._state = member_speeds.evaluated(state, self.owners)
            if member_speeds.worth_publishing(self._state, self.owners):
                self._publish_speeds(state.sampled_at)
            self._set_skew_run(*skew_trigger.evaluate_skew(self._state, self.owners, self._rule))

    def _publish_speeds(self, at: int) -> None:
        self._state, self._speeds = member_speeds.published(
            self._group, self._state, self.owners, at
        )

    def _set_skew_run(self, run: SkewRun, evidence: SkewEvidence | None = None) -> None:
        """Set the run of skew; raise or clear the trigger where the run became active or ended."""
        was_active = self._state.skew_run.active
        self._state = replace(self._state, skew_run=run)
        if was_active and not run.active:
            self._clear_trigger("skew")
        elif run.active and not was_active and evidence is not None:
            self._triggers.append(
                TriggerRecord(
                    group=self._group,
                    at=run.evaluated_at,
                    since=run.since,
                    evidence=evidence,
                    source=skew_trigger.lag_source(self._state),
                )
            )

    def _clear_trigger(self, kind: str) -> None:
        self._triggers.append(Tombstone((kind, self._group)))

    # -- replica racks

    def _compare_racks(self, at: int) -> None:
        """Raise or clear the racks trigger; without racks of members there is none."""
        state = self._state
        has_racks = any(owner.rack for owner in self.owners)
        changed = rack_changes.changed_racks(state) if has_racks else None
        if changed is not None:
            self._raise_racks_trigger(at, *changed)
        elif state.racks_trigger is not None:
            self._clear_trigger("racks")
            self._state = replace(state, racks_trigger=None)

    def _raise_racks_trigger(self, at: int, evidence: RacksEvidence, since: int) -> None:
        """Publish the trigger, unless it is active with the same evidence."""
        state = self._state
        if state.racks_trigger is not None and state.racks_trigger.evidence == evidence:
            return
        self._state = replace(state, racks_trigger=RacksTrigger(since=since, evidence=evidence))
        self._triggers.append(
            TriggerRecord(
                group=self._group,
                at=max(at, since),  # a plan may be read later than what changed after it
                since=since,
                evidence=evidence,
                source=rack_changes.racks_source(state, evidence),
            )
        )

    # -- members and plan

    def _apply_record(self, at: int, raw: Raw) -> None:
        """Apply a record about the group's members or plan, read at the event time `at`."""
        partition = _partition(raw)
        newest = max(raw.offset, self._state.newest_offsets.get(partition, UNKNOWN))
        state = replace(
            self._state,
            last_record_at=max(self._state.last_record_at, at),
            newest_offsets={**self._state.newest_offsets, partition: newest},
        )
        kind = self._record_kinds.get(raw.topic)
        if kind is None:
            self._state = ownership.with_coordinator_record(state, raw)
        else:
            self._state = _with_own_record(state, kind, raw)
        self._drop_unread_topics()

    # -- what ends

    def _drop_topics_without_commits(self) -> None:
        """Drop the topics whose last commit ended with this batch.

        An earlier batch may have published lag of such a topic without any sample.
        """
        state = self._state
        for topic in sorted(self._committed_before - state.committed_topics):
            if not read_topics.reads_uncommitted(state, topic):
                self._drop_topic(topic)

    def _drop_unread_topics(self) -> None:
        for topic in read_topics.unread_topics(self._state):
            self._drop_topic(topic)

    def _drop_topic(self, topic: str) -> None:
        self._ended_topics.add(topic)
        self._state = read_topics.without_topic(self._state, topic)
        if not self._state.lags:  # no sample will come that ends the run
            self._set_skew_run(SkewRun())

    def _expired(self, lags: Mapping[str, LagRow]) -> bool:
        """Whether the group has no members and there was no record of it for `TTL_MS`.

        The time is that of the newest sample but one, as the clock of the newest may be wrong. A
        group of which the newest is all that is known loses nothing that the next does not bring.
        """
        state = self._state
        now = max([state.sampled_at, *(row.at for row in lags.values())])
        sampled_before = state.skew_run.evaluated_at
        if max(sampled_before, state.last_record_at) != UNKNOWN:
            now = min(now, sampled_before)
        last_sign_of_life = max(
            [
                state.last_record_at,
                *(lag.committed_at for lag in state.lags.values()),
                *(row.committed_at for row in lags.values()),
            ]
        )
        return now - last_sign_of_life > TTL_MS and not self.owners

    def _end_unconfirmed(
        self, keys_to_verify: Iterable[tuple[str, ...]], lags: Mapping[str, LagRow]
    ) -> None:
        """End the records of an earlier checkpoint that this state would not have published."""
        state = self._state
        topics_with_lag = state.lags.keys() | state.committed_topics | lags.keys()
        for kind, _, *topic in keys_to_verify:
            match kind:
                case "lag" if topic[0] not in topics_with_lag:
                    self._ended_topics.add(topic[0])
                case "speed" if state.blank or state.speeds_at == UNKNOWN:
                    self._speeds = Tombstone(("speed", self._group))
                case "racks" if state.racks_trigger is None:
                    self._clear_trigger(kind)
                case "skew" if not state.skew_run.active:
                    self._clear_trigger(kind)
                case _:
                    pass


def _with_own_record(state: GroupState, kind: TopicKind, raw: Raw) -> GroupState:
    """Apply a record of levelwind's planner."""
    record = decode(kind, raw.key, raw.value)
    whole: GroupRecord | MemberAssignment | None = None
    if isinstance(record, GroupRecord | MemberAssignment):
        whole = record_shards.reassembled(state, record)
        state = record_shards.without_shards(state, record.key)
    match whole or record:
        case GroupRecord(shards=None) as plan:
            state = rack_changes.with_plan(state, plan)
        case MemberAssignment(shards=None) as assignment:
            state = ownership.with_assignment(state, assignment)
        case GroupShard() | MemberShard() as shard:
            state = record_shards.with_shard(state, shard)
        case Tombstone(key=("m", _, instance, incarnation)):
            state = ownership.without_incarnation(state, str(instance), str(incarnation))
        case Tombstone(key=("g", _)):
            state = rack_changes.without_plan(state)
    return state


def _partition(raw: Raw) -> str:
    return f"{raw.topic}/{raw.partition}"

"""Owned partitions of one consumer: carries out the follower's orders and keeps the journal."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.committing.granted_offsets import NotOwnedError
from levelwind.assignors.clients.confluent.committing.next_offsets import without_offsets
from levelwind.assignors.clients.confluent.event_log import log_event
from levelwind.assignors.clients.confluent.fetched_records import FetchedRecords
from levelwind.assignors.clients.confluent.grant_starts import (
    GrantStarts,
    ask_starts,
    look_up,
)
from levelwind.assignors.clients.confluent.ownership_evidence import (
    FencingToken,
    OwnershipChange,
    OwnershipJournal,
)
from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.member_state import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from confluent_kafka import IsolationLevel

    from levelwind.assignors.clients.confluent.committing.offsets import (
        CommitOutcome,
        CommitTracker,
    )
    from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
    from levelwind.assignors.clients.confluent.following.follower_messages import Order
    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair

RETRY_SECONDS = 0.5
"""Shortest time between two attempts to fetch committed offsets."""
SERVE_SECONDS = 0.02


class OwnedPartitions:
    """Partitions of one consumer, and the messages fetched but not yet handed out.

    Only the application's thread calls its methods.
    """

    def __init__(
        self,
        *,
        consumer: Any,
        follower: AssignmentFollower,
        commits: CommitTracker,
        start_timeout: float,
        pins_latest: IsolationLevel | None,
        callbacks: Mapping[str, Callable[[list[Any]], object]],
        journal: Callable[[OwnershipChange], object] | None,
    ) -> None:
        self.fetched = FetchedRecords(consumer, commits.grants)
        self._consumer = consumer
        self._follower = follower
        self._commits = commits
        self._grants = commits.grants
        self._tokens: dict[Pair, FencingToken] = {}
        self._start_timeout = start_timeout
        self._pins_latest = pins_latest
        self._callbacks = callbacks
        self._journal = OwnershipJournal(journal, follower)
        self._last_grant = 0
        self._tries: _Tries | None = None
        self._looked_up_for = ""
        """The life for which the topics were looked up in advance."""

    @property
    def owned(self) -> frozenset[Pair]:
        """The partitions that this consumer reads."""
        return frozenset(self._grants)

    @property
    def _read_topics(self) -> frozenset[str]:
        return frozenset(topic for topic, _ in self._grants)

    @property
    def any_owned(self) -> bool:
        """Whether this consumer reads any partition."""
        return bool(self._grants)

    def topic_partitions(self) -> list[Any]:
        """The owned partitions as confluent-kafka's `TopicPartition`, sorted."""
        return without_offsets(self.owned)

    def require_owned(self, pairs: Collection[Pair]) -> None:
        """Raise `NotOwnedError` unless this consumer owns all of these partitions now."""
        if not self._follower.lost.is_set():
            if not_owned := sorted(set(pairs) - self.owned):
                shown = ", ".join(f"{topic}[{number}]" for topic, number in not_owned[:5])
                raise NotOwnedError(f"not owned by this consumer: {shown}; see assignment()")
            if not pairs or self._follower.lease_is_valid:
                return
        raise NotOwnedError(
            "this member is lost, its partitions may have another owner: poll to join again"
        )

    def require_committable(self, pairs: Collection[Pair]) -> None:
        """Raise `NotOwnedError` unless this consumer may commit these partitions now.

        Near the end of the lease this waits for a renewal.
        """
        self.require_owned(pairs)
        while pairs and not self._follower.may_deliver:
            self.serve()
            self.require_owned(pairs)

    def fencing_token(self, pair: Pair) -> FencingToken:
        """The token of an owned partition; raises `NotOwnedError`."""
        self.require_owned([pair])
        return self._tokens[pair]

    def serve(self, timeout: float = SERVE_SECONDS) -> None:
        """Let librdkafka run its callbacks; a message that arrives is buffered."""
        self.fetched.fetch(1, timeout)

    # Reading.

    def pause(self, pairs: Collection[Pair]) -> None:
        """Stop fetching and handing out partitions; raises `NotOwnedError` before any is paused."""
        self.require_owned(pairs)
        self._consumer.pause(without_offsets(pairs))
        self.fetched.pause(pairs)

    def resume(self, pairs: Collection[Pair]) -> None:
        """Fetch paused partitions again; raises `NotOwnedError` before any is resumed."""
        self.require_owned(pairs)
        self._consumer.resume(without_offsets(pairs))
        self.fetched.resume(pairs)

    def seek(self, pair: Pair, offset: int) -> None:
        """Continue a partition of the present grant at another offset; raises `NotOwnedError`."""
        self.require_owned([pair])
        target = TopicPartition(*pair, offset)
        try:
            self._consumer.seek(target)
        except KafkaException as error:
            # librdkafka refuses while it is starting the partition, as in `on_assign`.
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001
                raise
            self._consumer.incremental_unassign([target])
            self._consumer.incremental_assign([target])
        self.fetched.drop(pair)
        self._commits.seek(pair, offset)

    def positions(self, pairs: Collection[Pair]) -> list[Any]:
        """The offsets behind the last messages of the present grants; raises `NotOwnedError`."""
        self.require_owned(pairs)
        found = ((pair, self._commits.position(pair)) for pair in pairs)
        return [
            TopicPartition(*pair, OFFSET_INVALID if position is None else position)
            for pair, position in found
        ]

    # Orders.

    def perform_orders(self) -> None:
        """Carry out the follower's orders, oldest first."""
        self._prepare()
        orders = self._follower.orders
        while orders:
            order = orders[0]
            # A loss voids the orders before it: only the loss itself is carried out.
            if self._follower.lost.is_set() and not isinstance(order.effect, ev.Lose):
                orders.popleft()
                continue
            match order.effect:
                case ev.Grant(partitions, new):
                    if not self._grant(order, partitions, new):
                        return
                case ev.Revoke(partitions):
                    orders.popleft()
                    self._revoke(partitions)
                case ev.Lose(_, reason):
                    orders.popleft()
                    self._lose(reason)

    def _prepare(self) -> None:
        """Look up the topics of a member that joins, while it waits for its first grant."""
        if self._follower.phase is not Phase.JOINING or not self._follower.joined:
            return
        if self._looked_up_for != (incarnation := self._follower.incarnation):
            self._looked_up_for = incarnation
            with suppress(KafkaException):  # the grant asks again
                look_up(self._consumer, set(self._follower.profile.topics) - self._read_topics)

    def _grant(self, order: Order, partitions: frozenset[Pair], new: frozenset[Pair]) -> bool:
        """Start partitions at the group's committed offsets; return False to try again later."""
        now = boot_seconds()
        if self._tries is None or self._tries.order is not order:
            self._tries = _Tries(order, since=now, next_at=now, rest=partitions)
        if now < self._tries.next_at:
            return self._give_up_grant(self._tries)
        started = self._start_reading(self._tries, new)
        found = {(each.topic, each.partition) for each in started}
        rest = self._tries.rest
        if not rest:
            self._follower.orders.popleft()
        for pair in sorted(found):
            self._last_grant += 1
            self._grants[pair] = self._last_grant
            self._tokens[pair] = FencingToken(self._follower.profile.group, *pair, order.epochs)
        try:
            if started:
                owned = len(self._grants)
                self._log(logging.INFO, "member.granted", partitions=len(started), owned=owned)
                self._call("on_assign", started)
        finally:
            if not rest:
                self._follower.post(ev.GrantFinished())
        return not rest or self._give_up_grant(self._tries)

    def _give_up_grant(self, tries: _Tries) -> bool:
        """Report the rest of a grant that fails for too long, or that a newer record takes back."""
        now, superseded = boot_seconds(), self._follower.grant_superseded
        if self._follower.lost.is_set():
            return False
        if not superseded and now - tries.since < self._start_timeout:
            return False
        self._follower.orders.popleft()
        self._log(
            logging.WARNING,
            "member.grant_failed",
            partitions=len(tries.rest),
            topics=_topics_of(tries.rest),
            superseded=superseded,
            seconds=round(now - tries.since, 3),
        )
        self._follower.post(ev.GrantFailed(tries.rest))
        return True

    def _start_reading(self, tries: _Tries, new: frozenset[Pair]) -> list[Any]:
        """Read those partitions of a grant whose first offsets the brokers know; return them."""
        asked_at, rest = boot_seconds(), tries.rest
        started: list[Any] = []
        try:
            look_up(self._consumer, {topic for topic, _ in rest} - self._read_topics)
            starts = ask_starts(
                self._consumer,
                self._follower.admin,
                rest,
                new=new,
                pins_latest=self._pins_latest,
            )
            self._note_refused(starts.refused)
            # The answers may have taken longer than the lease: nothing starts without one.
            if starts.known and self._follower.may_deliver:
                self._assign(starts)
                started, rest = starts.known, frozenset(starts.refused)
        except KafkaException as error:
            self._note_refused(dict.fromkeys(rest, error.args[0]))
        now = boot_seconds()
        # A silent leader is waited for. What is read already has at least half of the time.
        waited = now - asked_at if started or self.any_owned else 0.0
        self._tries = tries._replace(rest=rest, next_at=now + max(RETRY_SECONDS, waited))
        return started

    def _assign(self, starts: GrantStarts) -> None:
        pairs = {(each.topic, each.partition) for each in starts.known}
        self._journal.gained(pairs)
        try:
            self._consumer.incremental_assign(starts.known)
        except KafkaException:
            self._journal.released(pairs)
            raise
        self._commits.start(starts.known, starts.pinned)

    def _note_refused(self, refused: Mapping[Pair, KafkaError]) -> None:
        errors = {error.code(): error for error in refused.values()}
        for code, error in errors.items():
            pairs = [pair for pair, each in refused.items() if each.code() == code]
            self._follower.obstacles.grant_retried(error, _topics_of(pairs))

    def _revoke(self, partitions: frozenset[Pair]) -> None:
        # An order is answered whatever happens: the member does nothing else until then.
        started = boot_seconds()
        revoked = without_offsets(partitions)
        outcome: CommitOutcome = "unknown"
        self._log(logging.INFO, "member.revoking", partitions=len(revoked))
        try:
            self._consumer.pause(revoked)
            self._call("on_revoke", revoked)
        finally:
            try:
                outcome = self._commits.finish(partitions, self.serve)
            finally:
                self._end_revocation(partitions, outcome, started)

    def _end_revocation(
        self, partitions: frozenset[Pair], outcome: CommitOutcome, started: float
    ) -> None:
        try:
            self._release(partitions)
        finally:
            if outcome == "unknown":
                self._follower.post_undecided()
            else:
                self._follower.post(ev.RevokeFinished())
            self._log(
                logging.INFO,
                "member.revoked",
                partitions=len(partitions),
                owned=len(self._grants),
                commit=outcome,
                seconds=round(boot_seconds() - started, 3),
            )

    def _lose(self, reason: str) -> None:
        lost = self.owned
        self._log(logging.WARNING, "member.lost", reason=reason, partitions=len(lost))
        try:
            self._release(lost)
            if lost:
                self._call("on_lost", without_offsets(lost))
        finally:
            no_commit_in_flight = self._commits.no_commit_in_flight
            self._follower.lost.clear()
            self._follower.post(
                ev.LoseFinished(uuid4().hex, no_commit_in_flight=no_commit_in_flight)
            )

    def _release(self, partitions: frozenset[Pair]) -> None:
        released = without_offsets(partitions & self.owned)
        # First what decides about records and commits: whatever librdkafka answers, nothing of a
        # partition is handed out or committed once it counts as given up.
        self._commits.forget(partitions)
        self.fetched.drop_outdated()
        for pair in partitions:
            self._tokens.pop(pair, None)
        # librdkafka remembers that a partition was paused when it was given up. To resume it after
        # the next grant would cost a second: the first fetch then waits for librdkafka's next scan.
        self._consumer.resume(released)
        self._consumer.incremental_unassign(released)
        self._journal.released(partitions)

    def _call(self, callback: str, partitions: list[Any]) -> None:
        # The application works in its callback as in any handler, and for no longer either.
        self._follower.poll_watch.set_polling(polling=False)
        try:
            self._callbacks[callback](partitions)
        finally:
            self._follower.poll_watch.set_polling(polling=True)

    def close(self) -> None:
        """Release what is still owned, after the consumer was closed."""
        self._journal.released(self.owned)
        self._grants.clear()
        self._tokens.clear()

    def _log(self, level: int, event: str, **fields: object) -> None:
        log_event(level, event, **self._follower.identity(), **fields)


class _Tries(NamedTuple):
    """Attempts to carry out one grant."""

    order: Order
    since: float
    next_at: float
    rest: frozenset[Pair]
    """Partitions that are not read yet."""


def _topics_of(pairs: Iterable[Pair]) -> str:
    return ", ".join(sorted({topic for topic, _ in pairs}))

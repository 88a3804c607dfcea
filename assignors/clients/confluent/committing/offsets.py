"""Offset tracking of one consumer: handed out, processed, committed.

All offsets are next offsets (of the record to be read next), by partition. A commit whose outcome
is unknown may still arrive until `timers.commit` has passed; until then the member must not
announce that it released the partition.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from confluent_kafka import KafkaException

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.committing.commit_errors import (
    REFUSED_ERRORS,
    SUBSCRIBER_ERRORS,
    StraySubscriberError,
    error_of,
    raise_error_of,
    stray_hint,
)
from levelwind.assignors.clients.confluent.committing.deadline import PASSED, Deadline
from levelwind.assignors.clients.confluent.committing.granted_offsets import (
    GrantedOffsets,
    NotOwnedError,
)
from levelwind.assignors.clients.confluent.committing.kept_commits import KeptCommits
from levelwind.assignors.clients.confluent.committing.next_offsets import (
    NO_METADATA,
    as_topic_partitions,
    offsets_of,
)
from levelwind.assignors.clients.confluent.committing.transactions import (
    RESUME_SECONDS,
    CommitsEndedError,
)
from levelwind.assignors.clients.confluent.event_log import log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from levelwind.assignors.clients.confluent.committing.transactions import TransactionalCommits
    from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
    from levelwind.assignors.clients.confluent.settings import ClientSettings
    from levelwind.assignors.handover.timers import Timers
    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair

CommitOutcome: TypeAlias = Literal["committed", "refused", "unknown"]
"""Outcome of the commits of revoked partitions. Only after "unknown" may a commit still arrive."""


class _InFlight(NamedTuple):
    """An asynchronous commit that the broker has not answered."""

    offsets: dict[Pair, int]
    grants: dict[Pair, int]
    """Number of the grant under which each partition was committed."""


class CommitTracker:
    """Offsets of one consumer; only the application's thread calls its methods."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timers: Timers,
        follower: AssignmentFollower,
        transactions: TransactionalCommits | None,
    ) -> None:
        self.consumer: Any = None
        """The application's consumer, set once it exists."""
        self.grants: dict[Pair, int] = {}
        """Number of the present grant of each owned partition, counted over all partitions."""
        self.processed: dict[Pair, int] = {}
        """Offsets below which the application has processed everything."""
        self._granted = GrantedOffsets()
        self._handed_out: dict[Pair, int] = {}
        """Offsets behind the messages that the application got and may still work on."""
        self._committed: dict[Pair, int] = {}
        """Offsets of the last commits that the broker confirmed."""
        self._kept = KeptCommits(settings.renew_commits)
        self._settings = settings
        self._timers = timers
        self._follower = follower
        self._transactions = transactions
        self._in_flight: list[_InFlight] = []
        """Asynchronous commits that the broker has not answered, oldest first."""
        self._undecided_until: Deadline = PASSED
        """Time until which a commit of unknown outcome may still arrive."""
        self._due_at = boot_seconds() + settings.commit_interval

    @property
    def no_commit_in_flight(self) -> bool:
        """Whether no commit of this consumer can arrive any more."""
        undecided = self._transactions is not None and self._transactions.undecided
        return not self._in_flight and not undecided and self._undecided_until.passed

    def start(self, partitions: Iterable[Any], pinned: Mapping[Pair, int]) -> None:
        """Take in granted partitions with their first offsets: committed ones, or `pinned` ones."""
        self.processed.update(pinned)
        granted = list(partitions)
        self._kept.found(each for each in granted if (each.topic, each.partition) not in pinned)
        for pair, offset in offsets_of(granted).items():
            self._granted.start(pair, offset)
            if offset >= 0 and pair not in pinned:
                self._committed[pair] = offset

    def hand_out(self, messages: Iterable[Any]) -> None:
        """Note messages that the application gets."""
        for message in messages:
            if message.error() is None:
                pair = (message.topic(), message.partition())
                self._handed_out[pair] = message.offset() + 1
                self._granted.hand_out(pair, message.offset())

    def is_current(self, message: Any) -> bool:
        """Whether a message is an error, or the present grant of its partition handed it out."""
        if message.error() is not None:
            return True
        return self._granted.handed_out((message.topic(), message.partition()), message.offset())

    def hand_back(self, messages: Sequence[Any]) -> None:
        """Note that the application did not get the messages that were handed out last."""
        for message in reversed(messages):
            pair = (message.topic(), message.partition())
            if message.error() is None and pair in self.grants:
                self._handed_out[pair] = message.offset()
                self._granted.hand_back(pair, message.offset())

    def count_handed_out(self) -> None:
        """Count what was handed out as processed: the application asked for more.

        Does nothing when the application stores or commits offsets itself.
        """
        if self._settings.auto_store and self._settings.auto_commit:
            self.processed.update(self._handed_out)
            self._handed_out.clear()

    def position(self, pair: Pair) -> int | None:
        """Offset behind the last message handed out; None before one and after a seek."""
        return self._granted.position(pair)

    def seek(self, pair: Pair, offset: int) -> None:
        """Continue a partition at another offset."""
        self._granted.seek(pair, offset)
        for offsets in (self.processed, self._handed_out, self._committed):
            offsets.pop(pair, None)

    def forget(self, partitions: Iterable[Pair]) -> None:
        """Drop the offsets of partitions that were given up."""
        for pair in partitions:
            self._granted.forget(pair)
            self._kept.forget(pair)
            for offsets in (self.grants, self.processed, self._handed_out, self._committed):
                offsets.pop(pair, None)

    def offsets_to_commit(self, message: Any, offsets: Iterable[Any] | None) -> dict[Pair, int]:
        """The next offsets that a call of the application's `commit` means.

        Raises:
            NotOwnedError: The message or an offset belongs to an earlier grant of its partition.
            ValueError: Both are given, the message is an error, or an offset is below 0.
        """
        if message is not None and offsets is not None:
            raise ValueError("message and offsets exclude each other")
        if message is not None:
            if message.error() is not None:
                raise ValueError(f"the message is an error: {message.error().str()}")
            pair = (message.topic(), message.partition())
            self._granted.require_handed_out(pair, message.offset())
            return {pair: message.offset() + 1}
        if offsets is not None:
            given = offsets_of(offsets)
            for pair, offset in given.items():
                if offset < 0:
                    raise ValueError(f"{pair[0]}[{pair[1]}]: {offset} is no offset to commit")
                self._granted.require_not_below_start(pair, offset)
            return given
        handed_out = self._handed_out if self._settings.auto_store else {}
        return self._uncommitted({**self.processed, **handed_out})

    def commit(
        self, offsets: dict[Pair, int], *, metadata: Mapping[Pair, str], asynchronous: bool
    ) -> list[Any] | None:
        """Commit on the application's request; raises `StraySubscriberError`, `KafkaException`."""
        if not offsets:
            return None if asynchronous else []
        if asynchronous:
            self._send(offsets, metadata)
            return None
        try:
            return self._commit(offsets, metadata)
        except KafkaException as error:
            if error.args[0].code() in SUBSCRIBER_ERRORS:
                self._follower.obstacles.look_for_subscribers()
                raise StraySubscriberError(stray_hint(self._follower.profile.group)) from error
            raise

    def commit_in_time(self) -> None:
        """Commit processed offsets when `auto.commit.interval.ms` has passed, and kept ones."""
        now = boot_seconds()
        due = self._settings.auto_commit and now >= self._due_at
        if not (due or now >= self._kept.look_at):
            return
        if self._in_flight or not self._follower.may_deliver:
            return
        if due:
            self._due_at = now + self._settings.commit_interval
            if uncommitted := self._uncommitted(self.processed):
                self._send_by_itself(uncommitted)
                return
        offsets, metadata = self._kept.due()
        if offsets:
            self._send_by_itself(offsets, metadata)

    def _send_by_itself(
        self, offsets: dict[Pair, int], metadata: Mapping[Pair, str] = NO_METADATA
    ) -> None:
        try:
            self._send(offsets, metadata)
        except KafkaException as error:
            self._follower.obstacles.commit_failed(error.args[0])
        except NotOwnedError:
            pass  # fenced, which is logged: the application did not commit, so it is only lost

    def finish(self, partitions: frozenset[Pair], serve: Callable[[], None]) -> CommitOutcome:
        """Commit the processed offsets of partitions that are given up.

        Waits up to a quarter of `timers.commit` for asynchronous commits and calls `serve`. Near
        the end of the lease it waits for a renewal; without one nothing is committed. It waits for
        the outcome of a transaction as long as the lease lasts, up to `timers.commit`.

        Returns:
            The outcome of all commits of these partitions: "unknown" while one may still arrive.
        """
        give_up_at = boot_seconds() + self._timers.commit / 4
        while self._in_flight and boot_seconds() < give_up_at:
            serve()
        if not self._is_decided(serve):
            return "refused"
        uncommitted = self._uncommitted(
            {pair: offset for pair, offset in self.processed.items() if pair in partitions}
        )
        if uncommitted and self._settings.auto_commit:
            while not self._follower.may_deliver and self._follower.lease_is_valid:
                serve()
            try:
                if self._follower.may_deliver:
                    self._commit(uncommitted)
            except KafkaException as error:
                self._follower.obstacles.commit_failed(error.args[0])
                if not self._may_arrive_after(error.args[0]) and self.no_commit_in_flight:
                    return "refused"
            except NotOwnedError:  # fenced: the brokers refuse what is still on its way
                return "refused"
        if not self._is_decided(serve):
            return "refused"
        return "committed" if self.no_commit_in_flight else "unknown"

    def _is_decided(self, serve: Callable[[], None]) -> bool:
        """Wait for the outcome of an undecided transaction; False where this life has ended."""
        if self._transactions is None:
            return True
        give_up_at = boot_seconds() + self._timers.commit
        try:
            while self._transactions.undecided:
                waits = boot_seconds() < give_up_at and self._follower.lease_is_valid
                self._transactions.settle(RESUME_SECONDS, last=not waits)
                serve()
        except CommitsEndedError as error:
            self._end_life(error)
            return False
        return True

    def on_answer(self, error: Any, partitions: list[Any]) -> None:
        """Take in the answer to a commit; confluent-kafka calls this from within poll."""
        # Synchronous commits are reported here too; their offsets tell the two kinds apart.
        offsets, grants = offsets_of(partitions), self.grants
        for commit in self._in_flight:
            if commit.offsets == offsets:
                self._in_flight.remove(commit)
                grants = commit.grants
                break
        error = error or error_of(partitions)
        if error is None:
            self._note_committed(partitions, grants)
        else:
            self._note_outcome_of(error)
            self._follower.obstacles.commit_failed(error)
        if self._settings.on_commit is not None:
            self._settings.on_commit(error, partitions)

    def _uncommitted(self, offsets: dict[Pair, int]) -> dict[Pair, int]:
        return {
            pair: offset for pair, offset in offsets.items() if self._committed.get(pair) != offset
        }

    def _send(self, offsets: dict[Pair, int], metadata: Mapping[Pair, str] = NO_METADATA) -> None:
        partitions = as_topic_partitions(offsets, metadata)
        self._kept.sent(offsets)
        if self._transactions is None:
            self.consumer.commit(offsets=partitions, asynchronous=True)
            self._in_flight.append(_InFlight(offsets, dict(self.grants)))
            return
        # A transaction is not left open while records are handed out, so this waits all the same.
        try:
            self._commit_transaction(self._transactions, partitions)
        except KafkaException as error:
            self.on_answer(error.args[0], partitions)
        else:
            self.on_answer(None, partitions)

    def _commit(
        self, offsets: dict[Pair, int], metadata: Mapping[Pair, str] = NO_METADATA
    ) -> list[Any]:
        partitions: list[Any] = as_topic_partitions(offsets, metadata)
        self._kept.sent(offsets)
        if self._transactions is not None:
            self._commit_transaction(self._transactions, partitions)
            self._note_committed(partitions, self.grants)
            return partitions
        try:
            partitions = self.consumer.commit(offsets=partitions, asynchronous=False)
            raise_error_of(partitions)
        except KafkaException as error:
            self._note_outcome_of(error.args[0])
            raise
        self._note_committed(partitions, self.grants)
        return partitions

    def _commit_transaction(
        self, transactions: TransactionalCommits, partitions: list[Any]
    ) -> None:
        try:
            transactions.commit(
                partitions,
                group_metadata=self.consumer.consumer_group_metadata(),
                timeout=min(self._timers.commit / 2, self._follower.lease_remaining),
            )
        except CommitsEndedError as error:
            self._end_life(error)
            raise NotOwnedError(
                "the brokers refuse the commits of this life, and its partitions may have another "
                "owner: poll to join again"
            ) from error

    def _end_life(self, error: Exception) -> None:
        log_event(logging.ERROR, "member.fenced", **self._follower.identity(), error=str(error))
        self._follower.end_life()

    def _note_committed(self, partitions: Iterable[Any], grants: Mapping[Pair, int]) -> None:
        # An answer may come after its partition went away and came back.
        present = [
            each
            for each in partitions
            if (pair := (each.topic, each.partition)) in self.grants
            and self.grants[pair] == grants.get(pair)
        ]
        self._kept.made(present)
        self._committed.update(offsets_of(present))

    def _may_arrive_after(self, error: Any) -> bool:
        """Whether a commit that failed with `error` may be carried out all the same."""
        return self._transactions is None and error.code() not in REFUSED_ERRORS

    def _note_outcome_of(self, error: Any) -> None:
        if self._may_arrive_after(error):
            self._undecided_until = Deadline.after(self._timers.commit)

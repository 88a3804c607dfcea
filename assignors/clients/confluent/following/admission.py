"""What a member waits for before its life: topics, rights, other consumers, transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from levelwind.assignors.clients.confluent.following import subscribers
from levelwind.assignors.clients.confluent.following.obstacles import QUESTION_SECONDS
from levelwind.assignors.clients.confluent.reading.assignments_reader import MissingTopicsError
from levelwind.assignors.clients.confluent.rights import (
    MissingRightError,
    missing_right,
)

if TYPE_CHECKING:
    from threading import Event as Flag

    from levelwind.assignors.clients.confluent.committing.transactions import TransactionalCommits
    from levelwind.assignors.clients.confluent.following.obstacles import Obstacles
    from levelwind.assignors.clients.confluent.reading.assignments_reader import AssignmentsReader
    from levelwind.assignors.handover.member_state import MemberProfile

INITIALISE_SECONDS = 1.0
"""Longest time of one attempt to initialise the transactional id."""
ATTEMPT_SECONDS = 1.0
"""Longest time between two attempts to join."""


class Admission:
    """Waits, with a reminder in the log, until a member may announce itself."""

    def __init__(
        self,
        *,
        profile: MemberProfile,
        reader: AssignmentsReader,
        transactions: TransactionalCommits | None,
        heartbeat: float,
        after_subscribers: bool,
        closing: Flag,
        obstacles: Obstacles,
    ) -> None:
        """Take the parts of one follower; `closing` ends every wait."""
        self._profile = profile
        self._reader = reader
        self._transactions = transactions
        self._heartbeat = heartbeat
        self._after_subscribers = after_subscribers
        self._closing = closing
        self._obstacles = obstacles

    def wait(self) -> tuple[int, int] | None:
        """Wait for levelwind's topics, then for subscribers to leave, then as `may_begin_life`.

        Returns:
            The group's partition of `levelwind.members` and the offset where reading starts; None
            if the consumer was closed meanwhile.
        """
        while not self._closing.is_set():
            try:
                if not self._after_subscribers or self._subscribers_left():
                    start = self._reader.place()
                    while not self._closing.is_set():
                        if self.may_begin_life():
                            return start
                    return None
            except MissingTopicsError as error:
                self._obstacles.waits(
                    "member.waiting_for_topics",
                    missing=",".join(error.args),
                    hint="start the levelwind daemon, or check `prefix`",
                )
            except MissingRightError as error:
                self._obstacles.lacks(str(error))
            except KafkaException as error:
                self._log_error(error.args[0])
            self._closing.wait(min(ATTEMPT_SECONDS, self._heartbeat))
        return None

    def may_begin_life(self) -> bool:
        """Whether the next life may be announced: its transactional id is initialised.

        That comes before the first announcement. So whoever evicts this life, and has the brokers
        refuse its commits, does so after it.
        """
        if self._transactions is None:
            return True
        try:
            self._transactions.initialise(min(INITIALISE_SECONDS, self._heartbeat))
        except KafkaException as error:
            self._log_error(error.args[0])
            return False
        return True

    def _subscribers_left(self) -> bool:
        found = subscribers.found(self._reader.admin, self._profile.group, QUESTION_SECONDS)
        if found:
            self._obstacles.waits(
                "member.waiting_for_subscribers",
                subscribers="; ".join(found),
                hint="the member joins once no consumer subscribes under the group's name",
            )
        return not found

    def _log_error(self, error: Any) -> None:
        right = missing_right(
            error, group=self._profile.group, identifier=self._profile.transactional_id or ""
        )
        if right is not None:
            self._obstacles.lacks(right)
        else:
            self._obstacles.waits("member.waiting_for_broker", error=error.str())

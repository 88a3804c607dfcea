"""Delivery of records to the application, as far as orders and the lease allow.

Every way out asks the lease: near its end nothing leaves and what was fetched is kept; past its end
everything is dropped, by the order that the follower gives then.
"""

from __future__ import annotations

import logging
import time
from threading import Event
from typing import TYPE_CHECKING, Any

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.event_log import log_event

if TYPE_CHECKING:
    from levelwind.assignors.clients.confluent.application_callbacks import CallbackErrors
    from levelwind.assignors.clients.confluent.committing.offsets import CommitTracker
    from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
    from levelwind.assignors.clients.confluent.owned_partitions import OwnedPartitions

POLL_SLICE_SECONDS = 0.05
"""The longest time that an order of the planner waits for a running poll to return."""


class Delivery:
    """Loop of `poll`, `consume` and `close`; only the application's thread calls its methods."""

    def __init__(
        self,
        *,
        follower: AssignmentFollower,
        owned: OwnedPartitions,
        commits: CommitTracker,
        callback_errors: CallbackErrors,
    ) -> None:
        self._follower = follower
        self._owned = owned
        self._commits = commits
        self._callback_errors = callback_errors
        self._collecting = False
        self.woken = Event()
        """Set by `wakeup`, which any thread may call."""

    def collect(self, number: int, timeout: float | None) -> list[Any]:
        """Return up to `number` messages, fewer when `timeout` seconds have passed.

        Raises:
            Exception: The first error of a callback.
            RuntimeError: A callback asks for messages while it is waited for.
        """
        if self._collecting:
            raise RuntimeError("a callback cannot ask for messages")
        deadline = None if timeout is None or timeout < 0 else boot_seconds() + timeout
        fetched = self._owned.fetched
        self._follower.poll_watch.set_polling(polling=True)
        self._collecting = True
        try:
            self._commits.count_handed_out()
            while True:
                if self.woken.is_set():
                    self.woken.clear()
                    return []
                self._perform_orders()
                self._commits.commit_in_time()
                left = POLL_SLICE_SECONDS
                if deadline is not None:
                    left = max(min(left, deadline - boot_seconds()), 0.0)
                if not self._owned.any_owned:
                    # Nothing can arrive but an order, which need not wait for the end of a poll.
                    self._follower.await_order(left)
                    left = 0.0
                if len(fetched) < number:
                    fetched.fetch(number - len(fetched), left)
                elif not self._follower.may_deliver:
                    time.sleep(left)
                # Only here: the orders are carried out, and what was fetched waits in the buffer.
                self._callback_errors.raise_first()
                over = deadline is not None and boot_seconds() >= deadline
                if over or (len(fetched) >= number and self._follower.may_deliver):
                    return self._hand_out(number)
        finally:
            self._collecting = False
            self._follower.poll_watch.set_polling(polling=False)

    def hand_back(self, messages: list[Any]) -> None:
        """Return the messages of the last call again; also end a `wakeup` that it did not see."""
        self.woken.clear()
        current = [message for message in messages if self._commits.is_current(message)]
        self._owned.fetched.put_back(current)
        self._commits.hand_back(current)

    def close(self, timeout: float) -> None:
        """Leave the group; an error counts as a callback's, to be raised after leaving."""
        deadline = boot_seconds() + timeout
        self._collecting = True
        self._follower.poll_watch.set_polling(polling=True)
        self._follower.leave()
        while self._follower.is_alive() and boot_seconds() < deadline:
            try:
                self._perform_orders()
                self._owned.serve(POLL_SLICE_SECONDS)
            except Exception as error:  # noqa: BLE001 - raised after leaving
                self._callback_errors.keep(error)
        if self._follower.is_alive():
            self._follower.abandon()
            hint = (
                "the member could not leave in time: the planner evicts it, then moves partitions"
            )
            log_event(
                logging.WARNING, "member.close_timed_out", **self._follower.identity(), hint=hint
            )

    def _hand_out(self, number: int) -> list[Any]:
        # The clock is asked last of all: the process may have been stopped anywhere above.
        if not self._follower.may_deliver:
            return []
        messages = self._owned.fetched.take(number)
        for message in messages:
            if message.error() is not None:
                self._follower.obstacles.fetch_failed(message)
        self._commits.hand_out(messages)
        return messages

    def _perform_orders(self) -> None:
        if self._follower.failure is not None:
            raise RuntimeError(
                "the background thread of this consumer died"
            ) from self._follower.failure
        self._owned.perform_orders()

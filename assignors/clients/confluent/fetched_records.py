"""Messages that were fetched and not yet handed out, each with the grant it was fetched under."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.partition_ranges import TopicPartition as Pair


class FetchedMessage(NamedTuple):
    """A message, and the number of the grant under which it was fetched; 0 for an error."""

    grant: int
    message: Any


class FetchedRecords:
    """Buffer of one consumer; only the application's thread calls its methods.

    A partition that went away and came back was another owner's meanwhile: what was fetched before
    is no longer this member's to hand out. librdkafka drops such messages from its own queues, from
    the moment that `incremental_unassign` returns; this buffer does so for those that it has.
    """

    def __init__(self, consumer: Any, grants: Mapping[Pair, int]) -> None:
        """Fetch by `consumer`; `grants` has the number of each owned partition's present grant."""
        self._consumer = consumer
        self._grants = grants
        self._messages: deque[FetchedMessage] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def fetch(self, number: int, timeout: float) -> None:
        """Wait up to `timeout` seconds for up to `number` messages of any partition."""
        if number <= 1:
            message = self._consumer.poll(timeout)
            fetched = [] if message is None else [message]
        else:
            fetched = self._consumer.consume(number, timeout)
        for message in fetched:
            if message.error() is not None:
                self._messages.append(FetchedMessage(0, message))
            elif grant := self._grants.get((message.topic(), message.partition())):
                self._messages.append(FetchedMessage(grant, message))

    def take(self, number: int) -> list[Any]:
        """Take out up to `number` messages of present grants, and errors, oldest first."""
        taken: list[Any] = []
        while self._messages and len(taken) < number:
            fetched = self._messages.popleft()
            if self._is_current(fetched):
                taken.append(fetched.message)
        return taken

    def drop_outdated(self) -> None:
        """Drop the messages of grants that are over."""
        self._messages = deque(filter(self._is_current, self._messages))

    def drop(self, pair: Pair) -> None:
        """Drop the messages of a partition that continues at another offset."""
        self._messages = deque(
            fetched
            for fetched in self._messages
            if (fetched.message.topic(), fetched.message.partition()) != pair
        )

    def _is_current(self, fetched: FetchedMessage) -> bool:
        message, grant = fetched.message, fetched.grant
        return grant == 0 or self._grants.get((message.topic(), message.partition())) == grant

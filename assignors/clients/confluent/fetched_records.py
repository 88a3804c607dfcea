"""Messages that were fetched and not yet handed out, each with the grant it was fetched under."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair


class FetchedMessage(NamedTuple):
    """A message, and the number of the grant under which it was fetched; 0 for an error."""

    grant: int
    message: Any


class FetchedRecords:
    """Buffer of one consumer; only the application's thread calls its methods.

    A partition that went away and came back was another owner's meanwhile: what was fetched before
    is no longer this member's to hand out. librdkafka drops such messages from its own queues, from
    the moment that `incremental_unassign` returns; this buffer does so for those that it has.

    The messages of a partition that the application paused are kept apart until it resumes.
    """

    def __init__(self, consumer: Any, grants: Mapping[Pair, int]) -> None:
        """Fetch by `consumer`; `grants` has the number of each owned partition's present grant."""
        self._consumer = consumer
        self._grants = grants
        self._messages: deque[FetchedMessage] = deque()
        self._paused: dict[Pair, list[FetchedMessage]] = {}
        """Messages that were fetched of each paused partition, oldest first."""

    def __len__(self) -> int:
        """Return the number of messages that may be taken out."""
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
            elif grant := self._grants.get(pair := (message.topic(), message.partition())):
                self._paused.get(pair, self._messages).append(FetchedMessage(grant, message))

    def take(self, number: int) -> list[Any]:
        """Take out up to `number` messages of present grants, and errors, oldest first."""
        taken: list[Any] = []
        while self._messages and len(taken) < number:
            fetched = self._messages.popleft()
            if self._is_current(fetched):
                taken.append(fetched.message)
        return taken

    def put_back(self, messages: Sequence[Any]) -> None:
        """Put messages back that `take` returned last, unless their grant is over."""
        for message in reversed(messages):
            pair = (message.topic(), message.partition())
            if message.error() is not None:
                self._messages.appendleft(FetchedMessage(0, message))
            elif (grant := self._grants.get(pair)) and pair not in self._paused:
                self._messages.appendleft(FetchedMessage(grant, message))
            elif grant:
                self._paused[pair].insert(0, FetchedMessage(grant, message))

    def drop_outdated(self) -> None:
        """Drop the messages of grants that are over."""
        self._messages = deque(filter(self._is_current, self._messages))
        self._paused = {
            pair: messages for pair, messages in self._paused.items() if pair in self._grants
        }

    def drop(self, pair: Pair) -> None:
        """Drop the messages of a partition that continues at another offset."""
        self._messages = deque(
            fetched for fetched in self._messages if _partition_of(fetched) != pair
        )
        if pair in self._paused:
            self._paused[pair] = []

    def pause(self, pairs: Collection[Pair]) -> None:
        """Keep the messages of owned partitions back, until `resume` or the end of their grant."""
        for pair in pairs:
            self._paused.setdefault(pair, [])
        if self._messages:
            messages, self._messages = self._messages, deque()
            for fetched in messages:
                self._paused.get(_partition_of(fetched), self._messages).append(fetched)

    def resume(self, pairs: Iterable[Pair]) -> None:
        """Let the messages of paused partitions out again, before all others."""
        for pair in pairs:
            self._messages.extendleft(reversed(self._paused.pop(pair, ())))

    def _is_current(self, fetched: FetchedMessage) -> bool:
        return fetched.grant == 0 or self._grants.get(_partition_of(fetched)) == fetched.grant


def _partition_of(fetched: FetchedMessage) -> Pair:
    return fetched.message.topic(), fetched.message.partition()

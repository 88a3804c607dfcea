"""Worker of the chaos run: a managed consumer with handlers, and a journal of what they did.

A program: `python -m levelwind_testing.chaos.chaos_worker SETTINGS` (a JSON object, see `Orders`).
SIGTERM ends it in order; SIGUSR1 makes it write into its log where its threads are. Every handler
is short while the file `calm` exists beside the journal. A handler works in short slices and looks
at its lease after each of them, as an application does that checks its fencing token downstream:
the contract covers handlers that end within `guard`, or check.
"""

import faulthandler
import json
import logging
import random
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from levelwind.assignors.handover.timers import Timers
from levelwind.clients.confluent import (
    ManagedConsumer,
    NotOwnedError,
    OwnershipChange,
    Phase,
    StraySubscriberError,
)
from levelwind_testing.chaos.chaos_mutants import mutate
from levelwind_testing.chaos.journal import NO_EPOCH, Entry, JournalWriter

log = logging.getLogger("chaos.worker")

SLICE_SECONDS = 0.02
POLL_SECONDS = 0.2
COMMIT_SECONDS = 0.5
CALM_FILE = "calm"


def boot_time() -> float:
    """Seconds of the boot clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Settings of a worker."""

    bootstrap: str
    group: str
    topics: list[str]
    instance: str
    prefix: str
    timers: Mapping[str, float]
    journal: str
    seed: int
    fencing: str | None = None
    batch: int = 1
    """Records of one call of `consume`; 1: `poll` is called."""
    commits: str = "auto"
    """`auto`, or how the application commits: `sync`, `async`."""
    max_poll_interval: float = 40.0
    """Seconds."""
    handler: float = 0.005
    """Mean seconds of a handler."""
    long_every: float = 60.0
    """Mean seconds between two handlers that take up to nine tenths of `max_poll_interval`."""
    mutant: str | None = None
    """A rule that is left out, by its name in `chaos_mutants`."""


class Worker:
    """One consumer and its handlers."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._random = random.Random(orders.seed)
        self._journal = JournalWriter(Path(orders.journal))
        self._stopping = False
        self._calm_file = Path(orders.journal).with_name(CALM_FILE)
        self._consumer: ManagedConsumer | None = None
        self._uncommitted = False
        self._commit_at = 0.0
        self._long_at = boot_time() + self._random.expovariate(1 / orders.long_every)
        """Time from which on the next handler is a long one."""

    def run(self) -> None:
        """Work until SIGTERM."""
        signal.signal(signal.SIGTERM, self._stop)
        consumer = self._consumer = self._open()
        try:
            while not self._stopping:
                self._work(consumer)
        finally:
            consumer.close()

    def _open(self) -> ManagedConsumer:
        orders = self._orders
        config = {
            "bootstrap.servers": orders.bootstrap,
            "client.id": orders.instance,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": orders.commits == "auto",
            "auto.commit.interval.ms": round(COMMIT_SECONDS * 1000),
            "max.poll.interval.ms": round(orders.max_poll_interval * 1000),
            "log_level": 0,
        }
        fencing: dict[str, Any] = {"fencing": orders.fencing} if orders.fencing else {}
        return ManagedConsumer(
            config,
            group=orders.group,
            topics=orders.topics,
            instance=orders.instance,
            prefix=orders.prefix,
            timers=Timers(**orders.timers),
            journal=self._note_ownership,
            **fencing,
        )

    def _stop(self, *_: object) -> None:
        self._stopping = True

    @property
    def _calm(self) -> bool:
        return self._calm_file.exists()

    # Records.

    def _work(self, consumer: ManagedConsumer) -> None:
        if self._orders.batch == 1:
            message = consumer.poll(POLL_SECONDS)
            messages = [] if message is None else [message]
        else:
            messages = consumer.consume(self._orders.batch, POLL_SECONDS)
        begun = boot_time()
        records = [message for message in messages if message.error() is None]
        for record in records:
            self._handle(consumer, record, begun)
        self._uncommitted |= bool(records)
        if self._orders.commits != "auto" and self._uncommitted and boot_time() > self._commit_at:
            self._commit(consumer)

    def _handle(self, consumer: ManagedConsumer, record: Any, batch_begun: float) -> None:
        begun = boot_time()
        incarnation = consumer.incarnation
        if not lease_is_valid(consumer):
            event = "declined" if begun - batch_begun < SLICE_SECONDS / 2 else "skipped"
            self._note(event, incarnation, NO_EPOCH, record, at=begun)
            return
        token = epoch_of(consumer, record)
        self._note("begin", incarnation, token, record, at=begun)
        left = self._duration(begun - batch_begun)
        valid_at = begun
        while True:
            time.sleep(min(left, SLICE_SECONDS))
            left -= SLICE_SECONDS
            now = boot_time()
            if not lease_is_valid(consumer):
                self._note("abandoned", incarnation, token, record, at=now, valid_at=valid_at)
                return
            valid_at = now
            if left <= 0 or (left > 1 and self._calm):
                self._note("end", incarnation, token, record, at=now)
                return

    def _duration(self, spent: float) -> float:
        """Seconds of the next handler, given what the batch has used of the poll interval."""
        orders = self._orders
        longest = 0.9 * orders.max_poll_interval - spent
        if longest < 0 or boot_time() < self._long_at or self._calm:
            return self._random.uniform(0, 2 * orders.handler)
        self._long_at = boot_time() + self._random.expovariate(1 / orders.long_every)
        return self._random.uniform(0, longest)

    def _commit(self, consumer: ManagedConsumer) -> None:
        self._uncommitted, self._commit_at = False, boot_time() + COMMIT_SECONDS
        try:
            consumer.commit(asynchronous=self._orders.commits == "async")
        except (NotOwnedError, KafkaException) as error:
            self._failed(consumer, error)

    def _failed(self, consumer: ManagedConsumer, error: Exception) -> None:
        log.warning("commit failed: %r", error)
        if isinstance(error, StraySubscriberError):
            raise error
        self._journal.write(Entry(at=boot_time(), event="failed", incarnation=consumer.incarnation))

    # The journal.

    def _note(
        self,
        event: str,
        incarnation: str,
        epoch: tuple[int, int],
        record: Any,
        *,
        at: float,
        valid_at: float = 0.0,
    ) -> None:
        self._journal.write(
            Entry(
                at=at,
                event=event,
                incarnation=incarnation,
                epoch=epoch,
                topic=record.topic(),
                number=record.partition(),
                offset=record.offset(),
                valid_at=valid_at,
            )
        )

    def _note_ownership(self, change: OwnershipChange) -> None:
        lost = self._consumer is not None and self._consumer.phase is Phase.LOST
        self._journal.write(
            Entry(
                at=change.at,
                event="lost" if lost and change.event == "released" else change.event,
                incarnation=change.incarnation,
                topic=change.topic,
                number=change.partition,
            )
        )


def lease_is_valid(consumer: ManagedConsumer) -> bool:
    """Whether the consumer's lease is not over; a client without leases knows no end."""
    remaining = getattr(consumer, "lease_remaining", None)
    return remaining is None or remaining() > 0


def epoch_of(consumer: ManagedConsumer, record: Any) -> tuple[int, int]:
    """The epoch under which the consumer owns a record's partition."""
    token_of = getattr(consumer, "fencing_token", None)
    if token_of is None:
        return NO_EPOCH
    try:
        *_, epoch = token_of(TopicPartition(record.topic(), record.partition()))
    except NotOwnedError:  # lost since the lease was looked at
        return NO_EPOCH
    return (int(epoch[0]), int(epoch[1]))


def main() -> None:
    """Run a worker with the settings of the command line."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    faulthandler.register(signal.SIGUSR1)
    orders = Orders(**json.loads(sys.argv[1]))
    if orders.mutant is not None:
        mutate(orders.mutant)
    Worker(orders).run()


if __name__ == "__main__":
    main()

"""The poller of a term: one thread that asks, compares and writes, round after round.

Each round is written in transactions of one transactional id, so that a daemon which leads no more
cannot put an older answer over a newer one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from levelwind.daemon.errors import FencedError, LevelwindError
from levelwind.daemon.polling.commit_mirror import CommitMirror
from levelwind.daemon.polling.coordinators import Coordinators, RequestPace
from levelwind.daemon.polling.poll_round import PollRound
from levelwind.daemon.polling.poll_schedule import PollSchedule
from levelwind.daemon.telemetry.throttle import Outage, changes
from levelwind.daemon.wall_clock import now_ms
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.shared_connections import SharedConnections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.daemon.polling.commits_topic import CommitsTopic
    from levelwind.daemon.polling.poll_round import RoundOutcome
    from levelwind.daemon.polling.settings import CommitSettings

RECORDS_PER_TRANSACTION = 5_000
"""The most records of one transaction: readers wait for its end."""
CLIENT_ID = "levelwind-commits"
"""Client id of the connections."""

STOP_SECONDS = 5.0
"""Longest time that `stop` waits for the thread."""
EXAMPLES = 5
"""Groups that a log line names."""


@dataclass(frozen=True, slots=True)
class PollFigures:
    """What the metrics show of a round."""

    groups: int
    refused: int
    requests: int
    seconds: float


class CommitPoller:
    """Polls while the daemon leads; every method may be called from any thread."""

    def __init__(
        self,
        client_config: Mapping[str, str],
        settings: CommitSettings,
        topic: CommitsTopic,
        on_round: Callable[[PollFigures], None],
        log: Any,
    ) -> None:
        """Configure the poller; `start` begins.

        Args:
            client_config: librdkafka's settings of the connection.
            settings: how often is asked.
            topic: the topic of commits.
            on_round: called in the poller's thread after each round.
            log: logger of the daemon.

        Raises:
            ConfigurationError: a setting of the connection does not fit; the text names it.
        """
        self._settings = settings
        self._topic = topic
        self._on_round = on_round
        self._log = log
        connections = SharedConnections(
            addresses(client_config["bootstrap.servers"]), client_security(client_config), CLIENT_ID
        )
        self._coordinators = Coordinators(connections, RequestPace(settings.requests_per_second))
        self._schedule = PollSchedule()
        self._mirror: CommitMirror | None = None
        self._refused: dict[tuple[str, str], str] = {}
        self._unanswered: dict[str, str] = {}
        self._outage = Outage()
        self.fenced_reason = ""
        """Why the poller asks no more, though nobody stopped it; empty while it does."""
        self._stopping = threading.Event()
        self._wake: Callable[[], object] | None = None
        """Ends the pause between two rounds."""
        self._thread = threading.Thread(target=self._run, name="commit-poller", daemon=True)

    def start(self) -> None:
        """Begin with what the topic holds, and ask round after round."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns when the thread has ended, or has taken `STOP_SECONDS`."""
        self._stopping.set()
        if self._wake is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._wake()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._poll())
        finally:
            self._topic.close()

    async def _poll(self) -> None:
        settings, stopped = self._settings, asyncio.Event()
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, stopped.set)
        try:
            while not self._stopping.is_set():
                begun, cpu = time.monotonic(), time.thread_time()
                await self._round(begun)
                took = time.monotonic() - begun
                rest = (time.thread_time() - cpu) / settings.max_cpu_share - took
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(settings.interval - took, rest, 0.0)):
                        await stopped.wait()
        except FencedError as error:
            # Another daemon leads, or the brokers gave the id up: the term ends, and another one
            # takes it, since taking it here could fence the next leader.
            self.fenced_reason = str(error)
            self._log.info("commits.handed_over", reason=self.fenced_reason)
        finally:
            self._coordinators.close()

    async def _round(self, begun: float) -> None:
        """Do one round, and write what is new; an error costs the round alone."""
        try:
            if self._mirror is None:
                self._topic.begin()
                self._mirror = CommitMirror(self._topic.read())
                self._log.info("commits.polling", groups=len(self._mirror.groups))
            asked = self._coordinators.pace.sent
            outcome = await PollRound(
                self._coordinators, self._mirror, self._schedule, now_ms
            ).run()
            self._write(self._mirror)
        except FencedError:
            raise
        except (LevelwindError, ConnectionFailedError) as error:
            if self._outage.lost(begun):
                self._log.warning("commits.unpolled", error=str(error))
        except Exception as error:  # noqa: BLE001 - the next round may do better
            self._log.error("commits.failed", error=repr(error), exc_info=error)
        else:
            if (seconds := self._outage.regained(begun)) is not None:
                self._log.info("commits.polled_again", seconds=round(seconds, 3))
            self._report(outcome)
            seconds = time.monotonic() - begun
            requests = self._coordinators.pace.sent - asked
            self._on_round(
                PollFigures(outcome.groups, self._schedule.refused_groups, requests, seconds)
            )

    def _write(self, mirror: CommitMirror) -> None:
        while mirror.unwritten and not self._stopping.is_set():
            records = dict(islice(mirror.unwritten.items(), RECORDS_PER_TRANSACTION))
            self._topic.write(records)
            mirror.written(records)

    def _report(self, outcome: RoundOutcome) -> None:
        """Log groups and brokers that begin to give no answer, and brokers that give one again."""
        refused = dict(self._schedule.refused)
        begun, _ = changes(self._refused, refused)
        if begun:
            examples = {group: begun[group, what] for group, what in sorted(begun)[:EXAMPLES]}
            self._log.warning("commits.groups_refused", groups=len(begun), examples=examples)
        self._refused = refused
        silent, back = changes(self._unanswered, outcome.unanswered)
        if silent:
            self._log.warning("commits.unanswered", brokers=silent)
        if back:
            self._log.info("commits.answered", brokers=sorted(back))
        self._unanswered = outcome.unanswered

"""Follower of the audit trail: starts when somebody first asks for decisions, and then reads on.

A daemon that nobody asks reads none of them.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from levelwind.assignors.protocol.records import DecisionPart
from levelwind.daemon.api.views.decision_log import DecisionLog
from levelwind.daemon.kafka.topic_follower import TopicFollower

if TYPE_CHECKING:
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.kafka.topic_reader import ConsumedRecord

FIRST_SECONDS = 10.0
"""Longest time for which the first request waits until the trail has been read."""


class DecisionFollower:
    """The decisions of an installation; the event loop's thread calls all methods."""

    def __init__(self, settings: Settings) -> None:
        self.log = DecisionLog()
        self._settings = settings
        self._caught_up = threading.Event()
        self._follower: TopicFollower | None = None
        self._starting = asyncio.Lock()

    async def ready(self) -> DecisionLog:
        """Return the decisions, once those have been read that there were at the first call.

        Raises:
            NotFoundError: the cluster has no such topic yet.
            ClusterUnavailableError: the cluster does not answer.
        """
        if not self._caught_up.is_set():
            async with self._starting:
                await run_in_threadpool(self._start)
                await run_in_threadpool(self._caught_up.wait, FIRST_SECONDS)
        return self.log

    def stop(self) -> None:
        """Stop reading."""
        if self._follower is not None:
            self._follower.stop()

    def _start(self) -> None:
        if self._follower is not None:
            return
        follower = TopicFollower(
            client_config=self._settings.client(),
            topics=self._settings.topics,
            kinds=("decisions",),
            on_record=self._on_record,
            on_caught_up=self._caught_up.set,
            timeout=self._settings.topic.timeout,
        )
        follower.start()
        self._follower = follower

    def _on_record(self, read: ConsumedRecord) -> None:
        if isinstance(read.record, DecisionPart):
            self.log.add(read.record)

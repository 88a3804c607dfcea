"""Fencing of a member's commits: the planner initialises the member's transactional id itself.

From then on the brokers refuse every commit of the process that used the id before, whatever its
clock says, and its open transaction is aborted. Each fencing is tried until it succeeds.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from levelwind.daemon.doubling_pause import DoublingPause
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.kafka import clients
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.telemetry.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

ATTEMPT_SECONDS = 10.0
"""Limit of one attempt."""

WORKERS = 4
"""Attempts at the same time; the others wait. An id that cannot be fenced holds none between its
attempts, so that it does not hold up the others."""

PAUSES = DoublingPause(0.5, 10.0)
"""Seconds between two attempts."""


class CommitFencer:
    """Fences transactional ids in threads of its own."""

    def __init__(self, client_config: Mapping[str, Any], log: Any = None) -> None:
        self._client_config = client_config
        self._log = log or Logger()
        self._stopping = threading.Event()
        self._room = threading.BoundedSemaphore(WORKERS)
        self._lock = threading.Lock()
        self._pending: set[Hashable] = set()
        self._failures: Throttle[str] = Throttle(interval=30.0)

    def fence(self, key: Hashable, transactional_id: str, on_fenced: Callable[[], None]) -> None:
        """Fence whoever uses an id now; returns at once.

        Args:
            key: what the fencing is for; while it is under way, another call with this key does
                nothing.
            transactional_id: the id.
            on_fenced: called from another thread when it is done.
        """
        with self._lock:
            if key in self._pending:
                return
            self._pending.add(key)
        threading.Thread(
            target=self._fence,
            args=(key, transactional_id, on_fenced),
            name="commit-fencer",
            daemon=True,
        ).start()

    def close(self) -> None:
        """Give up what is not fenced yet; an attempt that is under way ends by itself."""
        self._stopping.set()

    def _fence(self, key: Hashable, transactional_id: str, on_fenced: Callable[[], None]) -> None:
        failures = 0
        while not self._stopping.is_set():
            with self._room:
                error = self._attempt(transactional_id)
            if error is None:
                break
            self._log_failure(transactional_id, error)
            failures += 1
            self._stopping.wait(PAUSES.of(failures))
        with self._lock:
            self._pending.discard(key)
        if not self._stopping.is_set():
            on_fenced()

    def _attempt(self, transactional_id: str) -> str | None:
        """Initialise the id once; return the error, None after a success."""
        required = {"transactional.id": transactional_id, "transaction.timeout.ms": 10_000}
        try:
            producer = clients.producer(self._client_config, required)
            producer.init_transactions(ATTEMPT_SECONDS)
        except KafkaException as exception:
            return str(clients.kafka_error(exception).str())
        except ConfigurationError as error:  # a member announced an id that the client refuses
            return str(error)
        return None

    def _log_failure(self, transactional_id: str, error: str) -> None:
        with self._lock:
            suppressed = self._failures.allows("failed", time.monotonic())
        if suppressed is not None:
            self._log.warning(
                "commits.unfenced",
                transactional_id=transactional_id,
                error=error,
                suppressed=suppressed,
            )

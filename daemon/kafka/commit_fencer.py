"""Fencing of a member's commits: the planner initialises the member's transactional id itself.

From then on the brokers refuse every commit of the process that used the id before, whatever its
clock says, and its open transaction is aborted. Each fencing is tried until it succeeds.
"""

from __future__ import annotations

import threading
import time
from heapq import heappop, heappush
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
"""Attempts at the same time, however many ids wait for one."""

PAUSES = DoublingPause(0.5, 10.0)
"""Seconds between two attempts."""


class CommitFencer:
    """Fences transactional ids in threads of its own, once it was started."""

    def __init__(self, client_config: Mapping[str, Any], log: Any = None) -> None:
        self._client_config = client_config
        self._log = log or Logger()
        self._changed = threading.Condition()
        """Guards what follows; notified when an id is due sooner than before, and at the end."""
        self._closed = False
        self._asked: dict[str, dict[Hashable, Callable[[], None]]] = {}
        """What waits for each id, with what is called when it is fenced."""
        self._due: list[tuple[float, str, int]] = []
        """A heap of the next attempts: monotonic seconds, id, failures in a row."""
        self._failures: Throttle[str] = Throttle(interval=30.0)

    def start(self) -> None:
        """Start the threads, so that no fencing has to wait for the system to give one.

        Raises:
            RuntimeError: the system gives no thread; `close` ends those that it gave.
        """
        for _ in range(WORKERS):
            threading.Thread(target=self._work, name="commit-fencer", daemon=True).start()

    def fence(self, key: Hashable, transactional_id: str, on_fenced: Callable[[], None]) -> None:
        """Fence whoever uses an id now; returns at once.

        Args:
            key: what the fencing is for; while it is under way, another call with this key does
                nothing.
            transactional_id: the id.
            on_fenced: called from another thread when it is done.
        """
        with self._changed:
            if transactional_id not in self._asked:
                self._asked[transactional_id] = {}
                heappush(self._due, (time.monotonic(), transactional_id, 0))
                self._changed.notify()
            self._asked[transactional_id].setdefault(key, on_fenced)

    def close(self) -> None:
        """Give up what is not fenced yet; an attempt that is under way ends by itself."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (due := self._next()) is not None:
            self._try(*due)

    def _next(self) -> tuple[str, int] | None:
        """The next id, with its failures in a row, once it is due; None at the end."""
        with self._changed:
            while not self._closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heappop(self._due)[1:]
                self._changed.wait(left)
        return None

    def _try(self, transactional_id: str, failures: int) -> None:
        """Fence an id for all that asked before; try again for others, and after a failure."""
        with self._changed:
            asked = dict(self._asked[transactional_id])
        error = self._attempt(transactional_id)
        if error is not None:
            self._log_failure(transactional_id, error)
        failures = 0 if error is None else failures + 1
        with self._changed:
            if self._closed:
                return
            waiting = self._asked[transactional_id]
            if error is None:
                for key in asked:
                    del waiting[key]
            if waiting:
                again = time.monotonic() + PAUSES.of(failures)
                heappush(self._due, (again, transactional_id, failures))
                self._changed.notify()
            else:
                del self._asked[transactional_id]
        if error is None:
            for on_fenced in asked.values():
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
        except Exception as error:  # noqa: BLE001 - whatever an id does, the others are fenced
            return repr(error)
        return None

    def _log_failure(self, transactional_id: str, error: str) -> None:
        with self._changed:
            suppressed = self._failures.allows("failed", time.monotonic())
        if suppressed is not None:
            self._log.warning(
                "commits.unfenced",
                transactional_id=transactional_id,
                error=error,
                suppressed=suppressed,
            )

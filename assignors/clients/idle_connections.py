"""Settings of librdkafka for connections that nothing was sent on for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.assignors.clients.flat_settings import flat_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

IDLE_MS = 180_000
"""Before brokers (10 minutes by default) and what lies before them (4 to 6 minutes at large
providers) end a connection, as Java's clients do: one that ends under a request costs it."""
MOST_BACKOFF_MS = 500
"""librdkafka's own ten seconds are how long a coordinator is not connected to whose connection was
ended several times: commits are refused meanwhile ("waiting for coordinator"), and a call that
sends offsets within a transaction forgets its time-out (its issues 5456 and 5511)."""


def with_idle_connections(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's settings, flat, with those for idle connections that it does not give."""
    flat = flat_settings(config)
    preferred = {"connections.max.idle.ms": IDLE_MS}
    if "reconnect.backoff.ms" not in flat:  # librdkafka refuses a maximum below it
        preferred["reconnect.backoff.max.ms"] = MOST_BACKOFF_MS
    return {**preferred, **flat}

"""Settings of the leader proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from levelwind.daemon.durations import PositiveSeconds  # noqa: TC001 - the settings are validated by their annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """The leader proxy's membership in groups of mode `proxy`; times in seconds."""

    session_timeout: Annotated[float, Field(ge=6, le=60)] = 20.0
    """Seconds without a daemon after which the brokers drop the proxy from a group, and the group
    goes on by its own assignor; a daemon that comes sooner goes on leading. At least twice
    `timers.takeover` counts. Within the limits that the brokers set to session timeouts."""
    heartbeat_interval: PositiveSeconds = 2.0
    """Seconds between two heartbeats, by which the proxy notices that a group rebalances; at most a
    third of `session_timeout` counts."""
    retry: PositiveSeconds = 5.0
    """Seconds before the proxy tries a group again that it left; they double with each time that
    follows."""
    retry_max: PositiveSeconds = 300.0
    """The most seconds before such a try."""

    @property
    def heartbeat(self) -> float:
        """Seconds between two heartbeats."""
        return min(self.heartbeat_interval, self.session_timeout / 3)

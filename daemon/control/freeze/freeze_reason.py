"""Reasons to freeze planning. Pure."""

from __future__ import annotations

from enum import StrEnum


class FreezeReason(StrEnum):
    """Reason to freeze planning, for all groups or for one."""

    METADATA = "metadata"
    """The layout of the cluster is old."""
    CLOCK = "clock"
    """The wall clock jumped."""
    BROKERS = "brokers"
    """Most brokers do not answer."""
    REJECTS = "rejects"
    """The pipeline cannot read most of its input."""
    LAG = "lag"
    """Lag is too old to plan by: that of all groups, or of a topic of one group."""
    MEMBERS = "members"
    """Most members of a group fell silent together."""


BINDING = frozenset(FreezeReason) - {FreezeReason.LAG}
"""Reasons for which an operator's request waits, too: a plan without lag may be what is wanted."""

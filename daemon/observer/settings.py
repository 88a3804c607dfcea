"""What the observer is told at its start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """What is observed, and how often; times in seconds."""

    metadata_interval: float = 0.5
    offsets_interval: float = 1.0
    unchanged_sample_every: int = 10
    """A sample that says what the last one said is published with each so-manieth only: a cluster at rest costs little."""
    max_cpu_share: float = 0.05
    """Of a core, what either tick may take: of a cluster that is too large for its interval it comes more seldom."""
    full_describe_every: int = 10
    """All topics are described with each so-manieth look at the layout; with the others those whose layout has changed."""
    begin_offsets_every: int = 10
    """Begin offsets move seldom: they are read again with each so-manieth sample."""
    timeout: float = 2.0
    """For each request. A partition whose leader has just died holds a sample up for so long."""
    include: tuple[str, ...] = (".*",)
    """Topics are observed that one of these regular expressions matches in full, …"""
    exclude: tuple[str, ...] = ("__.*",)
    """… and none of these. Our own are not observed."""
    detect_control_records: bool = True
    """Whether the last records of partitions that stand still are read, to tell transaction markers from lag."""

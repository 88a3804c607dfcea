"""Settings of the observer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from levelwind.daemon.durations import RequestSeconds, Seconds  # noqa: TC001 - the settings are validated by their annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """Observed topics and intervals; times in seconds."""

    metadata_interval: Seconds = 0.5
    """Seconds between two probes of the cluster's layout."""
    offsets_interval: Seconds = 1.0
    """Seconds between two samples of the offsets."""
    unchanged_sample_every: Annotated[int, Field(ge=1)] = 10
    """Publish an unchanged sample only every Nth tick, and at least every 30 s, so that an idle
    cluster stays cheap."""
    max_cpu_share: Annotated[float, Field(gt=0)] = 0.05
    """Share of a core that either tick may take; a tick that takes longer comes less often, at most
    10 s apart."""
    full_describe_every: Annotated[int, Field(ge=1)] = 10
    """Describe each topic once in so many probes, in turns, besides those with a new layout."""
    begin_offsets_every: Annotated[int, Field(ge=1)] = 10
    """Read begin offsets, which rarely move, once in so many samples, topic by topic in turns."""
    timeout: RequestSeconds = 2.0
    """Seconds for each request. A partition whose leader has just died delays a sample by this
    long."""
    include: tuple[str, ...] = (".*",)
    """Regular expressions; a topic is observed if one of them matches its whole name."""
    exclude: tuple[str, ...] = ("__.*",)
    """Regular expressions of topics that are not observed. levelwind's own topics never are."""
    detect_control_records: bool = True
    """Whether to read the last records of idle partitions, to tell control records from lag."""

"""Settings of where commits are read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from levelwind.daemon.durations import Seconds  # noqa: TC001 - the settings are validated by their annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings:
    """Where commits and members of groups come from; times in seconds."""

    source: Literal["auto", "topic", "poll"] = "auto"
    """`topic` (the pipeline reads `__consumer_offsets`), `poll` (the daemon asks the coordinators,
    and writes what changed to a topic of its own) or `auto`: the topic, and where the daemon may
    not read that, as on many managed services, polling. A pipeline that is no child of the daemon
    takes `auto` for `topic`."""
    interval: Annotated[Seconds, Field(ge=0.1)] = 1.0
    """Seconds between two rounds of questions. A group that commits is asked in each, one that has
    not for a while in every third."""
    requests_per_second: Annotated[float, Field(gt=0)] = 100.0
    """The most requests a second to all brokers together; a round takes longer where it needs
    more."""
    max_cpu_share: Annotated[float, Field(gt=0, le=1)] = 0.15
    """Share of a core that the rounds may take: one that took more is followed by a longer
    pause."""

    @property
    def polled(self) -> bool:
        """Whether commits are polled; `auto` counts as the topic until it is decided."""
        return self.source == "poll"

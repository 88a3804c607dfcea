"""What the pipeline is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors.protocol.topics import Topics
from streaming.rules.skew import SkewRule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from assignors.protocol.records import EndKind
    from streaming.rules.partition_lag import ResetPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Everything the pipeline depends on; times are milliseconds."""

    bootstrap: str
    checkpoint: Path
    """A directory of the pipeline's own."""
    jars: tuple[Path, ...] = ()
    """Spark's Kafka connector and what it needs."""
    prefix: str = "levelwind."
    end_kind: EndKind = "stable"
    """`stable`: what a read_committed consumer can reach; `high`: the high watermark."""
    reset_policy: ResetPolicy = "earliest"
    skew_threshold: float = 1.5
    skew_floor: int = 10_000
    skew_floor_seconds: float = 30.0
    skew_duration: int = 30_000
    trigger_interval: int = 0
    """Between the starts of two batches; 0: the next begins when one ends."""
    max_offsets_per_trigger: int = 1_000_000
    start_timeout: int = 30_000
    """Until a cluster that does not answer, or lacks a topic, ends the start."""
    parallelism: int = 2
    """Tasks a stage. A query keeps the one it was begun with."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Kafka clients, under their own names."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, under their own names."""

    @property
    def topics(self) -> Topics:
        """The topics of ours, by their names."""
        return Topics(self.prefix)

    @property
    def skew(self) -> SkewRule:
        """When skew is a trigger."""
        return SkewRule(
            threshold=self.skew_threshold,
            floor=self.skew_floor,
            floor_seconds=self.skew_floor_seconds,
            duration_ms=self.skew_duration,
        )

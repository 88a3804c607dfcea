"""Pipeline settings."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, Topics
from levelwind.streaming.rules.cadence import CadenceRule
from levelwind.streaming.rules.skew import SkewRule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from levelwind.assignors.protocol.records import EndKind
    from levelwind.streaming.rules.partition_lag import ResetPolicy

WORKER_DAEMON = "levelwind.streaming.spark.workers.forking_daemon"
"""The module that Spark's Python workers are forked by; not imported here, since it preloads."""

SEVERAL_TASKS = 2
"""Tasks a stage where the setting leaves it open and one does not do."""

LATE_OPTIMIZATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Options of a JVM that lives long on few cores: only what stays hot is compiled by the optimizing
compiler, with thresholds ten times Java's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Settings of the pipeline; times are milliseconds where the name has no unit."""

    bootstrap: str
    checkpoint: Path | str
    """Directory of the pipeline's own, for its checkpoint and the marks beside it: a path, or a URI
    of any file system that Spark knows."""
    jars: tuple[Path, ...] = ()
    """Jars of Spark's Kafka connector and what it needs."""
    prefix: str = "levelwind."
    commits_polled: bool = False
    """Whether commits are read from levelwind's own topic, which the daemon fills by asking the
    coordinators, and not from `__consumer_offsets`."""
    end_kind: EndKind = "stable"
    """Log end that lag is counted to: `stable`, which a read_committed consumer can reach, or
    `high`, the high watermark."""
    reset_policy: ResetPolicy = "earliest"
    group_reset_policies: Mapping[str, ResetPolicy] = field(default_factory=dict)
    """The reset policy of single groups, by name."""
    skew: SkewRule = field(default_factory=SkewRule)
    """When skew is a trigger."""
    trigger_interval: int = 550
    """Shortest time between the starts of two batches; 0: the next batch begins when one ends."""
    calm_interval: int = 2_500
    """Longest time between the starts of two batches, while nothing is at stake: see
    `rules.cadence`. No more than `trigger_interval`: the time is always that."""
    max_offsets_per_trigger: int = 250_000
    start_timeout: int = 30_000
    """Time after which the start fails if the cluster does not answer or lacks a topic."""
    parallelism: int = 0
    """Tasks a stage, and partitions of the state: part of the checkpoint's shape. 0: that of the
    checkpoint, and of a new one 1 while little is committed, else `SEVERAL_TASKS`."""
    driver_port: int = 0
    """Port at which the driver tells executors the end offsets of their batch; 0: a free one."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Kafka clients, under their own names, passed through verbatim."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, under their own names, passed through verbatim."""

    @property
    def topics(self) -> Topics:
        """The names of levelwind's topics."""
        return Topics(self.prefix)

    @property
    def commits_topic(self) -> str:
        """The topic that commits are read from."""
        return self.topics.commits if self.commits_polled else OFFSETS_TOPIC

    @property
    def cadence(self) -> CadenceRule:
        """The rule of when a batch begins."""
        return CadenceRule(
            shortest_ms=self.trigger_interval,
            longest_ms=self.calm_interval,
            skew_duration_ms=self.skew.duration_ms,
        )


def is_local(settings: Mapping[str, str]) -> bool:
    """Whether a session with these settings of Spark's runs on this machine alone."""
    return re.fullmatch(r"local(\[.*\])?", settings.get("spark.master", "local")) is not None


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process, and Spark's JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ

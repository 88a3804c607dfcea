"""`levelwind assess`: samples over some time, and the page that they give."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from levelwind.daemon.assessment.assessment import assess
from levelwind.daemon.assessment.cluster_reader import ClusterReader
from levelwind.daemon.assessment.log_sizes import read_log_sizes, record_sizes
from levelwind.daemon.assessment.member_details import read_details
from levelwind.daemon.assessment.observed_groups import REBALANCING, ClusterObservation
from levelwind.daemon.config.group_patterns import fits
from levelwind.daemon.errors import ConfigurationError, NotFoundError
from levelwind.daemon.wall_clock import now_ms
from levelwind.daemon.wire.client_security import client_security

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from levelwind.daemon.assessment.assessment import Assessment
    from levelwind.daemon.assessment.member_details import Details
    from levelwind.daemon.assessment.observed_groups import ClusterSample
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.shutdown import StopEvent

FIRST_PAUSE_SECONDS = 10.0
"""Time between the first two samples, which the first page rests on."""
STEP_SECONDS = 5.0
"""Least time between two later samples: consumers commit every 5 s by default."""
LATER_SAMPLES = 5
"""The most samples after the first two, in equal steps until the end."""


def sample_times(seconds: float) -> list[float]:
    """Seconds from the first sample to each of the others.

    Args:
        seconds: length of the observation; 0: one sample is enough.
    """
    if seconds <= 0:
        return []
    if seconds < FIRST_PAUSE_SECONDS + STEP_SECONDS:
        return [seconds]
    left = seconds - FIRST_PAUSE_SECONDS
    count = min(LATER_SAMPLES, int(left / STEP_SECONDS))
    return [FIRST_PAUSE_SECONDS + left * number / count for number in range(count + 1)]


def observe(
    settings: Settings,
    patterns: Sequence[str],
    seconds: float,
    stop: StopEvent,
    *,
    on_progress: Callable[[str], None] = lambda _: None,
    on_first: Callable[[Assessment], None] | None = None,
) -> Assessment:
    """Observe the cluster, and assess it by all samples.

    A stop ends the observation, and what was seen until then is assessed.

    Args:
        settings: the settings, which name the cluster.
        patterns: patterns of the groups; empty: all but levelwind's own.
        seconds: length of the observation; 0: one sample.
        stop: ends the observation when set.
        on_progress: called with what is done now.
        on_first: called with the assessment by two samples if more are to come.

    Raises:
        ClusterUnavailableError: the cluster does not answer.
        NotFoundError: no group fits a pattern.
    """
    observing = _Observing(settings, stop)
    with closing(observing.reader):
        on_progress("listing the groups")
        names = _chosen(observing.reader.group_names(), patterns, settings.prefix)
        if patterns and not names:
            raise NotFoundError(f"no group fits {', '.join(patterns)}")
        times = sample_times(seconds)
        started = time.monotonic()
        observing.sample(names)
        for number, due in enumerate(times):
            left = started + due - time.monotonic()
            if left < 0 and due != times[-1] and number > 0:
                continue  # the samples of many groups take their time
            on_progress(f"sample {number + 2} of {len(times) + 1} in {max(left, 0):.0f} s")
            if stop.wait(max(left, 0.0)):
                break
            observing.sample(names)
            if number == 0 and len(times) > 1 and on_first is not None:
                on_first(observing.assessment(names))
        return observing.assessment(names)


def _chosen(names: Sequence[str], patterns: Sequence[str], prefix: str) -> list[str]:
    if not patterns:
        return [name for name in names if not name.startswith(prefix)]
    return [name for name in names if any(fits(pattern, name) for pattern in patterns)]


class _Observing:
    """Samples so far, and what of the cluster is asked for once."""

    def __init__(self, settings: Settings, stop: StopEvent) -> None:
        self._settings = settings
        self._timeout = settings.topic.timeout
        self.reader = ClusterReader(
            settings.client(),
            self._timeout,
            end_kind=settings.pipeline.end_kind,
            pause=stop.wait,
        )
        self._samples: list[ClusterSample] = []
        self._details: Details = {}
        self._details_unknown: str | None = None
        self._retention: int | None = None
        self._record_bytes: Mapping[str, float] = {}

    def sample(self, names: Sequence[str]) -> None:
        """Take one sample; ask for the subscriptions of members that were not seen before."""
        sample = self.reader.sample(names)
        coordinators = {
            name: reading.group.coordinator
            for name, reading in sample.groups.items()
            if reading.group is not None
            and reading.group.coordinator is not None
            and reading.group.state != REBALANCING  # then subscriptions are not told
            if any((name, member.id) not in self._details for member in reading.group.members)
        }
        found, reason = read_details(self._settings.client(), coordinators, self._timeout)
        self._details.update(found)
        self._details_unknown = reason
        if not self._samples:
            self._retention = self.reader.retention_minutes()
            sizes = read_log_sizes(
                self._settings.client(), self.reader.led_partitions(), self._timeout
            )
            self._record_bytes = record_sizes(sizes, self.reader.begins, sample.ends)
        self._samples.append(sample)

    def assessment(self, names: Sequence[str]) -> Assessment:
        """The assessment of what was seen so far."""
        observation = ClusterObservation(
            at_ms=now_ms(),
            layout=self.reader.layout,
            samples=tuple(sample.with_details(self._details) for sample in self._samples),
            begins=self.reader.begins,
            record_bytes=self._record_bytes,
            retention_minutes=self._retention,
            old=self._old_offsets(),
            lacks=self.reader.lacks,
            failures=self.reader.failures,
            details_unknown=self._details_unknown,
        )
        return assess(
            observation,
            names,
            cluster=self._settings.bootstrap,
            planning_of=self._settings.planning_of,
            proxy_refuses=self._proxy_refuses(),
        )

    def _old_offsets(self) -> dict[tuple[str, int], int]:
        """What groups without members have committed, by the time of half the retention."""
        if self._retention is None:
            return {}
        committed = {
            partition
            for reading in self._samples[-1].groups.values()
            if reading.group is not None and not reading.group.members
            for partition in reading.commits or ()
        }
        return self.reader.offsets_since(committed, now_ms() - self._retention * 30_000)

    def _proxy_refuses(self) -> str | None:
        try:
            client_security(self._settings.client())
        except ConfigurationError as error:
            return str(error)
        return None

"""Conditions that freeze planning for all groups, by the vital signs of the daemon's inputs. Pure.

Each watch is a value that takes in what was observed; `frozen_reasons` says what follows at a
moment. Times are boot seconds unless they say otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from levelwind.daemon.control.freeze.freeze_reason import FreezeReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.records import PipelineRecord
    from levelwind.daemon.control.settings import ControlSettings

QUIET_RECORDS = 8
"""Records of the pipeline without any input after which an old share says nothing any more."""

LEAST_REJECTED = 4
"""Rejected records of one interval below which nothing is concluded from their share."""


class ClockWatch(Struct, frozen=True, kw_only=True):
    """Watch of the wall clock beside the boot clock, which no setting of the time moves."""

    now: float | None = None
    """Boot seconds of the last look."""
    at: int = 0
    """Wall clock at the last look, in milliseconds since the epoch."""
    jumped_at: float | None = None
    """Boot seconds of the last jump."""
    jump: float = 0.0
    """Seconds by which the wall clock went ahead (or back) at the last jump."""

    def looked(self, now: float, at: int, least: float) -> ClockWatch:
        """Return the watch after a look at both clocks; `least`: the seconds of a jump."""
        ahead = 0.0 if self.now is None else (at - self.at) / 1000 - (now - self.now)
        if abs(ahead) < least:
            return replace(self, now=now, at=at)
        return ClockWatch(now=now, at=at, jumped_at=now, jump=ahead)


class InputWatch(Struct, frozen=True, kw_only=True):
    """Watch of the share of its input that the pipeline rejects, by its own records."""

    instance: str | None = None
    """The start of the pipeline that the totals are of."""
    rows: int = 0
    rejected: int = 0
    """Totals of the last record."""
    share: float = 0.0
    """Share of the input that was rejected between the last two records that say anything."""
    quiet: int = 0
    """Records in a row without input."""

    def read(self, record: PipelineRecord) -> InputWatch:
        """Return the watch after a record of the pipeline."""
        rejected = sum(record.rejected.values())
        known = record.instance == self.instance
        more_rows = record.rows - (self.rows if known else 0)
        more_rejected = rejected - (self.rejected if known else 0)
        share, quiet = self.share, self.quiet + 1
        if more_rows > 0:
            share = more_rejected / more_rows if more_rejected >= LEAST_REJECTED else 0.0
            quiet = 0
        return InputWatch(
            instance=record.instance,
            rows=record.rows,
            rejected=rejected,
            share=0.0 if quiet >= QUIET_RECORDS else share,
            quiet=quiet,
        )


class Vitals(Struct, frozen=True, kw_only=True):
    """What the daemon knows of its inputs while it leads."""

    clock: ClockWatch = field(default_factory=ClockWatch)
    layout_at: float
    """When the cluster last answered for its layout; at first the begin of the term."""
    brokers: int = 0
    """Brokers that hold partitions."""
    silent_brokers: int = 0
    """Those of them that are offline, or answered for none of their partitions."""
    input: InputWatch = field(default_factory=InputWatch)
    lag_at: int | None = None
    """Time of the newest sample of lag of any group, in milliseconds since the epoch; None while no
    group has lag."""


def frozen_reasons(
    vitals: Vitals, settings: ControlSettings, now: float, at: int
) -> Mapping[FreezeReason, str]:
    """Return the reasons to freeze planning for all groups, each with a text for people.

    Args:
        vitals: what is known.
        settings: the limits.
        now: boot seconds.
        at: the wall clock, in milliseconds since the epoch.
    """
    limits = settings.freeze
    reasons: dict[FreezeReason, str] = {}
    silent = now - vitals.layout_at
    if silent >= limits.metadata_max_age:
        limit = f"{limits.metadata_max_age:g} s"
        reasons[FreezeReason.METADATA] = f"no layout of the cluster for more than {limit}"
    jumped_at = vitals.clock.jumped_at
    if jumped_at is not None and now - jumped_at < limits.clock_rest:
        direction = "ahead" if vitals.clock.jump > 0 else "back"
        reasons[FreezeReason.CLOCK] = (
            f"the wall clock jumped {abs(vitals.clock.jump):.1f} s {direction}"
        )
    if 2 * vitals.silent_brokers > vitals.brokers:
        reasons[FreezeReason.BROKERS] = (
            f"{vitals.silent_brokers} of {vitals.brokers} brokers do not answer"
        )
    if vitals.input.share > limits.rejected_share:
        reasons[FreezeReason.REJECTS] = (
            f"the pipeline rejects {vitals.input.share:.0%} of its input"
        )
    if vitals.lag_at is not None and at - vitals.lag_at > settings.lag_max_age * 1000:
        reasons[FreezeReason.LAG] = f"no lag newer than {settings.lag_max_age:g} s"
    return reasons

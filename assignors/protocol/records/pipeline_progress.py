"""Record of the pipeline's own state: its progress and its health, for daemons elsewhere."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from levelwind.assignors.protocol.json_fields import LATEST_MS
from levelwind.assignors.protocol.records.member import LAST_EPOCH
from levelwind.assignors.protocol.records.pipeline import short_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key

PipelineState: TypeAlias = Literal["starting", "catching_up", "running", "ended"]
"""State of a pipeline: no batch was done yet; it is behind its input; it keeps pace; its process
ends, for the reason in `error`."""
STATES: tuple[PipelineState, ...] = ("starting", "catching_up", "running", "ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRecord:
    """The progress of one start of the pipeline; totals count from that start."""

    KIND: ClassVar = "pipeline"
    V: ClassVar = 1
    KEY: ClassVar[Key] = ("pipeline",)

    at: int
    """When the record was written, in milliseconds since the epoch."""
    epoch: int
    """A number that each start takes above all it finds: of two pipelines the younger has the
    higher one."""
    instance: str
    """Name of this start, which no other shares."""
    daemon: str | None = None
    """The daemon whose child the pipeline is, and ends with; None for an application of its own."""
    started_at: int
    """When the pipeline started, in milliseconds since the epoch."""
    interval_ms: int
    """Longest time between two records while the pipeline is alive, in milliseconds."""
    state: PipelineState
    error: str | None
    """Why the pipeline ends; None while it goes on."""
    rebuilt: bool
    """Whether this start set a checkpoint aside."""
    batch: int | None
    """Number of the last batch in the checkpoint; None before the first, and so for all figures of
    a batch."""
    batches: int
    """Batches done."""
    batch_ms: int | None
    """Duration of the last batch, in milliseconds."""
    delay_ms: int | None
    """Age of the newest record at the end of the last batch that read any, in milliseconds."""
    newest: int | None
    """Time of the newest record that was read, in milliseconds since the epoch."""
    behind: int | None
    """Offsets of the input that the last batch left unread; None where it is unknown."""
    caught_up: float | None
    """Share of the backlog that has been read, from 0 to 1; None while it is unknown."""
    rows: int
    """Kafka records read."""
    state_rows: int | None
    """Keys in the query's state stores after the last batch."""
    state_bytes: int | None
    """Memory of the query's state stores after the last batch."""
    phases: Mapping[str, int]
    """Milliseconds that batches spent, by Spark's phase."""
    rejected: Mapping[str, int]
    """Kafka records that could not be read, by reason."""
    skipped: Mapping[str, int]
    """Kafka records without information about lag, by kind."""

    @property
    def key(self) -> Key:
        return self.KEY

    @property
    def generation(self) -> tuple[int, str]:
        """Order of starts: the younger of two pipelines has the greater one."""
        return (self.epoch, self.instance)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "epoch": self.epoch,
            "instance": self.instance,
            **({} if self.daemon is None else {"daemon": self.daemon}),
            "started_at": self.started_at,
            "interval_ms": self.interval_ms,
            "state": self.state,
            "error": self.error,
            "rebuilt": self.rebuilt,
            "batch": self.batch,
            "batches": self.batches,
            "batch_ms": self.batch_ms,
            "delay_ms": self.delay_ms,
            "newest": self.newest,
            "behind": self.behind,
            "caught_up": short_number(self.caught_up),
            "rows": self.rows,
            "state_rows": self.state_rows,
            "state_bytes": self.state_bytes,
            "phases": dict(self.phases),
            "rejected": dict(self.rejected),
            "skipped": dict(self.skipped),
        }

    @classmethod
    def read(cls, _key: Key, fields: Fields) -> PipelineRecord:
        caught_up = fields.optional_number("caught_up")
        return cls(
            at=fields.integer("at", high=LATEST_MS),
            epoch=fields.integer("epoch", high=LAST_EPOCH),
            instance=fields.text("instance"),
            daemon=fields.optional_missing_text("daemon"),
            started_at=fields.integer("started_at", high=LATEST_MS),
            interval_ms=fields.integer("interval_ms", low=1),
            state=fields.one_of("state", STATES),
            error=fields.optional_text("error", empty=True),
            rebuilt=fields.flag("rebuilt"),
            batch=fields.optional_integer("batch"),
            batches=fields.integer("batches"),
            batch_ms=fields.optional_integer("batch_ms"),
            delay_ms=fields.optional_integer("delay_ms"),
            newest=fields.optional_integer("newest", high=LATEST_MS),
            behind=fields.optional_integer("behind"),
            caught_up=None if caught_up is None else fields.number("caught_up", low=0.0, high=1.0),
            rows=fields.integer("rows"),
            state_rows=fields.optional_integer("state_rows"),
            state_bytes=fields.optional_integer("state_bytes"),
            phases=fields.counts("phases"),
            rejected=fields.counts("rejected"),
            skipped=fields.counts("skipped"),
        )

"""Record of the pipeline's own state: its progress and its health, for daemons elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from levelwind.assignors.protocol.canonical_json import MAX_INT64
from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Epoch, Key, Name, Ratio, Time, Whole

PipelineState: TypeAlias = Literal["starting", "catching_up", "running", "ended"]
"""State of a pipeline: no batch was done yet; it is behind its input; it keeps pace; its process
ends, for the reason in `error`."""


class PipelineRecord(Declared, frozen=True, kw_only=True):
    """The progress of one start of the pipeline; totals count from that start."""

    KIND: ClassVar = "pipeline"
    KEY: ClassVar[Key] = (KIND,)

    at: Time
    """When the record was written, in milliseconds since the epoch."""
    epoch: Epoch
    """A number that each start takes above all it finds.

    The record of a higher epoch, or of the same epoch and the greater `instance`, ends an older
    pipeline of the same prefix.
    """
    instance: Name
    """Name of this start, which no other shares."""
    daemon: Name | None = None
    """The daemon whose child the pipeline is, and ends with; None for an application of its own."""
    started_at: Time
    """When the pipeline started, in milliseconds since the epoch."""
    interval_ms: Annotated[int, Meta(ge=1, le=MAX_INT64)]
    """Longest time between two records while the pipeline lives, in milliseconds; after three of
    them a daemon that runs none says so."""
    state: PipelineState
    """Whether no batch was done yet (`starting`), the pipeline is behind its input, it keeps pace,
    or its process ends."""
    error: str | None
    """Why the pipeline ends; None while it goes on."""
    rebuilt: bool
    """Whether this start set a checkpoint aside."""
    batch: Whole | None
    """Number of the last batch in the checkpoint; None before the first, and so for all figures of
    a batch."""
    batches: Whole
    """Batches done."""
    batch_ms: Whole | None
    """Duration of the last batch, in milliseconds."""
    delay_ms: Whole | None
    """Age of the newest record at the end of the last batch that read any, in milliseconds."""
    newest: Time | None
    """Time of the newest record that was read, in milliseconds since the epoch."""
    behind: Whole | None
    """Offsets of the input that the last batch left unread; None where it is unknown."""
    caught_up: Ratio | None
    """Share of the backlog that has been read, 1 where the query keeps pace; None while it is
    unknown."""
    rows: Whole
    """Kafka records read."""
    state_rows: Whole | None
    """Keys in the query's state stores after the last batch."""
    state_bytes: Whole | None
    """Memory of the query's state stores after the last batch."""
    phases: Mapping[str, Whole]
    """Milliseconds that batches spent, by Spark's phase."""
    rejected: Mapping[str, Whole]
    """Kafka records that could not be read, by reason."""
    skipped: Mapping[str, Whole]
    """Kafka records without information about lag, by kind."""

    @property
    def generation(self) -> tuple[int, str]:
        """Order of starts: the younger of two pipelines has the greater one."""
        return (self.epoch, self.instance)

"""The newest record of a kind in one of levelwind's topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from levelwind.daemon.kafka.topic_reader import read_to_end

if TYPE_CHECKING:
    from levelwind.daemon.config.settings import Settings

Record = TypeVar("Record")


def newest_record(settings: Settings, topic: str, kind: type[Record]) -> Record | None:
    """Read a topic, as `lag` or `triggers`, to its end; None where it has no such record."""
    found = None
    for read in read_to_end(settings.client(), settings.topics, [topic], timeout=30):
        if isinstance(read.record, kind):
            found = read.record
    return found

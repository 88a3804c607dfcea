"""Reference from a record that was cut to the shards that hold the rest of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelwind.assignors.protocol.json_fields import Fields

MOST_SHARDS = 10_000
"""More shards than any record needs: a reader collects no more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Shards of a record that is too large for one message."""

    count: int
    """Number of shards, at least 1; they are numbered from 0."""
    digest: str
    """Hash of what the shards hold; each of them repeats it."""

    def value(self) -> dict[str, object]:
        """The fields of the reference."""
        return {"count": self.count, "digest": self.digest}

    @classmethod
    def read(cls, fields: Fields) -> Cut:
        """The reference in `fields`; raises `WireError` if it is malformed."""
        return cls(
            count=fields.integer("count", low=1, high=MOST_SHARDS), digest=fields.text("digest")
        )

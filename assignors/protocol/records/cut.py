"""Reference from a record that was cut to the shards that hold the rest of it.

Records of levelwind.assignments are cut by their contents. A record that the pipeline writes is cut
as text: its shards hold the JSON of the value, and a `CutRecord` takes its place.
"""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key

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


def text_digest(value: bytes) -> str:
    """The digest of a record's value, by which its shards as text belong together."""
    return hashlib.sha256(value).hexdigest()


def shard_keys(key: Key, numbers: Iterable[int]) -> list[Key]:
    """The keys of shards of the record with a key, by their numbers."""
    return [(f"{key[0]}s", *key[1:], number) for number in numbers]


def head_key(shard: Key) -> Key:
    """The key of the record that the shard with a key belongs to."""
    return (str(shard[0]).removesuffix("s"), *shard[1:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShard:
    """A piece of the JSON of a record's value."""

    KIND: ClassVar = "text_shard"
    V: ClassVar = 1

    head_key: Key
    """Key of the record that was cut."""
    shard: int
    """Number of the shard, from 0."""
    digest: str
    """The digest that the record's head names."""
    text: str
    """The piece. Those of all shards, joined in the order of their numbers, are the value."""

    @property
    def key(self) -> Key:
        (key,) = shard_keys(self.head_key, (self.shard,))
        return key

    def value(self) -> dict[str, object]:
        return {"v": self.V, "digest": self.digest, "text": self.text}

    @classmethod
    def read(cls, key: Key, fields: Fields) -> TextShard:
        return cls(
            head_key=head_key(key),
            shard=int(key[-1]),
            digest=fields.text("digest"),
            text=fields.text("text"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRecord:
    """The head of a record that was cut as text, under the record's own key."""

    KIND: ClassVar = "cut_record"
    V: ClassVar = 100
    """Above the version of every record that is cut: a reader that knows no such head takes it for
    a record of a later release, and keeps what it had."""
    FIELDS: ClassVar = ("bytes", "shards")
    """Names of its fields, of which no record that is cut has any."""

    key: Key
    bytes: int
    """Size of the record's value."""
    shards: Cut | None
    """The shards that hold the value. None: its topic takes messages that are too small for it."""

    @property
    def group(self) -> str:
        """The group that the record is about."""
        return str(self.key[1])

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "bytes": self.bytes,
            "shards": None if self.shards is None else self.shards.value(),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> CutRecord:
        shards = fields.optional_section("shards")
        return cls(
            key=key,
            bytes=fields.integer("bytes"),
            shards=None if shards is None else Cut.read(shards),
        )

"""Reference from a record that was cut to the shards that hold the rest of it.

Records of levelwind.assignments are cut by their contents. A record that the pipeline writes is cut
as text: its shards hold the JSON of the value, and a `CutRecord` takes its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta, Struct

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Key, Name, Whole

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_SHARDS = 10_000
"""More shards than any record needs: a reader collects no more of them."""


class Cut(Struct, frozen=True, kw_only=True):
    """Shards of a record that is too large for one message."""

    count: Annotated[int, Meta(ge=1, le=MOST_SHARDS)]
    """Number of shards, at least 1; they are numbered from 0."""
    digest: Name
    """Hash of what the shards hold; each of them repeats it."""


def text_digest(value: bytes) -> str:
    """The digest of a record's value, by which its shards as text belong together."""
    return hashlib.sha256(value).hexdigest()


def shard_keys(key: Key, numbers: Iterable[int]) -> list[Key]:
    """The keys of shards of the record with a key, by their numbers."""
    return [(f"{key[0]}s", *key[1:], number) for number in numbers]


def head_key(shard: Key) -> Key:
    """The key of the record that the shard with a key belongs to."""
    return (str(shard[0]).removesuffix("s"), *shard[1:-1])


class TextShard(Declared, frozen=True, kw_only=True):
    """A piece of the JSON of a record's value."""

    KIND: ClassVar = "text_shard"
    WORD: ClassVar = None
    KEY_FIELDS: ClassVar = ("head_key", "shard")

    head_key: Key
    """Key of the record that was cut."""
    shard: Whole
    """Number of the shard, from 0."""
    digest: Name
    """The digest that the record's head names."""
    text: Name
    """The piece. Those of all shards, joined in the order of their numbers, are the value."""

    @property
    def key(self) -> Key:
        """Key of the shard."""
        (key,) = shard_keys(self.head_key, (self.shard,))
        return key

    @classmethod
    def of_key(cls, key: Key) -> Mapping[str, object]:
        """The head's key and the shard's number."""
        return {"head_key": head_key(key), "shard": key[-1]}


class CutRecord(Declared, frozen=True, kw_only=True):
    """The head of a record that was cut as text, under the record's own key."""

    KIND: ClassVar = "cut_record"
    V: ClassVar = 100
    """Above the version of every record that is cut: a reader that knows no such head takes it for
    a record of a later release, and keeps what it had."""
    WORD: ClassVar = None
    KEY_FIELDS: ClassVar = ("head_key",)

    head_key: Key
    """Key of the record that was cut, and of its head."""
    bytes: Whole
    """Size of the record's value."""
    shards: Cut | None
    """The shards that hold the value. None: its topic takes messages that are too small for it."""

    @property
    def key(self) -> Key:
        """Key of the record."""
        return self.head_key

    @classmethod
    def of_key(cls, key: Key) -> Mapping[str, object]:
        """The key as a whole."""
        return {"head_key": key}

    @property
    def group(self) -> str:
        """The group that the record is about."""
        return str(self.key[1])

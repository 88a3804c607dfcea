"""Where the query keeps its offsets and state, and whether what is there is ours and whole.

A marker beside the checkpoint tells its shape: the versions of our state, the cluster, and what is read. A checkpoint of
another shape, without a marker, damaged, or condemned by a query that died of it, is set aside under a name that says
when, and the state is built anew from the compacted topics: it is wrong to guess at foreign state, and wrong to delete
it. Nothing is fsynced by Spark, so a machine that loses power may leave files that end early.

State that is built anew, or the first, does not know what was published before it. Up to where that stands is kept beside
the checkpoint from the moment it is made until somebody has had it looked through: `unvouched`.

Looked at before the start are the logs of offsets and commits, and each file that has Hadoop's checksums beside it: Spark
reads its logs without them, and a digit that changed there would silently skip records. Cost: the files are read once.
What is wrong in another way kills the query, and that condemns the checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from streaming.errors import PipelineError
from streaming.group import codec as group_codec
from streaming.messages import packing
from streaming.topic import state as topic_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STATE_VERSION = 4
"""Counts up whenever rows or operators change in a way that an older checkpoint cannot serve; the states' own
versions count beside it."""
MARKER = "shape.json"
QUERY = "query"
OFFSETS_LINES = 2
"""After the version: the settings of a batch, and the offsets of our one source."""
COMMITS_LINES = 1
UNVERIFIED = "unverified.json"
QUARANTINED = "quarantined.json"
FAILED_STARTS = "failed_starts.json"
MAX_FAILED_STARTS = 2
"""So often in a row a query may die for an unknown reason before its first batch; then its checkpoint is to blame."""


STATE = ".".join(
    map(str, (STATE_VERSION, packing.VERSION, topic_state.VERSION, group_codec.VERSION))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a checkpoint must agree on with the query that continues it."""

    cluster_id: str
    prefix: str
    state: str = STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A checkpoint that could not be used: where it went, and why."""

    moved_to: Path
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A directory that Spark can go on from."""

    query: Path
    set_aside: SetAside | None
    """The former one, if it could not be used."""


def prepare(
    directory: Path, shape: Shape, *, now: str, written: Mapping[str, int] | None = None
) -> Checkpoint:
    """The checkpoint of this shape in a directory.

    Args:
        directory: where it is.
        shape: what it must agree on.
        now: names what has to be set aside.
        written: by "topic/partition", where what the query publishes ends so far, if anybody wants to look it through.

    Raises:
        PipelineError: the directory cannot be written.
    """
    try:
        return _prepare(directory, shape, now, written or {})
    except OSError as error:
        raise PipelineError(
            f"the checkpoint in {directory} cannot be written: {error.strerror}"
        ) from error


def _prepare(directory: Path, shape: Shape, now: str, written: Mapping[str, int]) -> Checkpoint:
    query, marker, quarantined = directory / QUERY, directory / MARKER, directory / QUARANTINED
    directory.mkdir(parents=True, exist_ok=True)
    aside = None
    if query.exists():
        reason = _unusable(query, _read(marker), shape, _read(quarantined))
        if reason is None:
            return Checkpoint(query=query, set_aside=None)
        moved_to = _free(directory / f"{QUERY}.set-aside-{now}")
        query.rename(moved_to)
        if marker.exists():
            marker.rename(moved_to.with_name(f"{moved_to.name}.{MARKER}"))
        aside = SetAside(moved_to=moved_to, reason=reason)
    # A verdict is on one checkpoint; left behind, it would hit the next.
    quarantined.unlink(missing_ok=True)
    clear_failures(directory)
    _write(directory / UNVERIFIED, dict(written))
    _write(marker, asdict(shape))
    query.mkdir()
    return Checkpoint(query=query, set_aside=aside)


def _unusable(query: Path, marker: Any, shape: Shape, quarantined: Any) -> str | None:
    if quarantined is not None:
        return (
            str(quarantined.get("reason", "quarantined"))
            if isinstance(quarantined, dict)
            else "quarantined"
        )
    if not isinstance(marker, dict):
        return "it does not say whose it is"
    for name, mine in asdict(shape).items():
        if marker.get(name) != mine:
            return f"its {_WORDS[name]} is {marker.get(name)!r}, not {mine!r}"
    return damage(query)


_WORDS = {"cluster_id": "cluster", "prefix": "prefix", "state": "state's version"}


def quarantine(directory: Path, reason: str) -> None:
    """Have the checkpoint set aside at the next start: a query has died of it."""
    with contextlib.suppress(OSError):  # on a disk that is full; the next query dies of it again
        _write(directory / QUARANTINED, {"reason": reason})


def record_failed_start(directory: Path, reason: str) -> bool:
    """Note that a query died before its first batch and nobody knows why; whether that condemned the checkpoint."""
    file = directory / FAILED_STARTS
    known = _read(file)
    count = 1 + (
        known["count"] if isinstance(known, dict) and isinstance(known.get("count"), int) else 0
    )
    if count >= MAX_FAILED_STARTS:
        quarantine(directory, f"{count} queries in a row died before their first batch: {reason}")
        return True
    with contextlib.suppress(OSError):
        _write(file, {"count": count, "reason": reason})
    return False


def clear_failures(directory: Path) -> None:
    """Forget the strikes: a batch was done."""
    (directory / FAILED_STARTS).unlink(missing_ok=True)


def unverified(directory: Path) -> Mapping[str, int] | None:
    """By "topic/partition", up to where former states have published what this one may not say; None: it is looked through."""
    said = _read(directory / UNVERIFIED)
    return said if said is None or isinstance(said, dict) else {}


def mark_verified(directory: Path) -> None:
    """Forget what former states have published: the query has been asked about it."""
    (directory / UNVERIFIED).unlink(missing_ok=True)


# What Spark does not see.


def damage(query: Path) -> str | None:
    """What is wrong with a checkpoint's files, None if nothing is seen to be."""
    offsets, commits = _numbers(query / "offsets"), _numbers(query / "commits")
    if commits and (not offsets or offsets[-1] < commits[-1]):
        return f"batch {commits[-1]} was done, but its offsets are gone"
    if offsets and offsets[-1] > (commits[-1] if commits else -1) + 1:
        return f"batch {offsets[-1]} was planned, but the one before it was never done"
    for directory, numbers, lines in (
        ("offsets", offsets, OFFSETS_LINES),
        ("commits", commits, COMMITS_LINES),
    ):
        for number in numbers:
            if not _is_log((query / directory / str(number)).read_bytes(), lines):
                return f"{directory}/{number} is cut or garbled"
    # State is looked at too: RocksDB finds out, but only when it comes to the block.
    for sums in query.rglob(".*.crc"):
        file = sums.with_name(sums.name[1:].removesuffix(".crc"))
        if file.exists() and not _agrees(file.read_bytes(), sums.read_bytes()):
            return f"{file.relative_to(query)} is not what its checksum says"
    return None


def _numbers(directory: Path) -> list[int]:
    return sorted(int(file.name) for file in directory.glob("[0-9]*") if file.name.isdigit())


def _is_log(content: bytes, count: int) -> bool:
    """A version, then so many lines of JSON."""
    version, *lines = content.split(b"\n")
    return version.startswith(b"v") and len(lines) == count and all(map(_is_json, lines))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _agrees(content: bytes, sums: bytes) -> bool:
    """Whether Hadoop's checksums are a file's: "crc", a zero byte, a size, then the CRC of each so many bytes."""
    each = int.from_bytes(sums[4:8], "big")
    if sums[:4] != b"crc\0" or each <= 0:
        return False
    parts = (content[start : start + each] for start in range(0, len(content), each))
    return sums[8:] == b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)


def _free(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _read(marker: Path) -> Any:
    try:
        return json.loads(marker.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        return "unreadable"


def _write(marker: Path, value: Any) -> None:
    draft = marker.with_name(marker.name + ".new")
    with draft.open("w") as file:
        file.write(json.dumps(value, sort_keys=True))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(marker)

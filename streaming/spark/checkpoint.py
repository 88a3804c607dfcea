"""The query's checkpoint: offsets and state, used only if they are this pipeline's and undamaged.

A marker beside the checkpoint holds its shape: the cluster, the prefix of the topics, the versions
of the state, and the number of buckets that its groups are in. A checkpoint of another shape,
without a marker, damaged, or quarantined because a query died of it, is set aside under a name with
the time, and the state is rebuilt from the compacted topics: it is wrong to guess at foreign state,
and wrong to delete it.

A rebuilt state does not know what was published before it. The offsets at which those records end
are kept beside the checkpoint until they have been verified (`unverified`).

Checked before the start are the logs of offsets and commits, and each file with Hadoop's checksums
beside it: Spark reads its logs without them, and a changed digit would silently skip records; and
Spark fsyncs nothing, so a power loss may cut files short. Cost: each file is read once. Other
damage kills the query, which quarantines the checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from streaming.bucket import state as bucket_state
from streaming.errors import PipelineError
from streaming.group import codec as group_codec
from streaming.messages import packing
from streaming.messages.rows import GROUP_BUCKETS
from streaming.topic import state as topic_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STATE_VERSION = 6
"""Counts up whenever rows or operators change so that an older checkpoint cannot be continued. The
versions of the packing and of the buckets', topics' and groups' states count beside it."""
MARKER = "shape.json"
QUERY = "query"
OFFSETS_LINES = 2
"""Lines after the version: the settings of a batch, and the offsets of the one source."""
COMMITS_LINES = 1
"""Lines after the version."""
UNVERIFIED = "unverified.json"
QUARANTINED = "quarantined.json"
FAILED_STARTS = "failed_starts.json"
MAX_FAILED_STARTS = 2
"""Queries in a row that died for an unknown reason before their first batch: then the checkpoint is
taken to be the cause, and quarantined."""


STATE = ".".join(
    map(
        str,
        (
            STATE_VERSION,
            packing.VERSION,
            bucket_state.VERSION,
            topic_state.VERSION,
            group_codec.VERSION,
        ),
    )
)
"""The version of all that a checkpoint holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointShape:
    """Properties that a checkpoint must share with the query that continues it."""

    cluster_id: str
    prefix: str
    """Prefix of the names of levelwind's topics."""
    state: str = STATE
    group_buckets: int = GROUP_BUCKETS


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A checkpoint that could not be used."""

    moved_to: Path
    """Directory that it was renamed to; the caller may delete it."""
    reason: str
    """The reason why it could not be used, in an operator's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint that the query can start from."""

    query: Path
    """Directory for Spark; empty at a first start, and after a checkpoint was set aside."""
    set_aside: SetAside | None
    """The former checkpoint, if it could not be used."""


def prepare(
    directory: Path, shape: CheckpointShape, *, now: str, written: Mapping[str, int] | None = None
) -> Checkpoint:
    """Find or make the checkpoint of a shape in a directory.

    Args:
        directory: the pipeline's own directory; made if it does not exist.
        shape: the shape that a checkpoint must have to be continued.
        now: a time in words; part of the name of a checkpoint that is set aside.
        written: the end offsets of the topics that the query publishes to, by "topic/partition";
            kept for `unverified` where the state is new.

    Raises:
        PipelineError: the directory cannot be written.
    """
    try:
        return _prepare(directory, shape, now, written or {})
    except OSError as error:
        raise PipelineError(
            f"the checkpoint in {directory} cannot be written: {error.strerror}"
        ) from error


def _prepare(
    directory: Path, shape: CheckpointShape, now: str, written: Mapping[str, int]
) -> Checkpoint:
    query, marker, quarantined = directory / QUERY, directory / MARKER, directory / QUARANTINED
    directory.mkdir(parents=True, exist_ok=True)
    set_aside = None
    if query.exists():
        reason = _reason_unusable(query, _read(marker), shape, _read(quarantined))
        if reason is None:
            return Checkpoint(query=query, set_aside=None)
        moved_to = _unused_path(directory / f"{QUERY}.set-aside-{now}")
        query.rename(moved_to)
        if marker.exists():
            marker.rename(moved_to.with_name(f"{moved_to.name}.{MARKER}"))
        set_aside = SetAside(moved_to=moved_to, reason=reason)
    # These marks are about the former checkpoint; left behind, they would apply to the new one.
    quarantined.unlink(missing_ok=True)
    clear_failures(directory)
    _write(directory / UNVERIFIED, dict(written))
    _write(marker, asdict(shape))
    query.mkdir()
    return Checkpoint(query=query, set_aside=set_aside)


def _reason_unusable(
    query: Path, marker: Any, shape: CheckpointShape, quarantined: Any
) -> str | None:
    if quarantined is not None:
        return (
            str(quarantined.get("reason", "quarantined"))
            if isinstance(quarantined, dict)
            else "quarantined"
        )
    if not isinstance(marker, dict):
        return "it has no readable marker of its cluster and version"
    for name, expected in asdict(shape).items():
        if marker.get(name) != expected:
            return f"its {_SHAPE_LABELS[name]} is {marker.get(name)!r}, not {expected!r}"
    return find_damage(query)


_SHAPE_LABELS = {
    "cluster_id": "cluster",
    "prefix": "prefix",
    "state": "state's version",
    "group_buckets": "number of buckets",
}


def quarantine(directory: Path, reason: str) -> None:
    """Have the checkpoint set aside at the next start, because a query has died of it.

    On a full disk the mark is lost: the next query then dies of the checkpoint again.
    """
    with contextlib.suppress(OSError):
        _write(directory / QUARANTINED, {"reason": reason})


def record_failed_start(directory: Path, reason: str) -> bool:
    """Count a query that died for an unknown reason before its first batch.

    Returns:
        Whether the count has reached `MAX_FAILED_STARTS`, and so quarantined the checkpoint.
    """
    file = directory / FAILED_STARTS
    former = _read(file)
    former_count = former.get("count") if isinstance(former, dict) else None
    count = 1 + (former_count if isinstance(former_count, int) else 0)
    if count >= MAX_FAILED_STARTS:
        quarantine(directory, f"{count} queries in a row died before their first batch: {reason}")
        return True
    with contextlib.suppress(OSError):
        _write(file, {"count": count, "reason": reason})
    return False


def clear_failures(directory: Path) -> None:
    """Reset the count of failed starts, after a batch has been done."""
    (directory / FAILED_STARTS).unlink(missing_ok=True)


def unverified(directory: Path) -> Mapping[str, int] | None:
    """The ends of what earlier checkpoints published and this state may not confirm.

    Returns:
        End offsets by "topic/partition"; None once everything has been verified.
    """
    ends = _read(directory / UNVERIFIED)
    return ends if ends is None or isinstance(ends, dict) else {}


def mark_verified(directory: Path) -> None:
    """Note that the query was asked to verify all that earlier checkpoints published."""
    (directory / UNVERIFIED).unlink(missing_ok=True)


# Damage that Spark does not notice.


def find_damage(query: Path) -> str | None:
    """Describe the first damage found in a checkpoint's files; None: none was found."""
    offsets, commits = _batch_numbers(query / "offsets"), _batch_numbers(query / "commits")
    if commits and (not offsets or offsets[-1] < commits[-1]):
        return f"batch {commits[-1]} was done, but its offsets are gone"
    if offsets and offsets[-1] > (commits[-1] if commits else -1) + 1:
        return f"batch {offsets[-1]} was planned, but the one before it was never done"
    for directory, numbers, lines in (
        ("offsets", offsets, OFFSETS_LINES),
        ("commits", commits, COMMITS_LINES),
    ):
        for number in numbers:
            if not _is_log_file((query / directory / str(number)).read_bytes(), lines):
                return f"{directory}/{number} is cut or garbled"
    # State is checked as well: RocksDB notices damage only when it reads the block. A kill leaves
    # temporary files half written; Spark renames a file when it is whole and never reads the rest.
    for sums in query.rglob(".*.crc"):
        file = sums.with_name(sums.name[1:].removesuffix(".crc"))
        if file.suffix == ".tmp" or not file.exists():
            continue
        if not _matches_checksums(file.read_bytes(), sums.read_bytes()):
            return f"{file.relative_to(query)} does not match its checksum"
    return None


def _batch_numbers(directory: Path) -> list[int]:
    return sorted(int(file.name) for file in directory.glob("[0-9]*") if file.name.isdigit())


def _is_log_file(content: bytes, count: int) -> bool:
    """Whether a file is a version and `count` lines of JSON."""
    version, *lines = content.split(b"\n")
    return version.startswith(b"v") and len(lines) == count and all(map(_is_json, lines))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _matches_checksums(content: bytes, sums: bytes) -> bool:
    """Whether a file's content matches Hadoop's checksums.

    Their format: "crc", a zero byte, a chunk size (u32), then the CRC-32 of each chunk.
    """
    chunk_size = int.from_bytes(sums[4:8], "big")
    if sums[:4] != b"crc\0" or chunk_size <= 0:
        return False
    parts = (content[start : start + chunk_size] for start in range(0, len(content), chunk_size))
    return sums[8:] == b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)


def _unused_path(path: Path) -> Path:
    """A path itself, or with the first number after its name that no file has."""
    number, unused = 1, path
    while unused.exists():
        number += 1
        unused = path.with_name(f"{path.name}-{number}")
    return unused


def _read(file: Path) -> Any:
    """A JSON file's value; None if there is no file, "unreadable" if it is no JSON."""
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        return "unreadable"


def _write(file: Path, value: Any) -> None:
    """Replace a JSON file at once: after a power loss it holds either the old value or the new."""
    draft = file.with_name(file.name + ".new")
    with draft.open("w") as output:
        output.write(json.dumps(value, sort_keys=True))
        output.flush()
        os.fsync(output.fileno())
    draft.rename(file)

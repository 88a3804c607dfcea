"""The query's checkpoint: offsets and state, used only if they are this pipeline's and undamaged.

A marker beside the checkpoint holds its shape: the cluster, the prefix of the topics, the versions
of the state, and its parallelism. A checkpoint of another shape, without a marker, damaged,
quarantined because a query died of it, or with more unread than the topics keep tombstones for, is
set aside under a name with the time, and the state is rebuilt from the compacted topics: it is
wrong to guess at foreign state, and wrong to delete it.

A rebuilt state does not know what was published before it. The offsets at which those records end
are kept beside the checkpoint until they have been verified (`unverified`).

Checked before the start are the logs of offsets and commits, and each file with Hadoop's checksums
beside it that Spark may read: it reads its logs without them, and a changed digit would silently
skip records; and Spark fsyncs nothing, so a power loss may cut files short. Cost: each file is read
once. Other damage kills the query, which quarantines the checkpoint.

In another file system than this machine's nothing is renamed: the marker names the query's
directory, and a checkpoint is set aside by a marker that names a new one. There only the newest
entries of the logs are checked, since such a system has checksums of its own, and each file is a
request.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.streaming.bucket import state as bucket_state
from levelwind.streaming.errors import PipelineError
from levelwind.streaming.group import codec as group_codec
from levelwind.streaming.messages import packing
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles
from levelwind.streaming.spark.store.offsets_entry import all_ends, ends_in, planned_at
from levelwind.streaming.topic import state as topic_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from levelwind.streaming.spark.store.checkpoint_files import CheckpointFiles

STATE_VERSION = 9
"""Counts up whenever rows or operators change so that an older checkpoint cannot be continued. The
versions of the packing and of the buckets', topics' and groups' states count beside it."""
MARKER = "shape.json"
QUERY = "query"
BEGUN_FIELD = "begun"
"""Field of the marker: when the checkpoint was made, milliseconds since the epoch."""
QUERY_FIELD = "query"
"""Field of the marker: the name of the query's directory, where it is not `QUERY`."""
TOPICS_FIELD = "topics"
"""Field of the marker: the ids of topics, as `CheckpointShape.topics`."""
OFFSETS_LINES = 2
"""Lines after the version: the settings of a batch, and the offsets of the one source."""
COMMITS_LINES = 1
"""Lines after the version."""
UNVERIFIED = "unverified.json"
QUARANTINED = "quarantined.json"
FAILED_STARTS = "failed_starts.json"
BATCH_LIMIT = "batch_limit.json"
"""Holds `TombstoneLife.batch_limit` and the first batch that it holds for: the setting may be
raised in a backlog, and the start that raised it may die before its first batch."""
CHECKED_ENTRIES = 10
"""Entries of each log that are checked in another file system than this machine's."""
MAX_FAILED_STARTS = 4
"""Queries in a row that died for an unknown reason before their first batch: then the checkpoint is
taken to be the cause, and quarantined. Fewer than a trouble that passes may take, and yet so few
that the state is rebuilt before the daemon has restarted the pipeline as often as it may."""


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
    parallelism: int = 2
    """Number of partitions of the state, which a query keeps, and of buckets of groups."""
    commits: str = OFFSETS_TOPIC
    """Topic that commits are read from."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """By name, the ids of the topics that the state rests on, as far as they are known. Offsets of
    a topic that was deleted may all exist in one that was made again under its name."""


READ_UP_SHARE = 4
"""Divisor of the time of tombstones: that part of it remains for reading up what was written since,
as each tombstone must be there until it is read."""
LEAST_AWAY_MS = 3_600_000
"""Time after which no checkpoint is too old, however short tombstones live: compaction leaves out
what was written last, and a restart must not cost a rebuild."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneLife:
    """The time for which the compacted topics keep the ends of what they hold."""

    at: int
    """The present, milliseconds since the epoch."""
    ms: int
    """The shortest `delete.retention.ms` of the topics."""
    first: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By topic and partition, the offset of the first record since `since`. A partition without one
    is left out: what is unread there was written last, which compaction leaves in."""
    batch_limit: int = 0
    """Offsets that a batch of the query reads at most; 0: unknown."""

    @property
    def since(self) -> int:
        """The time, as `at`; a tombstone that was written before may be gone until it is read."""
        return self.at - max(self.ms - self.ms // READ_UP_SHARE, LEAST_AWAY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A checkpoint that could not be used."""

    moved_to: Path | str
    """Directory that holds it; the caller may delete it."""
    reason: str
    """The reason why it could not be used, in an operator's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint that the query can start from."""

    location: str
    """Directory for Spark, as it takes it; empty at a first start, and after a checkpoint was set
    aside."""
    name: str
    """Name of that directory in the pipeline's own."""
    query: Path | None
    """The path of that directory; None in another file system than this machine's."""
    set_aside: SetAside | None
    """The former checkpoint, if it could not be used."""


def prepare(
    files: CheckpointFiles,
    shape: CheckpointShape,
    *,
    now: str,
    written: Mapping[str, int] | None = None,
    life: TombstoneLife | None = None,
) -> Checkpoint:
    """Find or make the checkpoint of a shape.

    Args:
        files: the pipeline's own directory; made if it does not exist.
        shape: the shape that a checkpoint must have to be continued.
        now: a time in words; part of the name of a checkpoint that is set aside, or that is new.
        written: the end offsets of the topics that the query publishes to, by "topic/partition";
            kept for `unverified` where the state is new.
        life: the life of tombstones; None: they live for ever.

    Raises:
        PipelineError: the directory cannot be written.
    """
    with _as_pipeline_error(files):
        return _prepare(files, shape, now, written or {}, life)


def _prepare(
    files: CheckpointFiles,
    shape: CheckpointShape,
    now: str,
    written: Mapping[str, int],
    life: TombstoneLife | None,
) -> Checkpoint:
    marker = _read(files, MARKER)
    name = _name_in(marker)
    path = _path(files, name)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    exists = path.exists() if path is not None else marker is not None
    set_aside = None
    if exists:
        reason = _reason_unusable(files, name, marker, shape, life)
        if reason is None:
            if life is not None:
                _keep_batch_limit(files, name, life)
            if (known := {**_topics_in(marker), **shape.topics}) != _topics_in(marker):
                _write(files, MARKER, marker | {TOPICS_FIELD: known})
            return Checkpoint(location=files.location(name), name=name, query=path, set_aside=None)
        moved_to = _move_aside(path, now) if path is not None else files.location(name)
        set_aside = SetAside(moved_to=moved_to, reason=reason)
    if path is None:
        # Never a directory that another pipeline may still write to.
        name = f"{QUERY}-{now}"
    _write(files, UNVERIFIED, dict(written))
    begun = {} if life is None else {BEGUN_FIELD: life.at}
    named = {} if path is not None else {QUERY_FIELD: name}
    _write(files, MARKER, asdict(shape) | begun | named)
    # These marks are about the former checkpoint; left behind, they would apply to the new one.
    files.delete(QUARANTINED)
    files.delete(FAILED_STARTS)
    if life is not None:
        _write_batch_limit(files, life, since_batch=0)
    if path is not None:
        path.mkdir()
    return Checkpoint(location=files.location(name), name=name, query=path, set_aside=set_aside)


def _keep_batch_limit(files: CheckpointFiles, name: str, life: TombstoneLife) -> None:
    """Keep the limit of the batches that a continued checkpoint is to plan."""
    known = _batch_limit(files)
    if known is None:
        _write_batch_limit(files, life, since_batch=0)
    elif known[0] != life.batch_limit:
        planned = _batch_numbers(files, f"{name}/offsets")
        _write_batch_limit(files, life, since_batch=planned[-1] + 1 if planned else 0)


def _write_batch_limit(files: CheckpointFiles, life: TombstoneLife, since_batch: int) -> None:
    _write(files, BATCH_LIMIT, {"limit": life.batch_limit, "since_batch": since_batch})


def _batch_limit(files: CheckpointFiles) -> tuple[int, int] | None:
    """The limit that is known, and the first batch that it holds for; None: it is not known."""
    known = _read(files, BATCH_LIMIT)
    limit, since = (
        (known.get("limit"), known.get("since_batch")) if isinstance(known, dict) else (None, None)
    )
    return (limit, since) if isinstance(limit, int) and isinstance(since, int) else None


def kept_parallelism(
    files: CheckpointFiles, shape: CheckpointShape, life: TombstoneLife | None = None
) -> int | None:
    """The parallelism of the checkpoint that a query of a shape could continue with that.

    None: there is no such checkpoint. The arguments are those of `prepare`.

    Raises:
        PipelineError: the directory cannot be read.
    """
    with _as_pipeline_error(files):
        marker = _read(files, MARKER)
        parallelism = _parallelism_in(marker)
        if parallelism is None:
            return None
        given_up = _reason_given_up(files, _name_in(marker), marker, shape, life)
        return parallelism if given_up is None else None


def parallelism(files: CheckpointFiles) -> int | None:
    """The parallelism of the checkpoint that there is; None: it is not known."""
    return _parallelism_in(_read(files, MARKER))


def _parallelism_in(marker: Any) -> int | None:
    number = (
        marker.get("parallelism", _SHAPE_DEFAULTS["parallelism"]) if isinstance(marker, dict) else 0
    )
    return number if isinstance(number, int) and number > 0 else None


@contextlib.contextmanager
def _as_pipeline_error(files: CheckpointFiles) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PipelineError(
            f"the checkpoint in {files.location()} cannot be written: {error.strerror}"
        ) from error


def _name_in(marker: Any) -> str:
    """The name of the query's directory by the marker; the usual one where it says nothing."""
    name = marker.get(QUERY_FIELD) if isinstance(marker, dict) else None
    return name if isinstance(name, str) and name and "/" not in name else QUERY


def _topics_in(marker: Mapping[str, Any]) -> dict[str, str]:
    """The ids of topics by the marker; none where an older release wrote it."""
    topics = marker.get(TOPICS_FIELD)
    return topics if isinstance(topics, dict) else {}


def _path(files: CheckpointFiles, name: str) -> Path | None:
    return files.directory / name if isinstance(files, LocalFiles) else None


def _move_aside(query: Path, now: str) -> Path:
    """Rename a checkpoint and its marker; return the new path."""
    moved_to = _unused_path(query.with_name(f"{QUERY}.set-aside-{now}"))
    query.rename(moved_to)
    marker = query.with_name(MARKER)
    if marker.exists():
        marker.rename(moved_to.with_name(f"{moved_to.name}.{MARKER}"))
    return moved_to


def _reason_unusable(
    files: CheckpointFiles,
    name: str,
    marker: Any,
    shape: CheckpointShape,
    life: TombstoneLife | None,
) -> str | None:
    # The number of tasks is chosen anew for what is given up, and says nothing of why.
    reason = _reason_given_up(files, name, marker, shape, life)
    if reason is None:
        reason = _difference(marker, shape)
    if reason is not None:
        return reason
    # Last, as it reads the most files.
    path = _path(files, name)
    return find_log_damage(files, name) if path is None else find_damage(path)


def _reason_given_up(
    files: CheckpointFiles,
    name: str,
    marker: Any,
    shape: CheckpointShape,
    life: TombstoneLife | None,
) -> str | None:
    """Why a checkpoint is not continued whatever the parallelism of the query; None: it may be."""
    quarantined = _read(files, QUARANTINED)
    if quarantined is not None:
        return (
            str(quarantined.get("reason", "quarantined"))
            if isinstance(quarantined, dict)
            else "quarantined"
        )
    if not isinstance(marker, dict):
        return "it has no readable marker of its cluster and version"
    kept = replace(shape, parallelism=_parallelism_in(marker) or shape.parallelism)
    if difference := _difference(marker, kept):
        return difference
    return None if life is None else _reason_too_old(files, name, marker, life)


def _reason_too_old(
    files: CheckpointFiles, name: str, marker: Mapping[str, Any], life: TombstoneLife
) -> str | None:
    """Why a checkpoint may miss the end of what it holds; None: it misses nothing.

    Not the time of its newest batch counts, but what it has read: a batch of a backlog reads old
    records. The records' own times count, so that no clock of an earlier start does; one that is
    ahead now finds no record since then, and costs nothing.

    Compaction takes away young records, too, within minutes where each sample of a topic replaces
    the one before. So the first record that is left may lie beyond the position, though nothing
    older was unread: what had read all there was a short time ago is not judged by it.

    What a young checkpoint holds was in the topics when it was made, and its ends are kept from
    then on at the earliest, however old the records are that it has still to read. One that was
    made in the future shows a wrong clock, and not its age.
    """
    begun = marker.get(BEGUN_FIELD)
    if isinstance(begun, int) and life.since <= begun <= life.at:
        return None
    done = _batch_numbers(files, f"{name}/commits")
    entry = (files.read(f"{name}/offsets/{done[-1]}") or b"") if done else b""
    for topic, first in life.first.items():
        ends: Mapping[int, int] = {}
        with contextlib.suppress(ValueError):  # it is Spark's to refuse what it cannot read
            ends = ends_in(entry, topic)
        for partition, offset in first.items():
            # A partition that is new since then is read from its beginning.
            if ends.get(partition, offset) < offset:
                if _had_read_all(files, name, done, life):
                    return None
                return (
                    f"its newest batch ends at offset {ends[partition]} of partition"
                    f" {partition} of {topic}, and {offset} is the first one of the last"
                    f" {(life.at - life.since) / 3_600_000:.0f} h: tombstones live for"
                    f" {life.ms / 3_600_000:.0f} h (delete.retention.ms), so it may miss what ended"
                )
    return None


def _had_read_all(
    files: CheckpointFiles, name: str, done: Sequence[int], life: TombstoneLife
) -> bool:
    """Whether a batch since `life.since` read all there was: what is unread was written after it.

    Spark shares the limit of a batch among the partitions that have records, and rounds down. A
    batch that stays below that was not limited.

    Args:
        files: the pipeline's own directory.
        name: the name of the query's directory.
        done: the numbers of the batches that were done, in order.
        life: the life of tombstones.
    """
    # Of a release that kept no limit all batches are taken to have had the present one.
    limit, since_batch = _batch_limit(files) or (life.batch_limit, 0)
    numbered = (
        (number, files.read(f"{name}/offsets/{number}") or b"") for number in reversed(done)
    )
    with contextlib.suppress(ValueError):  # it is Spark's to refuse what it cannot read
        for (number, entry), (_, former) in itertools.pairwise(numbered):
            if number < since_batch or not life.since <= planned_at(entry) <= life.at:
                return False
            begins = all_ends(former)
            sizes = [end - begins.get(partition, 0) for partition, end in all_ends(entry).items()]
            read = [size for size in sizes if size > 0]
            if begins and sum(read) + len(read) <= limit:
                return True
    return False


def _difference(marker: Mapping[str, Any], shape: CheckpointShape) -> str | None:
    """The first part of a shape that a marker has otherwise; None: there is none."""
    for name, found in _topics_in(marker).items():
        if shape.topics.get(name, found) != found:
            return f"topic {name} was deleted, and made again, since"
    for part, label in _SHAPE_LABELS.items():
        expected = getattr(shape, part)
        if (found := marker.get(part, _SHAPE_DEFAULTS.get(part))) != expected:
            return f"its {label} is {found!r}, not {expected!r}"
    return None


_SHAPE_LABELS = {
    "cluster_id": "cluster",
    "prefix": "prefix",
    "state": "state's version",
    "parallelism": "parallelism",
    "commits": "topic of commits",
}
_SHAPE_DEFAULTS = {"parallelism": 2, "commits": OFFSETS_TOPIC}
"""Values of fields that older markers lack."""


# Marks of a query that runs or has died. Its thread must go on where they cannot be made, as on a
# full disk or while the checkpoint's file system does not answer.

_UNREACHED = (OSError, PipelineError)


def quarantine(files: CheckpointFiles, reason: str) -> bool:
    """Have the checkpoint set aside at the next start, because a query has died of it.

    Returns:
        Whether the mark was written. Without it the next query dies of the checkpoint again.
    """
    with contextlib.suppress(*_UNREACHED):
        _write(files, QUARANTINED, {"reason": reason})
        return True
    return False


def record_failed_start(files: CheckpointFiles, reason: str) -> bool:
    """Count a query that died for an unknown reason before its first batch.

    Returns:
        Whether the count has reached `MAX_FAILED_STARTS`, and so quarantined the checkpoint. A
        start that died while the files could not be reached does not count.
    """
    with contextlib.suppress(*_UNREACHED):
        former = _read(files, FAILED_STARTS)
        former_count = former.get("count") if isinstance(former, dict) else None
        count = 1 + (former_count if isinstance(former_count, int) else 0)
        if count >= MAX_FAILED_STARTS:
            return quarantine(
                files, f"{count} queries in a row died before their first batch: {reason}"
            )
        _write(files, FAILED_STARTS, {"count": count, "reason": reason})
    return False


def clear_failures(files: CheckpointFiles) -> bool:
    """Reset the count of failed starts, after a batch has been done; return whether that worked."""
    with contextlib.suppress(*_UNREACHED):
        files.delete(FAILED_STARTS)
        return True
    return False


def unverified(files: CheckpointFiles) -> Mapping[str, int] | None:
    """The ends of what earlier checkpoints published and this state may not confirm.

    Returns:
        End offsets by "topic/partition"; None once everything has been verified.
    """
    ends = _read(files, UNVERIFIED)
    return ends if ends is None or isinstance(ends, dict) else {}


def mark_verified(files: CheckpointFiles) -> None:
    """Note that the query was asked to verify all that earlier checkpoints published."""
    files.delete(UNVERIFIED)


# Damage that Spark does not notice.


def find_damage(query: Path) -> str | None:
    """Describe the first damage found in a checkpoint's files; None: none was found."""
    damage = find_log_damage(LocalFiles(query.parent), query.name)
    if damage is not None:
        return damage
    # State is checked as well: RocksDB notices damage only when it reads the block. A kill leaves
    # files half written that Spark never reads: temporary ones, which it renames when they are
    # whole, and tables, which it copies under their own name before a snapshot names them.
    named = {file for snapshot in query.rglob("*.zip") for file in _tables(snapshot)}
    for sums in query.rglob(".*.crc"):
        file = sums.with_name(sums.name[1:].removesuffix(".crc"))
        if file.suffix == ".tmp" or (file.suffix == ".sst" and file not in named):
            continue
        if not file.exists():
            continue
        if not _matches_checksums(file.read_bytes(), sums.read_bytes()):
            return f"{file.relative_to(query)} does not match its checksum"
    return None


def _tables(snapshot: Path) -> list[Path]:
    """The tables of a snapshot of RocksDB; none where it is damaged, as its checksum tells."""
    try:
        with ZipFile(snapshot) as archive:
            _, content = archive.read("metadata").split(b"\n", 1)
        names = [table["dfsSstFileName"] for table in json.loads(content)["sstFiles"]]
    except (BadZipFile, KeyError, ValueError):
        return []
    return [snapshot.parent / "SSTs" / name for name in names]


def find_log_damage(files: CheckpointFiles, query: str) -> str | None:
    """Describe the first damage found in the logs of a query's directory; None: none was found."""
    offsets, commits = (_batch_numbers(files, f"{query}/{log}") for log in ("offsets", "commits"))
    if commits and (not offsets or offsets[-1] < commits[-1]):
        return f"batch {commits[-1]} was done, but its offsets are gone"
    if offsets and offsets[-1] > (commits[-1] if commits else -1) + 1:
        return f"batch {offsets[-1]} was planned, but the one before it was never done"
    for log, numbers, lines in (
        ("offsets", offsets, OFFSETS_LINES),
        ("commits", commits, COMMITS_LINES),
    ):
        for number in numbers if files.is_local else numbers[-CHECKED_ENTRIES:]:
            if not _is_log_file(files.read(f"{query}/{log}/{number}") or b"", lines):
                return f"{log}/{number} is cut or garbled"
    return None


def _batch_numbers(files: CheckpointFiles, log: str) -> list[int]:
    return sorted(int(name) for name in files.names(log) if name.isdecimal() and name.isascii())


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


def _read(files: CheckpointFiles, name: str) -> Any:
    """A JSON file's value; None if there is no file, "unreadable" if it is no JSON."""
    content = files.read(name)
    try:
        return None if content is None else json.loads(content)
    except ValueError:
        return "unreadable"


def _write(files: CheckpointFiles, name: str, value: Any) -> None:
    files.write(name, json.dumps(value, sort_keys=True).encode())

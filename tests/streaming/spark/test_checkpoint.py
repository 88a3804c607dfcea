import io
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from zipfile import ZipFile

import pytest

from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark import checkpoint
from levelwind.streaming.spark.checkpoint import (
    CheckpointShape,
    SetAside,
    TombstoneLife,
    find_damage,
    prepare,
)
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles

SHAPE = CheckpointShape(cluster_id="C", prefix="levelwind.")


def used(directory: Path) -> Path:
    """A checkpoint as Spark leaves it after batch 1, with Hadoop's checksums beside its files."""
    query = prepare(LocalFiles(directory), SHAPE, now="t0").query
    for number in (0, 1):
        write(query / "offsets" / str(number), b'v1\n{"conf":{}}\n{"t":{"0":%d}}' % (number + 100))
        write(query / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":0}')
    write(query / "metadata", b'{"id":"x"}')
    write(query / "state" / "0" / "1" / "1.changelog", bytes(range(256)) * 5)
    return query


def write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    sums = (
        zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512)
    )
    file.with_name(f".{file.name}.crc").write_bytes(
        b"crc\0" + (512).to_bytes(4, "big") + b"".join(sums)
    )


def test_a_first_start_makes_an_empty_checkpoint(tmp_path: Path) -> None:
    found = prepare(LocalFiles(tmp_path / "deep" / "er"), SHAPE, now="t")
    assert found.set_aside is None
    assert list(found.query.iterdir()) == []


def test_a_checkpoint_of_the_same_shape_is_continued(tmp_path: Path) -> None:
    query = used(tmp_path)
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1")
    assert (found.query, found.set_aside) == (query, None)
    assert (query / "offsets" / "1").exists()


def test_a_query_keeps_the_parallelism_of_a_checkpoint_that_it_can_continue(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    assert checkpoint.kept_parallelism(files, SHAPE) is None
    prepare(files, replace(SHAPE, parallelism=3), now="t0")
    assert checkpoint.kept_parallelism(files, SHAPE) == checkpoint.parallelism(files) == 3
    for other in (replace(SHAPE, cluster_id="D"), replace(SHAPE, state="2")):
        assert checkpoint.kept_parallelism(files, other) is None
    marker = json.loads((tmp_path / "shape.json").read_text())
    del marker["parallelism"]  # as older releases wrote it
    (tmp_path / "shape.json").write_text(json.dumps(marker))
    assert checkpoint.kept_parallelism(files, SHAPE) == 2
    checkpoint.quarantine(files, "it killed a query")
    assert checkpoint.kept_parallelism(files, SHAPE) is None


@pytest.mark.parametrize("marker", ["{", "[]", '{"parallelism": "many"}', '{"parallelism": 0}'])
def test_a_damaged_marker_says_nothing_of_parallelism(tmp_path: Path, marker: str) -> None:
    (tmp_path / "shape.json").write_text(marker)
    assert checkpoint.kept_parallelism(LocalFiles(tmp_path), SHAPE) is None
    assert checkpoint.parallelism(LocalFiles(tmp_path)) is None


def test_a_directory_that_is_none_is_named_before_a_query_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"the checkpoint in .*file cannot be written"):
        checkpoint.kept_parallelism(LocalFiles(tmp_path / "file"), SHAPE)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"cluster_id": "D"}, "cluster"),
        ({"state": "2"}, "version"),
        ({"prefix": "o."}, "o."),
        ({"parallelism": 3}, "parallelism is 2, not 3"),
    ],
)
def test_a_checkpoint_of_another_shape_is_set_aside_and_kept(
    tmp_path: Path, change: dict[str, Any], word: str
) -> None:
    used(tmp_path)
    found = prepare(LocalFiles(tmp_path), replace(SHAPE, **change), now="t1")
    assert found.set_aside is not None
    assert word in found.set_aside.reason
    assert (found.set_aside.moved_to / "offsets" / "1").exists()
    assert list(found.query.iterdir()) == []
    assert prepare(LocalFiles(tmp_path), replace(SHAPE, **change), now="t2").set_aside is None


NAMED = replace(SHAPE, topics={"levelwind.assignments": "one", "levelwind.lag": "two"})


def test_a_checkpoint_of_a_topic_that_was_made_again_is_set_aside(tmp_path: Path) -> None:
    """Its offsets may all exist in the new topic, and nothing before them would be read."""
    files = LocalFiles(tmp_path)
    prepare(files, NAMED, now="t0")
    assert prepare(files, NAMED, now="t1").set_aside is None
    again = replace(NAMED, topics=NAMED.topics | {"levelwind.assignments": "three"})
    assert checkpoint.kept_parallelism(files, again) is None
    found = prepare(files, again, now="t2")
    assert found.set_aside is not None
    reason = "topic levelwind.assignments was deleted, and made again, since"
    assert found.set_aside.reason == reason
    assert prepare(files, again, now="t3").set_aside is None


def test_ids_that_a_checkpoint_does_not_know_yet_are_kept_from_the_next_start_on(
    tmp_path: Path,
) -> None:
    """Of an older release it knows none, and on old brokers there are none."""
    files = LocalFiles(tmp_path)
    prepare(files, SHAPE, now="t0")
    marker = json.loads((tmp_path / "shape.json").read_text())
    del marker["topics"]
    (tmp_path / "shape.json").write_text(json.dumps(marker))
    some = {"levelwind.assignments": "one"}
    for topics in ({}, some, {}, NAMED.topics):
        assert prepare(files, replace(SHAPE, topics=topics), now="t").set_aside is None
    kept = json.loads((tmp_path / "shape.json").read_text())
    assert kept == marker | {"topics": NAMED.topics}
    again = replace(SHAPE, topics={"levelwind.lag": "three"})
    assert prepare(files, again, now="t").set_aside is not None


def test_the_shape_changes_with_the_version_of_each_state() -> None:
    from levelwind.streaming.bucket import state as bucket_state  # noqa: PLC0415 - of this test alone
    from levelwind.streaming.group import codec as group_codec  # noqa: PLC0415 - of this test alone
    from levelwind.streaming.topic import state as topic_state  # noqa: PLC0415 - of this test alone

    assert CheckpointShape(cluster_id="C", prefix="p").state == checkpoint.STATE
    versions = [state.VERSION for state in (bucket_state, topic_state, group_codec)]
    assert checkpoint.STATE.split(".")[-3:] == list(map(str, versions))


@pytest.mark.parametrize("state", ["3.2.3.4", "4.2.3.4", "4.2.3.5"])
def test_a_checkpoint_of_an_older_codec_is_set_aside_with_both_versions_in_the_reason(
    tmp_path: Path, state: str
) -> None:
    former = prepare(LocalFiles(tmp_path), replace(SHAPE, state=state), now="t0")
    write(former.query / "offsets" / "0", b'v1\n{"conf":{}}\n{"t":{"0":100}}')
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1", written={"lag/0": 7})
    assert found.set_aside is not None
    assert found.set_aside.reason == f"its state's version is {state!r}, not {checkpoint.STATE!r}"
    assert (found.set_aside.moved_to / "offsets" / "0").exists()
    assert list(found.query.iterdir()) == []
    assert checkpoint.unverified(LocalFiles(tmp_path)) == {"lag/0": 7}


def test_a_checkpoint_without_a_readable_marker_is_set_aside(tmp_path: Path) -> None:
    used(tmp_path)
    (tmp_path / checkpoint.MARKER).write_text("{")
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1")
    assert found.set_aside is not None
    assert found.set_aside.moved_to.name == "query.set-aside-t1"


def test_checkpoints_set_aside_at_the_same_time_do_not_overwrite_each_other(tmp_path: Path) -> None:
    names = set()
    for _ in range(3):
        used(tmp_path)
        found = prepare(LocalFiles(tmp_path), replace(SHAPE, state="0"), now="t")
        assert found.set_aside is not None
        names.add(found.set_aside.moved_to.name)
    assert names == {"query.set-aside-t", "query.set-aside-t-2", "query.set-aside-t-3"}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garble(file: Path) -> None:
    """Change one digit: it is still JSON, and Spark would not see it."""
    content = file.read_bytes()
    file.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("harm", [cut, garble, empty, Path.unlink])
@pytest.mark.parametrize("name", ["offsets/1", "commits/1", "metadata", "state/0/1/1.changelog"])
def test_damage_is_found_before_spark_meets_it(
    tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    query = used(tmp_path)
    assert find_damage(query) is None
    harm(query / name)
    if harm is Path.unlink and name != "offsets/1":
        # A batch whose commit is lost is repeated; lost state is found when it is read.
        assert find_damage(query) is None
        return
    assert find_damage(query) is not None
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1")
    assert found.set_aside is not None
    assert found.set_aside.reason == find_damage(found.set_aside.moved_to)
    assert prepare(LocalFiles(tmp_path), SHAPE, now="t2").set_aside is None


def test_a_planned_batch_that_was_not_done_is_no_damage(tmp_path: Path) -> None:
    query = used(tmp_path)
    write(query / "offsets" / "2", b'v1\n{}\n{"t":{"0":1}}')
    assert find_damage(query) is None
    write(query / "offsets" / "3", b'v1\n{}\n{"t":{"0":1}}')
    assert find_damage(query) == "batch 3 was planned, but the one before it was never done"


def test_damage_without_checksums_is_found_in_a_log_that_is_cut(tmp_path: Path) -> None:
    query = used(tmp_path)
    for sums in query.rglob(".*.crc"):
        sums.unlink()
    assert find_damage(query) is None
    cut(query / "offsets" / "1")
    assert find_damage(query) == "offsets/1 is cut or garbled"


def test_a_table_is_checked_only_once_a_snapshot_names_it(tmp_path: Path) -> None:
    """Spark copies a table under its own name: a kill leaves a part of one that nobody reads."""
    query = used(tmp_path)
    table = query / "state" / "0" / "1" / "SSTs" / "000008-9d7c.sst"
    write(table, b"\0" * 1000)
    cut(table)
    assert find_damage(query) is None
    content = io.BytesIO()
    with ZipFile(content, "w") as snapshot:
        named = {"localFileName": "000008.sst", "dfsSstFileName": table.name, "sizeBytes": 1000}
        snapshot.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [named]}))
    write(table.parents[1] / "2.zip", content.getvalue())
    assert find_damage(query) == "state/0/1/SSTs/000008-9d7c.sst does not match its checksum"
    cut(table.parents[1] / "2.zip")
    assert find_damage(query) == "state/0/1/2.zip does not match its checksum"


def test_a_write_that_a_kill_broke_off_is_no_damage(tmp_path: Path) -> None:
    query = used(tmp_path)
    state = query / "state" / "0" / "1"
    state.mkdir(parents=True, exist_ok=True)
    # Hadoop writes a file under such a name, its checksum beside it, and renames both when whole.
    (state / ".2.changelog.0c1d.TID11.tmp").write_bytes(b"half of it")
    (state / "..2.changelog.0c1d.TID11.tmp.crc").write_bytes(b"crc\0\0\0\2\0")
    assert find_damage(query) is None


def test_a_quarantined_checkpoint_is_set_aside_once(tmp_path: Path) -> None:
    used(tmp_path)
    checkpoint.quarantine(LocalFiles(tmp_path), "the state is damaged")
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1")
    assert found.set_aside is not None
    assert found.set_aside.reason == "the state is damaged"
    assert prepare(LocalFiles(tmp_path), SHAPE, now="t2").set_aside is None


def test_four_unexplained_failed_starts_quarantine_a_checkpoint_unless_a_batch_was_done_between(
    tmp_path: Path,
) -> None:
    used(tmp_path)
    for _ in range(3):
        assert not checkpoint.record_failed_start(LocalFiles(tmp_path), "?")
    checkpoint.clear_failures(LocalFiles(tmp_path))
    for _ in range(3):
        assert not checkpoint.record_failed_start(LocalFiles(tmp_path), "?")
    assert prepare(LocalFiles(tmp_path), SHAPE, now="t1").set_aside is None
    assert checkpoint.record_failed_start(LocalFiles(tmp_path), "?")
    assert prepare(LocalFiles(tmp_path), SHAPE, now="t2").set_aside is not None
    assert not checkpoint.record_failed_start(LocalFiles(tmp_path), "?")


HOUR = 3_600_000
NOW = 1_800_000_000_000
"""Milliseconds since the epoch."""


def life(
    first: dict[str, dict[int, int]] | None = None, *, hours: float = 24.0, at: int = NOW
) -> TombstoneLife:
    """The life of tombstones of some hours, with the first offsets of its last part."""
    return TombstoneLife(at=at, ms=int(hours * HOUR), first=first or {})


def made(directory: Path, hours_ago: float | None) -> Path:
    """A checkpoint of some age, whose newest finished batch has read below 101; None: unknown.

    The batch after that was planned, and not done.
    """
    query = used(directory)
    write(query / "offsets" / "2", b'v1\n{"conf":{}}\n{"t":{"0":999}}')
    marker = json.loads((directory / checkpoint.MARKER).read_text())
    if hours_ago is not None:
        marker[checkpoint.BEGUN_FIELD] = int(NOW - hours_ago * HOUR)
    (directory / checkpoint.MARKER).write_text(json.dumps(marker))
    return query


UNREAD_OLD = {"t": {0: 102}}
"""Offset 101 is unread, and older than the last part of the life of tombstones."""


@pytest.mark.parametrize(
    ("hours_ago", "given", "is_continued"),
    [
        (1000, life(UNREAD_OLD), False),
        (1000, life({"t": {0: 101}}), True),  # all that is older was read
        (1000, life({"t": {0: 7}}), True),
        (1000, life({"t": {}}), True),  # nothing was written since: nothing is compacted
        (1000, life({"t": {5: 9}}), True),  # a new partition is read from its beginning
        (1000, life({"u": {0: 9}}), True),
        (1000, life({"t": {0: 3, 5: 9}, "u": {0: 9}} | UNREAD_OLD), False),
        (None, life(UNREAD_OLD), False),  # of an older release
        # It may still read up what is old: its content is younger.
        (17, life(UNREAD_OLD), True),
        (19, life(UNREAD_OLD), False),
        (100, life(UNREAD_OLD, hours=24 * 7), True),
        (130, life(UNREAD_OLD, hours=24 * 7), False),
        (0.9, life(UNREAD_OLD, hours=0), True),
        (1.1, life(UNREAD_OLD, hours=0), False),
        (-24 * 290, life(UNREAD_OLD), False),  # made while the clock was ahead: of no known age
        (1000, None, True),
    ],
)
def test_a_checkpoint_with_more_unread_than_tombstones_live_is_set_aside(
    tmp_path: Path, hours_ago: float | None, given: TombstoneLife | None, is_continued: bool
) -> None:
    made(tmp_path, hours_ago)
    kept = checkpoint.kept_parallelism(LocalFiles(tmp_path), SHAPE, given)
    assert kept == (SHAPE.parallelism if is_continued else None), "else it is rated anew"
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1", life=given, written={"lag/0": 7})
    assert (found.set_aside is None) == is_continued
    if found.set_aside is not None:
        assert "ends at offset 101 of partition 0 of t, and 102 is" in found.set_aside.reason
        assert "delete.retention.ms" in found.set_aside.reason
        assert checkpoint.unverified(LocalFiles(tmp_path)) == {"lag/0": 7}


def replace_batches(query: Path, batches: list[tuple[float, int, int]]) -> None:
    """Put other batches into a checkpoint: hours ago, and the ends of two partitions."""
    for log in ("offsets", "commits"):
        for file in (query / log).glob("[0-9]*"):
            file.unlink()
    for number, (hours_ago, *ends) in enumerate(batches, start=40):
        batch = json.dumps({"batchTimestampMs": int(NOW - hours_ago * HOUR)})
        source = json.dumps({"t": {"0": ends[0]}, "r": {"0": ends[1]}})
        write(query / "offsets" / str(number), f"v1\n{batch}\n{source}".encode())
        write(query / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":0}')


@pytest.mark.parametrize(
    ("batches", "is_continued"),
    [
        # Compaction has taken away offset 101, which was written just after it had read all.
        ([(0.6, 90, 7), (0.5, 101, 7)], True),
        ([(0.6, 90, 7), (17.9, 101, 7)], True),
        ([(19.0, 90, 7), (18.1, 101, 7)], False),
        # Behind a backlog nobody knows how old offset 101 was.
        ([(0.6, 1, 7), (0.5, 101, 7)], False),
        ([(0.6, 3, 6), (0.5, 101, 7)], False),  # Spark rounds the share of each partition down
        ([(0.6, 4, 6), (0.5, 101, 7)], True),
        ([(17.9, 0, 7), (17.8, 1, 7), (0.5, 101, 7)], True),  # it had read all before
        ([(18.2, 0, 7), (18.1, 1, 7), (0.5, 101, 7)], False),  # too long ago
        ([(0.5, 101, 7)], False),  # from where on it has read is not known
        ([(0.6, 90, 7), (-9.0, 101, 7)], False),  # a clock was wrong
    ],
)
def test_a_checkpoint_that_had_read_all_there_was_lately_has_nothing_old_unread(
    tmp_path: Path, batches: list[tuple[float, int, int]], is_continued: bool
) -> None:
    replace_batches(made(tmp_path, 1000), batches)
    given = replace(life(UNREAD_OLD), batch_limit=100)
    files = LocalFiles(tmp_path)
    kept = checkpoint.kept_parallelism(files, SHAPE, given)
    assert kept == (SHAPE.parallelism if is_continued else None)
    assert (prepare(files, SHAPE, now="t1", life=given).set_aside is None) == is_continued


@pytest.mark.parametrize(
    ("before", "after", "is_continued"),
    [
        ([100], [], False),
        ([100], [1000], False),  # it died before its first batch, as the next one
        ([100], [1000, 1000], False),
        ([100], [1000, 100], False),
        ([1000], [], True),
        ([100, 1000], [], True),
        ([100, 1000], [1000], True),
    ],
)
def test_a_limit_that_was_raised_in_a_backlog_does_not_make_it_read(
    tmp_path: Path, before: list[int], after: list[int], is_continued: bool
) -> None:
    """The limits of the starts before and after two batches, of which one read 100 records."""

    def start(limit: int, first: dict[str, dict[int, int]]) -> SetAside | None:
        given = replace(life(first), batch_limit=limit)
        return prepare(LocalFiles(tmp_path), SHAPE, now="t1", life=given).set_aside

    query = made(tmp_path, 1000)
    assert [start(limit, {}) for limit in before] == [None] * len(before)
    replace_batches(query, [(0.6, 1, 7), (0.5, 101, 7)])
    assert [start(limit, {}) for limit in after] == [None] * len(after)
    assert (start(1000, UNREAD_OLD) is None) == is_continued


def test_a_start_that_cannot_keep_its_limit_of_batches_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it reads would later be judged by the limit of a former start."""
    made(tmp_path, 1000)
    files = LocalFiles(tmp_path)
    full = Mock(side_effect=OSError(28, "disk full"))
    monkeypatch.setattr(checkpoint, "_write_batch_limit", full)
    with pytest.raises(PipelineError, match="cannot be written: disk full"):
        prepare(files, SHAPE, now="t1", life=replace(life({}), batch_limit=100))


@pytest.mark.parametrize("kept", [b"{", b"100", b'{"limit":true}', None])
def test_batches_of_an_unknown_limit_are_taken_to_have_had_the_present_one(
    tmp_path: Path, kept: bytes | None
) -> None:
    query = made(tmp_path, 1000)
    if kept is not None:
        (tmp_path / checkpoint.BATCH_LIMIT).write_bytes(kept)
    replace_batches(query, [(0.6, 1, 7), (0.5, 101, 7)])
    for _ in range(2):
        given = replace(life(UNREAD_OLD), batch_limit=1000)
        assert prepare(LocalFiles(tmp_path), SHAPE, now="t1", life=given).set_aside is None


@pytest.mark.parametrize("parallelism", [1, SHAPE.parallelism])
def test_a_checkpoint_that_is_too_old_is_not_blamed_for_the_number_of_tasks_chosen_anew(
    tmp_path: Path, parallelism: int
) -> None:
    made(tmp_path, 1000)
    shape = replace(SHAPE, parallelism=parallelism)
    found = prepare(LocalFiles(tmp_path), shape, now="t1", life=life(UNREAD_OLD))
    assert found.set_aside is not None
    assert "delete.retention.ms" in found.set_aside.reason


def test_the_last_part_of_the_life_of_tombstones_is_an_hour_at_least() -> None:
    hours = {kept: (NOW - life(hours=kept).since) / HOUR for kept in (24.0, 24.0 * 7, 0.5)}
    assert hours == {24.0: 18.0, 24.0 * 7: 126.0, 0.5: 1.0}


def test_a_clock_that_is_wrong_at_each_start_costs_one_checkpoint_and_not_each(
    tmp_path: Path,
) -> None:
    """It is years ahead until it is set, which is after the start and before the batches."""
    made(tmp_path, 1000)
    costs = []
    for number, years in enumerate((5, 6, 7)):
        # No record has a time that is still to come.
        ahead = life({"t": {}}, at=NOW + 24 * 365 * years * HOUR)
        found = prepare(LocalFiles(tmp_path), SHAPE, now=str(number), life=ahead)
        costs.append(found.set_aside is not None)
    assert costs == [False, False, False]
    # Made while the clock was ahead, and judged once it is right.
    (tmp_path / checkpoint.MARKER).unlink()
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1", life=life(at=NOW + 24 * 365 * HOUR))
    write(found.query / "offsets" / "0", b'v1\n{"conf":{}}\n{"t":{"0":101}}')
    write(found.query / "commits" / "0", b'v1\n{"nextBatchWatermarkMs":0}')
    assert prepare(LocalFiles(tmp_path), SHAPE, now="t2", life=life(UNREAD_OLD)).set_aside
    write(found.query / "offsets" / "0", b'v1\n{"conf":{}}\n{"t":{"0":101}}')
    write(found.query / "commits" / "0", b'v1\n{"nextBatchWatermarkMs":0}')
    assert not prepare(LocalFiles(tmp_path), SHAPE, now="t3", life=life(UNREAD_OLD)).set_aside


def test_a_rebuilt_state_that_has_read_nothing_misses_nothing(tmp_path: Path) -> None:
    made(tmp_path, 1000)
    files = LocalFiles(tmp_path)
    assert prepare(files, SHAPE, now="t1", life=life(UNREAD_OLD)).set_aside is not None
    late = life(UNREAD_OLD, at=NOW + 1000 * HOUR)
    assert prepare(files, SHAPE, now="t2", life=late).set_aside is None
    query = tmp_path / "query"
    write(query / "offsets" / "0", b'v1\n{"conf":{}}\n{"t":{"0":101}}')
    assert prepare(files, SHAPE, now="t3", life=late).set_aside is None
    write(query / "commits" / "0", b'v1\n{"nextBatchWatermarkMs":0}')
    assert prepare(files, SHAPE, now="t4", life=late).set_aside is not None


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"t": 5}', '{"t": {"0": "soon"}}', '{"t": {"0": []}}', ""]
)
def test_a_batch_without_readable_offsets_has_nothing_unread(tmp_path: Path, line: str) -> None:
    query = made(tmp_path, 1000)
    write(query / "offsets" / "1", f"v1\n{{}}\n{line}".encode())
    found = prepare(LocalFiles(tmp_path), SHAPE, now="t1", life=life(UNREAD_OLD))
    assert found.set_aside is None or "cut or garbled" in found.set_aside.reason


def test_a_directory_that_cannot_be_written_is_a_pipeline_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot be written"):
        prepare(LocalFiles(tmp_path / "file" / "below"), SHAPE, now="t")

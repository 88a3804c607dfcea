"""The checkpoint in another file system: nothing is renamed, and a start costs few requests."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark import checkpoint
from levelwind.streaming.spark.checkpoint import CheckpointShape, TombstoneLife, prepare
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles, local_path

SHAPE = CheckpointShape(cluster_id="C", prefix="levelwind.")
MOST_REQUESTS = 40


class ObjectStore:
    """An object store: whole objects by name, no directories, no rename; it counts requests."""

    is_local = False

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests = 0
        self.fails_after: int | None = None

    def location(self, name: str = "") -> str:
        return f"store://bucket/{name}"

    def _request(self) -> None:
        if self.fails_after is not None and self.requests >= self.fails_after:
            raise PipelineError("the driver died")
        self.requests += 1

    def read(self, name: str) -> bytes | None:
        self._request()
        return self.objects.get(name)

    def write(self, name: str, content: bytes) -> None:
        self._request()
        self.objects[name] = content

    def delete(self, name: str) -> None:
        self._request()
        self.objects.pop(name, None)

    def names(self, directory: str) -> list[str]:
        self._request()
        below = (name.removeprefix(f"{directory}/") for name in self.objects)
        return [name for name in below if name not in self.objects and "/" not in name]


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore()


def run_batches(store: ObjectStore, query: str, count: int) -> None:
    for number in range(count):
        store.objects[f"{query}/offsets/{number}"] = b'v1\n{"conf":{}}\n{"t":{"0":1}}'
        store.objects[f"{query}/commits/{number}"] = b'v1\n{"nextBatchWatermarkMs":0}'
    for number in range(300):
        store.objects[f"{query}/state/0/{number}/1.changelog"] = b"x"


def test_a_checkpoint_is_continued_with_at_most_forty_requests(store: ObjectStore) -> None:
    first = prepare(store, SHAPE, now="t0", written={"lag/0": 7})
    assert (first.query, first.location) == (None, "store://bucket/query-t0")
    run_batches(store, first.name, 200)
    store.requests = 0
    again = prepare(store, SHAPE, now="t1", written={"lag/0": 9})
    assert (again.location, again.set_aside) == (first.location, None)
    assert store.requests <= MOST_REQUESTS
    assert checkpoint.unverified(store) == {"lag/0": 7}


def test_a_checkpoint_with_more_unread_than_tombstones_live_is_set_aside(
    store: ObjectStore,
) -> None:
    former = prepare(store, SHAPE, now="t0")
    run_batches(store, former.name, 200)
    for number in range(190, 200):  # of a backlog
        entry = b'v1\n{"batchTimestampMs":90000000}\n{"t":{"0":%d}}' % (number * 9)
        store.objects[f"{former.name}/offsets/{number}"] = entry
    store.requests = 0
    life = TombstoneLife(
        at=25 * 3_600_000, ms=24 * 3_600_000, first={"t": {0: 1800}}, batch_limit=9
    )
    assert checkpoint.kept_parallelism(store, SHAPE, life) is None
    found = prepare(store, SHAPE, now="t1", life=life)
    assert store.requests <= MOST_REQUESTS
    assert found.set_aside is not None
    assert found.location == "store://bucket/query-t1"


@pytest.mark.parametrize(
    "harm",
    [
        lambda store, _: checkpoint.quarantine(store, "it is damaged"),
        lambda store, _: store.objects.update({checkpoint.MARKER: b"{"}),
        lambda store, query: store.objects.update({f"{query}/offsets/2": b"v1\n{"}),
        lambda store, query: store.objects.pop(f"{query}/offsets/2"),
    ],
)
def test_a_checkpoint_is_set_aside_by_a_marker_that_names_another(store: ObjectStore, harm) -> None:
    former = prepare(store, SHAPE, now="t0")
    run_batches(store, former.name, 3)
    kept = {name: content for name, content in store.objects.items() if "/state/" in name}
    harm(store, former.name)
    store.requests = 0
    found = prepare(store, SHAPE, now="t1")
    assert store.requests <= MOST_REQUESTS
    assert found.location == "store://bucket/query-t1"
    assert found.set_aside is not None
    assert kept.items() <= store.objects.items()
    assert prepare(store, SHAPE, now="t2").set_aside is None


def test_another_number_of_partitions_is_another_shape_and_older_markers_have_two(
    store: ObjectStore,
) -> None:
    prepare(store, SHAPE, now="t0")
    marker = json.loads(store.objects[checkpoint.MARKER])
    del marker["parallelism"]
    store.objects[checkpoint.MARKER] = json.dumps(marker).encode()
    assert prepare(store, SHAPE, now="t1").set_aside is None
    found = prepare(store, replace(SHAPE, parallelism=8), now="t2")
    assert found.set_aside is not None
    assert found.set_aside.reason == "its parallelism is 2, not 8"


def test_a_driver_that_dies_at_any_request_leaves_the_old_checkpoint_or_a_whole_new_one() -> None:
    for death in range(MOST_REQUESTS):
        store = ObjectStore()
        former = prepare(store, SHAPE, now="t0", written={"lag/0": 1})
        checkpoint.mark_verified(store)
        run_batches(store, former.name, 3)
        checkpoint.quarantine(store, "it is damaged")
        store.requests, store.fails_after = 0, death
        try:
            prepare(store, SHAPE, now="t1", written={"lag/0": 9})
        except PipelineError:
            pass
        else:
            return
        store.fails_after = None
        found = prepare(store, SHAPE, now="t2", written={"lag/0": 9})
        assert found.name in {"query-t1", "query-t2"}
        assert checkpoint.unverified(store) == {"lag/0": 9}
        assert prepare(store, SHAPE, now="t3").name == found.name


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/a/b", Path("/a/b")),
        ("file:///a/b%20c", Path("/a/b c")),
        ("hdfs://host:8020/a", None),
        ("s3a://bucket/a", None),
    ],
)
def test_an_address_is_a_path_or_of_another_file_system(address: str, path: Path | None) -> None:
    assert local_path(address) == path


def test_files_by_uri_are_named_to_spark_by_uri(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path, as_uri=True)
    found = prepare(files, SHAPE, now="t0")
    assert found.location == (tmp_path / "query").as_uri()
    assert found.query == tmp_path / "query"

from dataclasses import replace
from pathlib import Path

from streaming.checkpoint import Shape, prepare

SHAPE = Shape(cluster_id="C", prefix="levelwind.")


def used(directory: Path) -> Path:
    query = prepare(directory, SHAPE, now="t0").query
    (query / "offsets").write_text("state")
    return query


def test_a_first_start_makes_an_empty_checkpoint(tmp_path: Path) -> None:
    found = prepare(tmp_path / "deep" / "er", SHAPE, now="t")
    assert found.set_aside is None
    assert list(found.query.iterdir()) == []


def test_a_checkpoint_of_the_same_shape_is_gone_on_from(tmp_path: Path) -> None:
    query = used(tmp_path)
    found = prepare(tmp_path, SHAPE, now="t1")
    assert (found.query, found.set_aside) == (query, None)
    assert (query / "offsets").read_text() == "state"


def test_a_checkpoint_of_another_shape_is_set_aside_and_kept(tmp_path: Path) -> None:
    used(tmp_path)
    for change in ({"cluster_id": "D"}, {"state": SHAPE.state + 1}, {"prefix": "other."}):
        other = replace(SHAPE, **change)
        found = prepare(tmp_path, other, now="t1")
        assert found.set_aside is not None, change
        assert list(found.query.iterdir()) == []
        assert prepare(tmp_path, other, now="t2").set_aside is None, "the next start agrees"
        assert prepare(tmp_path, SHAPE, now="t1").set_aside is not None
    kept = [path for path in tmp_path.glob("query.set-aside-t1*") if (path / "offsets").exists()]
    assert len(kept) == 1, "nothing is overwritten"


def test_a_checkpoint_without_or_with_an_unreadable_marker_is_foreign(tmp_path: Path) -> None:
    used(tmp_path)
    (tmp_path / "shape.json").write_text("{")
    assert prepare(tmp_path, SHAPE, now="t1").set_aside is not None
    (tmp_path / "shape.json").unlink()
    assert prepare(tmp_path, SHAPE, now="t2").set_aside is not None

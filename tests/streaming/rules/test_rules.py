"""The rules of lag, racks and skew, case by case."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import RackChange
from levelwind.daemon.observer.last_records import gaps_between
from levelwind.streaming.rules import racks
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.partition_lag import lag_of


@pytest.mark.parametrize(
    ("case", "committed", "begin", "end", "reset", "lag", "lost", "stale"),
    [
        ("a group behind", 60, 0, 100, "earliest", 40, 0, False),
        ("a group at the end", 100, 0, 100, "earliest", 0, 0, False),
        (
            "a commit beyond the sampled end is stale, not negative",
            120,
            0,
            100,
            "earliest",
            0,
            0,
            True,
        ),
        (
            "a commit below the log's begin counts from there, the rest is lost",
            10,
            30,
            100,
            "earliest",
            70,
            20,
            False,
        ),
        ("a log emptied above the commit", 10, 100, 100, "earliest", 0, 90, False),
        ("no commit, earliest: the whole log", UNKNOWN, 30, 100, "earliest", 70, 0, False),
        ("no commit, latest: nothing", UNKNOWN, 30, 100, "latest", 0, 0, False),
        ("an end that was never read", 60, 0, UNKNOWN, "earliest", 0, 0, True),
        ("no commit and an end that was never read", UNKNOWN, 0, UNKNOWN, "earliest", 0, 0, True),
        ("a begin that was never read counts as 0", 60, UNKNOWN, 100, "earliest", 40, 0, False),
        (
            "no commit and a begin that was never read",
            UNKNOWN,
            UNKNOWN,
            100,
            "earliest",
            100,
            0,
            False,
        ),
        ("a commit of 0 is a commit", 0, 0, 5, "latest", 5, 0, False),
    ],
)
def test_lag(
    case: str, committed: int, begin: int, end: int, reset: str, lag: int, lost: int, stale: bool
) -> None:
    columns = [np.array([number], np.int64) for number in (committed, begin, end)]
    found = lag_of(committed=columns[0], begin=columns[1], end=columns[2], reset=reset)
    assert (found.lag.tolist(), found.lost.tolist(), found.stale.tolist()) == (
        [lag],
        [lost],
        [stale],
    )


def test_a_commit_beyond_the_log_is_no_commit() -> None:
    columns = {"committed": 120, "begin": 30, "end": 100, "log_end": 110}
    for committed, reset, lag, stale, out in [
        (120, "earliest", 70, False, True),
        (120, "latest", 0, False, True),
        (105, "earliest", 0, True, False),
    ]:
        arrays = {
            name: np.array([value], np.int64)
            for name, value in (columns | {"committed": committed}).items()
        }
        found = lag_of(**arrays, reset=reset)
        assert (found.lag[0], found.stale[0], found.out_of_range[0]) == (lag, stale, out)
        assert found.lost[0] == 0


def test_a_commit_at_the_end_of_the_log_is_in_range_beside_one_that_lies_beyond() -> None:
    ends = {name: np.array([100], np.int64) for name in ("end", "log_end")}
    committed = np.array([[99], [100], [101]], np.int64)
    found = lag_of(committed=committed, begin=np.array([30], np.int64), reset="earliest", **ends)
    assert found.lag[:, 0].tolist() == [1, 0, 70]
    assert found.out_of_range[:, 0].tolist() == [False, False, True]


@given(
    records=st.sets(st.integers(0, 29)),
    committed=st.lists(st.integers(-1, 35), min_size=1, max_size=5),
    begin=st.integers(0, 5),
    bounds=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_lag_counts_the_records_where_gaps_are_known_and_never_fewer(
    records: set[int], committed: list[int], begin: int, bounds: tuple[int, int]
) -> None:
    first, last = sorted(bounds)
    inside = [offset for offset in sorted(records) if first <= offset < last]
    gaps = [first, last, *gaps_between(first, inside, last)]
    found = lag_of(
        committed=np.array(committed, np.int64)[:, None],
        begin=np.array([begin], np.int64),
        end=np.array([30], np.int64),
        reset="earliest",
        gaps=[gaps],
    )
    for commit, lag, upper_bound in zip(committed, found.lag, found.upper_bound, strict=True):
        true = sum(offset >= max(commit, begin) for offset in records)
        assert lag[0] >= true
        if not upper_bound[0]:
            assert lag[0] == true
        if first <= max(commit, begin) and last == 30:
            assert not upper_bound[0]


@pytest.mark.parametrize(
    ("case", "before", "after", "changed"),
    [
        ("the same", [["a", "b"]], [["a", "b"]], []),
        ("the same set in another order", [["a", "b"]], [["b", "a"]], []),
        ("two replicas in one rack are one rack of the set", [["a", "b"]], [["a", "a", "b"]], []),
        ("another rack", [["a", "b"], ["b"]], [["a", "c"], ["b"]], [0]),
        ("a rack less", [["a", "b"]], [["a"]], [0]),
        ("racks at last", [[]], [["a"]], [0]),
        ("more partitions are no change of racks", [["a"]], [["a"], ["b"]], []),
        ("fewer partitions are no change of racks", [["a"], ["b"]], [["a"]], []),
    ],
)
def test_racks(
    case: str, before: list[list[str]], after: list[list[str]], changed: list[int]
) -> None:
    assert sorted(racks.changes(before, after)) == changed


def test_a_change_of_racks_has_both_sets() -> None:
    assert racks.changes([["b", "a", "a"]], [["c", "b"]]) == {
        0: RackChange(before=("a", "b"), after=("b", "c"))
    }

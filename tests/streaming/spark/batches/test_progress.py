from typing import Any

from levelwind.streaming.spark.batches.progress import AT_STAKE, COUNTS, FOLLOWED, read_progress

EVENT = {
    "batchId": 3,
    "numInputRows": 7,
    "durationMs": {"triggerExecution": 20, "latestOffset": 1},
    "stateOperators": [{"numRowsTotal": 2, "memoryUsedBytes": 5}],
    "sources": [
        {
            "endOffset": {"a": {"0": 10, "11": 4}, "b": {"0": 0}},
            "latestOffset": {"a": {"0": 10, "11": 6}, "b": {"0": 0}},
        }
    ],
}


def test_a_batch_tells_where_it_ended_in_each_partition_and_how_much_it_left():
    batch = read_progress(EVENT, ())
    assert batch.read == {("a", 0): 10, ("a", 11): 4, ("b", 0): 0}
    assert batch.behind == 2


def test_a_batch_tells_whether_skew_or_a_plan_is_at_stake():
    def observed(stakes: int, *reasons: str) -> dict[str, Any]:
        counts = [{"reason": reason, "n": 3} for reason in reasons]
        metrics = {COUNTS: {COUNTS: counts}, AT_STAKE: {AT_STAKE: stakes}}
        return EVENT | {"observedMetrics": metrics}

    assert not read_progress(EVENT, ()).at_stake
    assert not read_progress(observed(0, "newest", "broker"), ()).at_stake
    assert read_progress(observed(1), ()).at_stake
    followed = read_progress(observed(0, FOLLOWED, "broker"), ())
    assert followed.at_stake
    assert followed.skipped == {"broker": 3}


def test_a_batch_without_an_end_has_read_nothing():
    assert read_progress(EVENT | {"sources": [{"endOffset": None}]}, ()).read == {}

from levelwind.streaming.spark.batches.progress import read_progress

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


def test_a_batch_without_an_end_has_read_nothing():
    assert read_progress(EVENT | {"sources": [{"endOffset": None}]}, ()).read == {}

"""Garbage collection of the daemon's process."""

import gc
import weakref

import pytest

from levelwind.daemon import garbage


class Node:
    """Something that a cycle can consist of."""


@pytest.fixture(autouse=True)
def collector():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)


@pytest.mark.slow
def test_the_collector_runs_rarely_and_still_finds_cycles():
    garbage.collect_rarely()
    gc.collect()
    lost = cycle()
    begun = gc.get_stats()[0]["collections"]
    kept = [[] for _ in range(garbage.YOUNG_OBJECTS // 2)]
    assert gc.get_stats()[0]["collections"] == begun
    assert lost() is not None
    kept += [[] for _ in range(garbage.YOUNG_OBJECTS)]
    assert lost() is None


def test_a_heap_that_is_kept_is_gone_through_no_more():
    lost, kept = cycle(), [[] for _ in range(1000)]
    garbage.keep_heap()
    assert lost() is None
    assert not any(each is kept for each in gc.get_objects())
    newer = cycle()
    gc.collect()
    assert newer() is None


@pytest.mark.slow
def test_what_was_kept_is_looked_at_again_at_the_next_time():
    node = Node()
    garbage.keep_heap()
    lost = weakref.ref(node)
    node.itself = node
    del node
    gc.collect()
    assert lost() is not None
    garbage.keep_heap()
    assert lost() is None

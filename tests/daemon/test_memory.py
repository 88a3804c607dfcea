"""Memory of the daemon's process: its collector of garbage, and the C library's allocator."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from levelwind.daemon import memory


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
    memory.collect_rarely()
    gc.collect()
    lost = cycle()
    begun = gc.get_stats()[0]["collections"]
    kept = [[] for _ in range(memory.YOUNG_OBJECTS // 2)]
    assert gc.get_stats()[0]["collections"] == begun
    assert lost() is not None
    kept += [[] for _ in range(memory.YOUNG_OBJECTS)]
    assert lost() is None


def test_a_heap_that_is_kept_is_gone_through_no_more():
    lost, kept = cycle(), [[] for _ in range(1000)]
    memory.keep_heap()
    assert lost() is None
    assert not any(each is kept for each in gc.get_objects())
    newer = cycle()
    gc.collect()
    assert newer() is None


@pytest.mark.slow
def test_what_was_kept_is_looked_at_again_at_the_next_time():
    node = Node()
    memory.keep_heap()
    lost = weakref.ref(node)
    node.itself = node
    del node
    gc.collect()
    assert lost() is not None
    memory.keep_heap()
    assert lost() is None


of_glibc = pytest.mark.skipif(
    not hasattr(memory._LIBRARY, "malloc_trim"), reason="another C library than glibc"
)
BLOCK_BYTES = 2000
"""More than Python's own memory serves."""


def resident_mb():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@of_glibc
def test_freed_memory_between_memory_in_use_is_given_back():
    blocks = [bytes(BLOCK_BYTES) for _ in range(20_000)]
    kept = blocks[::100]
    del blocks
    before = resident_mb()
    memory.give_back()
    assert resident_mb() < before - 20
    assert len(kept) == 200


ARENAS_OF_THREADS = """
import re, sys, threading
from pathlib import Path
from levelwind.daemon import memory
if sys.argv[1] == "few":
    memory.use_few_arenas()
held = []
ready = threading.Barrier(13)
def hold():
    held.append([bytes(2000) for _ in range(200)])
    ready.wait()
threads = [threading.Thread(target=hold) for _ in range(12)]
for thread in threads:
    thread.start()
ready.wait()
# Each further arena is a mapping that begins at a multiple of 64 MiB.
row = r"^([0-9a-f]+)-[0-9a-f]+ rw-p 0+ 00:00 0 *$"
starts = re.findall(row, Path("/proc/self/maps").read_text(), re.M)
print(sum(int(start, 16) % (64 << 20) == 0 for start in starts))
"""


@of_glibc
def test_threads_share_a_few_arenas():
    counts = {
        which: int(subprocess.check_output([sys.executable, "-c", ARENAS_OF_THREADS, which]))
        for which in ("few", "many")
    }
    assert counts["few"] < memory.ARENAS < counts["many"]

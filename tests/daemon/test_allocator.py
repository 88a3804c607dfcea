"""The C library's allocator of the daemon's process."""

import subprocess
import sys
from pathlib import Path

import pytest

from levelwind.daemon import allocator

pytestmark = pytest.mark.skipif(
    not hasattr(allocator._LIBRARY, "malloc_trim"), reason="another C library than glibc"
)

BLOCK_BYTES = 2000
"""More than Python's own allocator serves."""


def resident_mb():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_freed_memory_between_memory_in_use_is_given_back():
    blocks = [bytes(BLOCK_BYTES) for _ in range(20_000)]
    kept = blocks[::100]
    del blocks
    before = resident_mb()
    allocator.give_back()
    assert resident_mb() < before - 20
    assert len(kept) == 200


ARENAS_OF_THREADS = """
import re, sys, threading
from pathlib import Path
from levelwind.daemon import allocator
if sys.argv[1] == "few":
    allocator.use_few_arenas()
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


def test_threads_share_a_few_arenas():
    counts = {
        which: int(subprocess.check_output([sys.executable, "-c", ARENAS_OF_THREADS, which]))
        for which in ("few", "many")
    }
    assert counts["few"] < allocator.ARENAS < counts["many"]

"""The work of a call, in numbers that are the same on every machine, however busy: steps and bytes.

A step is a line of Python that is run, or a call of a function of C. The work within one such
function is no step; what a test bounds by steps it bounds by memory, too.
"""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def counted_steps(call: Callable[[], Answer]) -> tuple[Answer, int]:
    """Call, and return the answer with the number of steps in this thread."""
    steps = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Callable[..., Any]:
        nonlocal steps
        steps += event == "line"
        return trace

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal steps
        steps += event == "c_call"

    former = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        return call(), steps
    finally:
        sys.settrace(former[0])
        sys.setprofile(former[1])


@contextmanager
def memory_traced() -> Iterator[None]:
    """Trace memory for the length of a block, which slows it threefold."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def peak_bytes(call: Callable[[], Answer]) -> tuple[Answer, int]:
    """Call within `memory_traced`, and return the answer with the most memory taken at a time."""
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    answer = call()
    _, peak = tracemalloc.get_traced_memory()
    return answer, peak - before

"""A system that gives no thread, as where a limit of processes is reached."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

REFUSAL = "can't start new thread"
"""What Python says then."""


@contextmanager
def refused_threads(*names: str) -> Iterator[None]:
    """Refuse each thread whose name begins with one of these, and no other."""
    start = Thread.start

    def refuse(thread: Thread) -> None:
        if thread.name.startswith(names):
            raise RuntimeError(REFUSAL)
        start(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Thread, "start", refuse)
        yield

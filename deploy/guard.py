"""A child that never outlives its parent, however the parent ends.

Between the two stands a guard process. It ends the child when its own standard input, which only the parent holds, comes to
its end: the kernel closes that for a parent that was killed, too. On Linux the kernel also kills the child of a
killed guard. Guard and child are in a session of their own, so that Ctrl-C in a terminal reaches the parent alone, which
then stops its children in the order that it wants.

As a program: `python -m deploy.guard [--grace SECONDS] -- COMMAND…`, its standard input held open. It ends with the child's
exit code (128 + n for signal n). This file uses the standard library alone and runs without the package.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

GRACE = 5.0
"""Seconds from the polite signal to the one that no process survives."""

_PR_SET_PDEATHSIG = 1
_NOT_EXECUTABLE = 127
_POLL = 1.0


# The parent's side.


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A running child under its guard, as its parent holds it."""

    process: subprocess.Popen[bytes]
    grace: float

    def poll(self) -> int | None:
        """The child's exit code, None while it runs."""
        return self.process.poll()

    def ask_to_stop(self) -> None:
        """Begin to end the child, politely first; returns at once."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()

    def stop(self) -> int:
        """End the child and wait until it is gone; its exit code."""
        self.ask_to_stop()
        return self.process.wait()

    def ask_to_kill(self) -> None:
        """End the child and all that it started, at once; returns before that is done."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)

    def kill(self) -> int:
        """End the child as if the machine had lost it, and wait until it is gone; its exit code."""
        self.ask_to_kill()
        return self.process.wait()


def start(
    command: Sequence[str],
    *,
    grace: float = GRACE,
    output: IO[bytes] | int | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    keep_open: Sequence[int] = (),
) -> Guarded:
    """Start a command under a guard; `output` takes what both write, `keep_open` are files held until the guard ends."""
    guard = [sys.executable, "-I", "-S", __file__, "--grace", str(grace), "--", *command]
    process = subprocess.Popen(  # noqa: S603 - the caller's own command
        guard,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        env=environment,
        cwd=directory,
        pass_fds=keep_open,
        start_new_session=True,
    )
    return Guarded(process=process, grace=grace)


# The guard's side.


def guard(command: Sequence[str], grace: float) -> int:
    """Run the command until it ends or the parent wants it to or is gone; its exit code."""
    parent = os.getppid()
    signals = _signals_as_bytes()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    guard_pid = os.getpid()

    def die_with_guard() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard_pid:  # it died before the kernel knew
                os._exit(1)

    try:
        child = subprocess.Popen(  # noqa: S603 - the caller's own command
            command,
            stdin=subprocess.DEVNULL,
            process_group=0,  # so that a child's own children can be ended with it
            preexec_fn=die_with_guard,  # noqa: PLW1509 - this process has one thread
        )
    except OSError as error:
        sys.stderr.write(f"guard: cannot start {command[0]}: {error.strerror}\n")
        return _NOT_EXECUTABLE
    kill_at = None
    while child.poll() is None:
        timeout = _POLL if kill_at is None else max(0.0, min(_POLL, kill_at - time.monotonic()))
        wants_stop, wants_kill = _heard(signals, listening=kill_at is None, timeout=timeout)
        if kill_at is None and (wants_stop or os.getppid() != parent):
            child.terminate()
            kill_at = time.monotonic() + grace
        if wants_kill or (kill_at is not None and time.monotonic() >= kill_at):
            _kill_group(child.pid)
            child.wait()
    _kill_group(child.pid)  # what the child left behind
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _signals_as_bytes() -> int:
    """From now on each signal is a byte in the pipe whose reading end this returns."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.set_blocking(read, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return read


def _heard(signals: int, *, listening: bool, timeout: float) -> tuple[bool, bool]:
    """Wait for a word: whether the child is to stop, and whether at once."""
    sources = [signals, 0] if listening else [signals]
    ready, _, _ = select.select(sources, [], [], timeout)
    arrived = set(os.read(signals, 256)) if signals in ready else set()
    ended = 0 in ready and not os.read(0, 4096)
    polite = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    return ended or bool(arrived & polite), signal.SIGUSR1 in arrived


def _kill_group(group: int) -> None:
    with contextlib.suppress(
        ProcessLookupError, PermissionError
    ):  # macOS says the latter of a group of zombies
        os.killpg(group, signal.SIGKILL)


def main(arguments: Sequence[str]) -> int:
    """The command line: `[--grace SECONDS] -- COMMAND…`."""
    before, separator, command = list(arguments), "--", []
    if separator in before:
        cut = before.index(separator)
        before, command = before[:cut], before[cut + 1 :]
    if not command or (before and (len(before) != 2 or before[0] != "--grace")):
        sys.stderr.write("usage: python -m deploy.guard [--grace SECONDS] -- COMMAND…\n")
        return 2
    return guard(command, float(before[1]) if before else GRACE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Guard: a child process that never outlives its parent, however the parent ends.

A guard process stands between parent and child. The guard ends the child when the guard's standard
input, which only the parent holds, reaches its end: the kernel closes it even for a parent that was
killed. On Linux the kernel also kills the child of a killed guard. Guard and child are in a session
of their own, so that Ctrl-C in a terminal reaches the parent alone, which then stops its children
in the order that it wants. Both ignore SIGHUP, which asks a daemon to read its settings again, also
where a supervisor sends it to all processes of a service.

Use as a program: `python -m levelwind.deploy.guard [--grace SECONDS] -- COMMAND…`, with standard
input held open. Its exit code is the child's (128 + n for signal n). This file uses the standard
library alone and runs without the package.
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

GRACE_SECONDS = 5.0
"""Seconds from SIGTERM to SIGKILL."""

_PR_SET_PDEATHSIG = 1
_NOT_EXECUTABLE = 127
_POLL_SECONDS = 1.0


# The parent's side.


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A running child under its guard, as the parent holds it."""

    process: subprocess.Popen[bytes]
    """The guard; its exit code is the child's."""

    def poll(self) -> int | None:
        """Exit code of the child; None while it runs."""
        return self.process.poll()

    def ask_to_stop(self) -> None:
        """Ask the child to end, with SIGTERM first; return at once."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()

    def stop(self) -> int:
        """End the child, wait for it and return its exit code."""
        self.ask_to_stop()
        return self.process.wait()

    def ask_to_kill(self) -> None:
        """Kill the child and every process that it started; return at once."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)

    def kill(self) -> int:
        """Kill the child as a lost machine would, wait for it and return its exit code."""
        self.ask_to_kill()
        return self.process.wait()


def start(
    command: Sequence[str],
    *,
    grace: float = GRACE_SECONDS,
    output: IO[bytes] | int | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    keep_open: Sequence[int] = (),
) -> Guarded:
    """Start a command under a guard.

    Args:
        command: the command and its arguments.
        grace: seconds from SIGTERM to SIGKILL.
        output: file or descriptor for the output of guard and child; None inherits the parent's.
        environment: environment of the child; None inherits the parent's.
        directory: working directory; None inherits the parent's.
        keep_open: file descriptors held open until the guard ends.
    """
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
    return Guarded(process=process)


# The guard's side.


def guard(command: Sequence[str], grace: float) -> int:
    """Run the command until it ends or the parent stops it or is gone; return its exit code."""
    parent = os.getppid()
    signals = _signals_as_bytes()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    guard_pid = os.getpid()

    def die_with_guard() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard_pid:  # the guard died before prctl
                os._exit(1)

    try:
        child = subprocess.Popen(  # noqa: S603 - the caller's own command
            command,
            stdin=subprocess.DEVNULL,
            process_group=0,  # its own children end with it
            preexec_fn=die_with_guard,  # noqa: PLW1509 - this process has one thread
        )
    except OSError as error:
        sys.stderr.write(f"guard: cannot start {command[0]}: {error.strerror}\n")
        return _NOT_EXECUTABLE
    kill_at = None
    while child.poll() is None:
        timeout = _POLL_SECONDS
        if kill_at is not None:
            timeout = max(0.0, min(timeout, kill_at - time.monotonic()))
        wants_stop, wants_kill = _wait_for_signal(
            signals, watch_parent=kill_at is None, timeout=timeout
        )
        if kill_at is None and (wants_stop or os.getppid() != parent):
            child.terminate()
            kill_at = time.monotonic() + grace
        if wants_kill or (kill_at is not None and time.monotonic() >= kill_at):
            _kill_group(child.pid)
            child.wait()
    _kill_group(child.pid)  # processes that the child left behind
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _signals_as_bytes() -> int:
    """Turn each signal into a byte of a pipe; return the reading end of the pipe."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.set_blocking(read, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the child inherits it
    return read


def _wait_for_signal(signals: int, *, watch_parent: bool, timeout: float) -> tuple[bool, bool]:
    """Wait for a signal; return whether the child must stop, and whether it must be killed."""
    sources = [signals, 0] if watch_parent else [signals]
    ready, _, _ = select.select(sources, [], [], timeout)
    arrived = set(os.read(signals, 256)) if signals in ready else set()
    ended = 0 in ready and not os.read(0, 4096)
    stop_signals = {signal.SIGTERM, signal.SIGINT}
    return ended or bool(arrived & stop_signals), signal.SIGUSR1 in arrived


def _kill_group(group: int) -> None:
    # macOS raises PermissionError for a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def main(arguments: Sequence[str]) -> int:
    """Command line: `[--grace SECONDS] -- COMMAND…`."""
    before, separator, command = list(arguments), "--", []
    if separator in before:
        cut = before.index(separator)
        before, command = before[:cut], before[cut + 1 :]
    if not command or (before and (len(before) != 2 or before[0] != "--grace")):
        sys.stderr.write("usage: python -m levelwind.deploy.guard [--grace SECONDS] -- COMMAND…\n")
        return 2
    return guard(command, float(before[1]) if before else GRACE_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

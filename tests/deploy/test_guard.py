"""A guarded child never outlives its parent, and is told before it is ended."""

import os
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from levelwind.deploy import guard
from levelwind_testing.waiting import wait_until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = """
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("deaf", flush=True)
    time.sleep(600)
"""


def python(source):
    return [sys.executable, "-c", textwrap.dedent(source)]


def wait_for_line(log, line):
    wait_until(f"line {line}", lambda: line in log.read_text())


def only_child(process):
    return wait_until("child", psutil.Process(process.pid).children)[0]


def is_gone(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def parent():
    """A process that guards a sleeper, and that a test may end as it likes."""
    source = f"""
        import signal
        from levelwind.deploy import guard
        # Where the tests run under nohup, all that they start ignores it.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        child = guard.start({SLEEPER!r})
        child.process.wait()
    """
    process = subprocess.Popen(python(source), start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_the_exit_code_is_the_childs():
    assert guard.start(python("raise SystemExit(7)")).process.wait() == 7


def test_a_child_that_died_of_a_signal_is_reported_as_shells_do():
    assert guard.start(python("import os; os.kill(os.getpid(), 11)")).process.wait() == 128 + 11


def test_a_command_that_is_not_there_is_said_so(tmp_path):
    with (tmp_path / "log").open("wb") as output:
        child = guard.start(["/nowhere/java"], output=output)
    assert child.process.wait() == 127
    assert "cannot start /nowhere/java: No such file" in (tmp_path / "log").read_text()


def test_a_child_may_end_in_its_own_way_when_asked_to_stop(tmp_path):
    source = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("goodbye", flush=True), sys.exit(3)))
        print("ready", flush=True)
        time.sleep(600)
    """
    with (tmp_path / "log").open("wb") as output:
        child = guard.start(python(source), output=output)
    wait_for_line(tmp_path / "log", "ready")
    assert child.stop() == 3
    assert (tmp_path / "log").read_text().splitlines() == ["ready", "goodbye"]


def test_a_child_that_does_not_listen_is_killed_after_the_grace(tmp_path):
    with (tmp_path / "log").open("wb") as output:
        child = guard.start(python(STUBBORN), output=output, grace=0.2)
    wait_for_line(tmp_path / "log", "deaf")
    assert child.stop() == 128 + signal.SIGKILL


def test_a_kill_does_not_wait_for_the_grace(tmp_path):
    with (tmp_path / "log").open("wb") as output:
        child = guard.start(python(STUBBORN), output=output, grace=3600)
    wait_for_line(tmp_path / "log", "deaf")
    child.ask_to_stop()
    assert child.kill() == 128 + signal.SIGKILL


def test_what_a_child_leaves_behind_when_it_ends_by_itself_is_ended(tmp_path):
    go = tmp_path / "go"
    source = f"""
        import pathlib, subprocess, time
        subprocess.Popen({SLEEPER!r})
        while not pathlib.Path({str(go)!r}).exists():
            time.sleep(0.02)
    """
    child = guard.start(python(source))
    grandchild = only_child(only_child(child.process))
    go.touch()
    assert child.process.wait() == 0
    wait_until("end of the grandchild", lambda: is_gone(grandchild))


def test_what_the_child_started_is_killed_with_it():
    source = f"""
        import subprocess, time
        subprocess.Popen({SLEEPER!r})
        time.sleep(600)
    """
    child = guard.start(python(source))
    grandchild = only_child(only_child(child.process))
    child.kill()
    wait_until("end of the grandchild", lambda: is_gone(grandchild))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "terminal gone"])
def test_nothing_is_left_of_a_parent_that_was_ended(parent, how):
    guarding = only_child(parent)
    child = only_child(guarding)
    parent.send_signal(how)
    wait_until("end of both", lambda: is_gone(guarding) and is_gone(child))


@pytest.mark.skipif(
    sys.platform != "linux", reason="other kernels have no signal for a parent's death"
)
def test_nothing_is_left_when_parent_and_guard_are_killed_together(parent):
    guarding = only_child(parent)
    child = only_child(guarding)
    guarding.kill()
    parent.kill()
    wait_until("end of both", lambda: is_gone(guarding) and is_gone(child))


def test_an_interrupt_from_the_terminal_reaches_the_parent_alone(parent):
    guarding = only_child(parent)
    child = only_child(guarding)
    groups = {os.getpgid(process.pid) for process in (guarding, child)}
    assert os.getpgid(parent.pid) not in groups
    assert os.getsid(child.pid) != os.getsid(parent.pid)


@pytest.mark.parametrize("to", ["guard", "child"])
def test_a_signal_to_read_the_settings_again_ends_nothing(to):
    child = guard.start(SLEEPER)
    reached = {"guard": psutil.Process(child.process.pid), "child": only_child(child.process)}
    reached[to].send_signal(signal.SIGHUP)
    assert child.kill() == 128 + signal.SIGKILL  # neither SIGHUP nor the guard's SIGTERM


def test_as_a_program_it_holds_its_child_until_its_input_ends():
    process = subprocess.Popen(
        [sys.executable, "-m", "levelwind.deploy.guard", "--", *SLEEPER], stdin=subprocess.PIPE
    )
    only_child(process)
    assert process.poll() is None
    process.stdin.close()
    assert process.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize("arguments", [[], ["sleep", "1"], ["--"], ["--grace", "--", "sleep"]])
def test_a_wrong_command_line_is_refused(arguments, capfd):
    assert guard.main(arguments) == 2
    assert "usage" in capfd.readouterr().err

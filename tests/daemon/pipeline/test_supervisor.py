import errno
import os
import stat
import sys
import threading

import pytest
from structlog.testing import capture_logs

from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.daemon.errors import PipelineFailedError
from levelwind.daemon.pipeline.liveness.signs_of_life import SignCounts
from levelwind.daemon.pipeline.supervisor import Attempts, PipelineChild, relay
from levelwind.deploy import guard
from levelwind_testing.waiting import wait_until

ALLOWED = Attempts(allowed=2, window=60.0)


def test_the_first_restart_is_at_once_and_each_further_death_doubles_the_pause():
    attempts, pauses = ALLOWED, [ALLOWED.pause]
    for now in (0.0, 1.0, 2.0, 3.0):
        attempts = attempts.after_death(now)
        pauses.append(attempts.pause)
    assert pauses == [0.0, 0.0, 1.0, 2.0, 4.0]


def test_it_gives_up_after_more_deaths_than_allowed_within_the_window():
    assert not ALLOWED.after_death(0).after_death(1).exhausted
    assert ALLOWED.after_death(0).after_death(1).after_death(2).exhausted
    assert not ALLOWED.after_death(0).after_death(1).after_death(61.5).exhausted


def test_the_pause_has_an_end():
    attempts = Attempts(allowed=99, window=1e9)
    for now in range(20):
        attempts = attempts.after_death(float(now))
    assert attempts.pause == attempts.pauses.longest


def test_the_childs_events_are_said_as_ours_and_other_lines_as_a_librarys():
    lines = [
        b'{"event": "pipeline.started", "level": "info", "time": "x", "seconds": 1.5}\n',
        b"\n",
        b"Streaming TransformWithStateInPandas Python worker.\n",
        b"# A fatal error has been detected by the Java Runtime Environment\n",
        b'{"no": "event"}\n',
        b'["level"]\n',
    ]
    with capture_logs() as events:
        relay(lines)
    assert [(s["event"], s["log_level"]) for s in events] == [("pipeline.started", "info")] + [
        ("library.log", "info")
    ] * 3
    assert events[0]["seconds"] == 1.5
    assert "fatal error" in events[1]["text"]


def test_the_childs_output_is_read_on_and_said_whatever_becomes_of_an_event():
    def on_event(event):
        raise KeyError("percent")

    lines = [
        b'{"event": "pipeline.catching_up", "level": "info"}\n',
        b'{"event": "pipeline.started", "level": "info"}\n',
    ]
    with capture_logs() as events:
        relay(lines, on_event)
    assert [s["event"] for s in events] == [
        "pipeline.catching_up",
        "library.log",
        "pipeline.started",
        "library.log",
    ]
    assert "KeyError('percent')" in events[1]["text"]


def test_heartbeats_and_batches_are_signs_of_life_and_no_other_event_is():
    signs = []
    lines = [
        b'{"event": "pipeline.heartbeat", "level": "debug", "progress": true, "fed": false}\n',
        (
            b'{"event": "pipeline.heartbeat", "level": "debug", "progress": false, "fed": true,'
            b' "unserved": "no leader of a/3"}\n'
        ),
        b'{"event": "pipeline.batch", "level": "debug", "rows": 1}\n',
        b'{"event": "library.log", "level": "warning", "library": "librdkafka", "text": "x"}\n',
        b'{"event": "pipeline.started", "level": "info"}\n',
    ]
    counts = SignCounts()

    def count(event):
        counts.add_event(event)
        signs.append((counts.answers, counts.progress, counts.fed, counts.unserved))

    relay(lines, lambda _: None, count)
    assert signs == [
        (1, 1, False, None),
        (2, 1, True, "no leader of a/3"),
        (3, 2, False, None),
    ]


def test_the_settings_of_the_process_are_for_this_user_alone_even_in_a_file_that_existed(tmp_path):
    file = tmp_path / "pipeline-settings.json"
    file.touch(0o644)
    file.chmod(0o644)
    settings = Settings(state_dir=tmp_path, kafka={"sasl.password": "secret"})
    child = PipelineChild(settings, tuple, ALLOWED, command=("true",))
    child.watch(0.0)
    child.stop()
    assert "secret" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def missing_directory(child, monkeypatch):
    child._file = child._file.parent / "later" / child._file.name
    return child._file.parent.mkdir


def refused_process(child, monkeypatch):
    def start(*_, **__):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(guard, "start", start)
    return monkeypatch.undo


def refused_thread(child, monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    return monkeypatch.undo


def unreadable_jars(child, monkeypatch):
    def jars():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(child, "_jars", jars)
    return monkeypatch.undo


@pytest.mark.parametrize(
    "trouble", [missing_directory, refused_process, refused_thread, unreadable_jars]
)
def test_a_start_that_the_machine_refuses_is_a_death_after_which_the_next_one_is_tried(
    tmp_path, monkeypatch, trouble
):
    child = PipelineChild(Settings(state_dir=tmp_path), tuple, ALLOWED, command=("true",))
    end_trouble = trouble(child, monkeypatch)
    with capture_logs() as events:
        child.watch(0.0)
        assert not child._running
        child.watch(0.1)
        child.watch(1.0)
    assert [event["event"] for event in events] == [
        "pipeline.starting",
        "pipeline.failed",
        "pipeline.died",
    ] * 2
    assert {event["cause"] for event in events if event["event"] == "pipeline.failed"} == {
        "machine"
    }
    assert [event["restart_in"] for event in events if "restart_in" in event] == [0.0, 1.0]
    end_trouble()
    child.watch(1.2)
    assert child._running
    child.stop()


def test_a_process_whose_output_nobody_can_read_is_ended(tmp_path, monkeypatch):
    """A limit of processes counts threads, too."""
    started = []

    def start(*arguments, **options):
        started.append(guard_start(*arguments, **options))
        return started[-1]

    guard_start = guard.start
    monkeypatch.setattr(guard, "start", start)
    child = PipelineChild(Settings(state_dir=tmp_path), tuple, ALLOWED, command=("sleep", "600"))
    refused_thread(child, monkeypatch)
    with capture_logs() as events:
        child.watch(0.0)
    assert [one.poll() is None for one in started] == [False]
    (failed,) = [event for event in events if event["event"] == "pipeline.failed"]
    assert "can't start new thread" in failed["error"]


def test_the_jars_are_looked_for_until_they_are_known(tmp_path):
    """A jar that goes missing later would be fetched while the daemon's loop waits."""
    answers = [(tmp_path / "a.jar",), OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

    def jars():
        answer = answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    child = PipelineChild(Settings(state_dir=tmp_path), jars, ALLOWED, command=("true",))
    child.watch(0.0)
    child.watch(0.1)
    child._running.child.process.wait(120)
    child.watch(61.0)
    child.watch(61.1)
    assert child._running
    child.stop()
    assert str(tmp_path / "a.jar") in (tmp_path / "pipeline-settings.json").read_text()


def test_starts_that_are_refused_again_and_again_end_the_daemon_as_other_deaths_do(
    tmp_path, monkeypatch
):
    child = PipelineChild(Settings(state_dir=tmp_path), tuple, ALLOWED, command=("true",))
    refused_process(child, monkeypatch)
    child.watch(0.0)
    child.watch(0.1)
    with pytest.raises(PipelineFailedError, match="3 times within 60 s, last at its start"):
        child.watch(2.0)


# A real process under the real guard, with the supervisor's clock.

CHILD = """
import time
kind = {kind!r}
progress = "false" if kind == "idle" else "true"
while True:
    print('{{"event": "pipeline.heartbeat", "level": "debug", "progress": %s}}' % progress,
          flush=True)
    time.sleep(60 if kind == "mute" else 0.005)
"""
LIMITS = PipelineSection(answer_timeout=60.0, progress_timeout=300.0)


@pytest.fixture
def supervised(tmp_path):
    """Starts a process of a kind under supervision."""
    started = []

    def start(kind):
        settings = Settings(state_dir=tmp_path, pipeline=LIMITS)
        command = (sys.executable, "-c", CHILD.format(kind=kind))
        child = PipelineChild(settings, tuple, Attempts(allowed=9, window=600.0), command=command)
        started.append(child)
        return child

    yield start
    for child in started:
        child.stop()


def watched(child, kind, since, seconds):
    """Look at the process every four seconds of the supervisor's clock; return the time after."""
    for now in range(int(since), int(since + seconds), 4):
        if child._running and (kind != "mute" or child._running.signs.seen.answers == 0):
            await_sign(child._running.signs)
        child.watch(now)
    return since + seconds


def await_sign(running):
    """Wait for the next sign of life, however busy the machine is."""
    signs = running.seen.answers
    wait_until("sign of life", lambda: running.counts.answers > signs, pause=0.002)


@pytest.mark.slow
def test_a_heartbeat_keeps_a_process_alive_and_is_not_logged(supervised):
    child = supervised("busy")
    with capture_logs() as events:
        watched(child, "busy", 0, 600)
    assert [event["event"] for event in events] == ["pipeline.starting"]


@pytest.mark.parametrize(
    ("kind", "after", "reason"),
    [("mute", 64, "the JVM has not answered"), ("idle", 420, "no progress")],
)
def test_a_silent_process_is_killed_and_the_next_attempt_starts_within_seconds(
    supervised, kind, after, reason
):
    child = supervised(kind)
    quiet = ["pipeline.quiet"] if kind == "mute" else []
    with capture_logs() as events:
        watched(child, kind, 0, after)
        assert [event["event"] for event in events] == ["pipeline.starting", *quiet]
        child.watch(after)
        assert events[-1]["event"] == "pipeline.silent"
        child._running.child.process.wait(120)
        child.watch(after + 1)
    names = [event["event"] for event in events]
    ended = ["pipeline.silent", "pipeline.died", "pipeline.starting"]
    assert names == ["pipeline.starting", *quiet, *ended]
    assert reason in events[-3]["reason"]
    assert events[-2]["exit_code"] == 137

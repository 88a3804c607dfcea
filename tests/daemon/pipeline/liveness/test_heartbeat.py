import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from levelwind.daemon.pipeline.liveness.heartbeat import (
    BUSY_SECONDS,
    CPU_WINDOW_SECONDS,
    Heartbeat,
    Standstill,
    cpu_seconds,
    death_of_jvm,
)
from levelwind_testing.waiting import wait_until


class Probe:
    """A query without Spark."""

    def __init__(self, *, answers=True):
        self.answers = answers

    def batches_done(self):
        return 0

    def is_fed(self):
        return True

    def unserved(self):
        return "no leader of a/3"

    def is_working(self):
        if not self.answers:
            raise ConnectionResetError("nobody answers")
        return False


def standstill(share):
    """A query that uses a share of a core."""
    now = [0.0]
    return Standstill(lambda: share * now[0]), now


def over(query, now, seconds, *, batches=0, working=True):
    """Whether the query got on in each of some seconds."""
    got_on = []
    for _ in range(int(seconds)):
        now[0] += 1.0
        got_on.append(query.progressed(now[0], batches=batches, working=working))
    return got_on


def test_a_query_without_work_and_one_that_does_batches_get_on():
    query, now = standstill(0.0)
    assert all(over(query, now, 100, working=False))
    assert all(over(query, now, 1, batches=number)[0] for number in range(1, 50))


def test_a_long_batch_gets_on_while_it_uses_the_cpu():
    query, now = standstill(0.05)
    assert sum(over(query, now, 10 * CPU_WINDOW_SECONDS)) >= 9


def test_a_batch_without_use_of_the_cpu_stands_still():
    query, now = standstill(0.005)  # what the heartbeat itself takes
    assert sum(over(query, now, 1000)) == 1  # its beginning


def test_work_before_a_standstill_hides_none_of_it():
    used = [0.0]
    query, now = Standstill(lambda: used[0]), [0.0]
    for _ in range(100):
        used[0] += 1.0
        over(query, now, 1)
    assert over(query, now, 100) == [False] * 100


def test_a_batch_that_uses_the_cpu_now_and_then_gets_on():
    used = [0.0]
    query, now = Standstill(lambda: used[0]), [0.0]
    for _ in range(10):
        over(query, now, CPU_WINDOW_SECONDS - 1)
        used[0] += 1.5 * BUSY_SECONDS
        assert over(query, now, 1) == [True]


def test_where_the_cpu_time_is_unknown_the_answer_of_the_jvm_suffices():
    query = Standstill(lambda: None)
    assert all(over(query, [0.0], 100))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_cpu_time_counts_the_process_and_its_descendants():
    spin = "import time\nwhile time.process_time() < 0.3: pass\n"
    script = (
        f"import subprocess, sys, time\n{spin}\n"
        f"child = subprocess.Popen([sys.executable, '-c', {spin + 'time.sleep(60)'!r}])\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    try:
        wait_until("CPU time of both", lambda: cpu_seconds(process.pid) >= 0.5)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert cpu_seconds(process.pid) is None


def test_each_heartbeat_says_whether_the_query_gets_on():
    events, ended = [], threading.Event()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as jvm:
        heartbeat = Heartbeat(jvm, Probe(), events.append, ended.set)
        assert heartbeat._beat()
        jvm.kill()
    assert events == [
        {
            "event": "pipeline.heartbeat",
            "level": "debug",
            "progress": True,
            "fed": False,
            "unserved": None,
        }
    ]
    assert not ended.is_set()


def test_a_heartbeat_of_a_query_that_stands_still_says_what_no_broker_serves():
    events = []
    heartbeat = Heartbeat(None, Probe(), events.append, lambda: None)
    heartbeat._standstill = SimpleNamespace(progressed=lambda *_, **__: False)
    assert heartbeat._beat()
    assert events[0]["unserved"] == "no leader of a/3"


def test_a_jvm_that_was_killed_is_reported_and_ends_the_process():
    ended = threading.Event()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as jvm:
        jvm.kill()
        with capture_logs() as events:
            assert not Heartbeat(jvm, Probe(answers=False), lambda _: None, ended.set)._beat()
    (event,) = events
    assert (event["event"], event["cause"], event["rebuild"]) == (
        "pipeline.failed",
        "machine",
        False,
    )
    assert "signal 9" in event["error"]
    assert ended.is_set()


@pytest.mark.slow
def test_a_jvm_that_lives_and_does_not_answer_is_left_to_the_parent():
    ended, beats = threading.Event(), []
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as jvm:
        assert Heartbeat(jvm, Probe(answers=False), beats.append, ended.set)._beat()
        jvm.kill()
    assert beats == []
    assert not ended.is_set()


def test_the_end_of_a_jvm_has_a_name():
    assert "ended with exit code 3" in death_of_jvm(3)
    assert "ended by signal 11" in death_of_jvm(-11)


def test_a_jvm_whose_tasks_run_elsewhere_needs_no_cpu_of_this_machine():
    heartbeat = Heartbeat(None, Probe(), lambda _: None, lambda: None, everywhere=True)
    assert heartbeat._beat()
    assert heartbeat.answered_within(5.0)
    assert all(over(heartbeat._standstill, [0.0], 100))


def test_a_jvm_that_is_no_child_and_does_not_answer_is_left_to_whoever_watches():
    heartbeat = Heartbeat(None, Probe(answers=False), lambda _: None, lambda: None)
    heartbeat._answered_at -= 20.0
    assert heartbeat._beat()
    assert not heartbeat.answered_within(15.0)


def test_a_process_whose_name_is_no_text_is_counted_too():
    name = Path("/proc/self/comm")
    before = name.read_bytes()
    name.write_bytes(b"\xff")
    try:
        assert cpu_seconds(os.getpid()) is not None
    finally:
        name.write_bytes(before.rstrip(b"\n"))

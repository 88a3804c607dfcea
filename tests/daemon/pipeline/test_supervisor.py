import structlog
from structlog.testing import capture_logs

from daemon.pipeline.supervisor import Attempts, relay

ALLOWED = Attempts(allowed=2, window=60.0)


def test_the_first_start_is_at_once_and_each_death_doubles_the_pause():
    attempts, pauses = ALLOWED, [ALLOWED.pause]
    for now in (0.0, 1.0, 2.0):
        attempts = attempts.after_death(now)
        pauses.append(attempts.pause)
    assert pauses == [0.0, 1.0, 2.0, 4.0]


def test_it_gives_up_after_more_deaths_than_allowed_within_the_window():
    assert not ALLOWED.after_death(0).after_death(1).exhausted
    assert ALLOWED.after_death(0).after_death(1).after_death(2).exhausted
    assert not ALLOWED.after_death(0).after_death(1).after_death(61.5).exhausted


def test_the_pause_has_an_end():
    attempts = Attempts(allowed=99, window=1e9)
    for now in range(20):
        attempts = attempts.after_death(float(now))
    assert attempts.pause == attempts.longest_pause


def test_the_childs_events_are_said_as_ours_and_other_lines_as_a_librarys():
    lines = [
        b'{"event": "pipeline.started", "level": "info", "time": "x", "seconds": 1.5}\n',
        b"\n",
        b"Streaming TransformWithStateInPandas Python worker.\n",
        b"# A fatal error has been detected by the Java Runtime Environment\n",
        b'{"no": "event"}\n',
        b'["level"]\n',
    ]
    structlog.reset_defaults()  # a command that was tested before may have set its own level
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
    structlog.reset_defaults()
    with capture_logs() as events:
        relay(lines, on_event)
    assert [s["event"] for s in events] == [
        "pipeline.catching_up",
        "library.log",
        "pipeline.started",
        "library.log",
    ]
    assert "KeyError('percent')" in events[1]["text"]

"""What the process writes to its log, and what it loads for that."""

import io
import json
import logging
import subprocess
import sys

import pytest
import structlog

from levelwind.daemon.telemetry.log_config import configure, set_level
from levelwind.daemon.telemetry.logger import Logger

LEVELS = ("debug", "info", "warning", "error")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def restored():
    """The logging of the test's process as it was before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def modules_after(code):
    """The modules that a new interpreter has loaded after some code."""
    program = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_logger_that_logs_nothing_loads_no_library():
    loaded = modules_after("from levelwind.daemon.telemetry.logger import Logger; log = Logger()")
    assert loaded & {"structlog", "rich", "pygments"} == set()


def test_json_lines_are_written_without_rich_and_rich_can_be_imported_afterwards():
    code = (
        "import sys; from levelwind.daemon.telemetry.log_config import configure;"
        "from levelwind.daemon.telemetry.logger import Logger;"
        "configure(form='json'); Logger().info('daemon.stopped', reason='x');"
        "assert 'rich' not in sys.modules and 'pygments' not in sys.modules; import rich.console"
    )
    assert {"structlog", "rich.console"} <= modules_after(code)


def test_a_command_that_configures_no_log_keeps_its_standard_output_for_its_result():
    code = (
        "from types import SimpleNamespace; from levelwind.daemon.kafka import clients;"
        "clients.log_throttled(SimpleNamespace(broker_id=1, throttle_time=0.5)); print('result')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "result\n"
    assert "kafka.throttled" in done.stderr


def test_an_event_is_one_object_a_line_with_its_level_and_time(restored):
    out = io.StringIO()
    configure(form="json", stream=out)
    Logger().warning("topics.drifted", topic="t", found="1")
    event = json.loads(out.getvalue())
    assert event.pop("time")
    assert event == {"event": "topics.drifted", "level": "warning", "topic": "t", "found": "1"}


def test_a_line_of_a_library_is_an_event_with_the_librarys_level(restored):
    out = io.StringIO()
    configure(form="json", stream=out)
    logging.getLogger("librdkafka").warning("FAIL [%s]", "x")
    event = json.loads(out.getvalue())
    assert (event["event"], event["library"], event["text"], event["level"]) == (
        "library.log",
        "librdkafka",
        "FAIL [x]",
        "warning",
    )


def test_events_below_the_level_are_not_written(restored):
    out = io.StringIO()
    configure(level="warning", form="json", stream=out)
    Logger().info("daemon.stopped", reason="signal received")
    assert out.getvalue() == ""


def events_at_each_level(out):
    """The levels at which events of levelwind and lines of a library are written now."""
    written = out.tell()
    for level in LEVELS:
        getattr(Logger(), level)("daemon.stopped", reason="signal received")
        logging.getLogger("a_library").log(getattr(logging, level.upper()), "FAIL")
    lines = map(json.loads, out.getvalue()[written:].splitlines())
    return [(line["event"], line["level"]) for line in lines]


@pytest.mark.parametrize("first", LEVELS)
@pytest.mark.parametrize("second", LEVELS)
def test_a_changed_level_writes_what_a_log_configured_with_it_writes(restored, first, second):
    out = io.StringIO()
    configure(level=second, form="json", stream=out)
    expected = events_at_each_level(out)
    assert len(expected) == 2 * len(LEVELS[LEVELS.index(second) :])
    configure(level=first, form="json", stream=out)
    before = events_at_each_level(out)
    set_level(second)
    assert events_at_each_level(out) == expected
    set_level(first)
    assert events_at_each_level(out) == before


def crash():
    password = "se" + "cret"
    raise RuntimeError(f"a bug, {len(password)}")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_trace_on_a_console_names_the_error_and_shows_no_local_variables(restored, stream):
    out = stream()
    configure(form="console", stream=out)
    try:
        crash()
    except RuntimeError:
        Logger().critical("topic_reader.crashed", error="a bug", exc_info=True)
    assert "RuntimeError" in out.getvalue()
    assert "secret" not in out.getvalue()

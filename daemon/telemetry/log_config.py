"""The process's logging: one JSON object a line, or coloured columns on a terminal.

Every event of levelwind is one of `levelwind.daemon.telemetry.log_events`; lines of libraries
become the event `library.log`. Logs go to standard error, so that the output of a command can be
piped.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal, TextIO

from levelwind.daemon.printable import printable
from levelwind.daemon.telemetry.logger import load_structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

LogFormat = Literal["auto", "json", "console"]

MAX_FRAMES = 100
"""The most frames of a trace on a terminal."""


def configure(
    *, level: str = "info", form: LogFormat = "auto", stream: TextIO | None = None
) -> None:
    """Configure the logging of the process; to be called once, before anything logs.

    Args:
        level: the least severe level that is written (debug, info, warning, error).
        form: json, console, or auto: console only where the stream is a terminal.
        stream: the stream that logs are written to; standard error by default.
    """
    structlog = load_structlog()
    out = stream or sys.stderr
    as_json = form == "json" or (form == "auto" and not out.isatty())
    render: Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(),
            exception_formatter=_rich_trace if out.isatty() else structlog.dev.plain_traceback,
        )
    )
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_as_library_event, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info if as_json else _printable,
                render,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)
    # The scheduler warns of runs that it skipped or missed: these are events of the observer. The
    # other libraries log too much below warnings.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    for name in ("py4j", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)


def set_level(level: str) -> None:
    """Change the least severe level that is written (debug, info, warning, error)."""
    structlog = load_structlog()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    # Events of levelwind go through the root logger as well, and lines of libraries only there.
    logging.getLogger().setLevel(level.upper())


def _as_library_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Move a library's free text into a field, so that `event` is always of the vocabulary."""
    record = event.get("_record")
    return {
        **event,
        "event": "library.log",
        "library": record.name if record is not None else "?",
        "text": event.get("event"),
    }


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Keep names from steering the terminal; all but texts is written as Python would."""
    return {
        name: printable(value) if isinstance(value, str) else value for name, value in event.items()
    }


def _rich_trace(out: TextIO, exc_info: ExcInfo) -> None:
    """Write a coloured trace, without local variables: these may hold passwords of clients."""
    from rich.console import Console  # noqa: PLC0415 - loaded for a trace alone
    from rich.traceback import Traceback  # noqa: PLC0415

    out.write("\n")
    trace = Traceback.from_exception(*exc_info, max_frames=MAX_FRAMES, word_wrap=True)
    Console(file=out, color_system="truecolor").print(trace)

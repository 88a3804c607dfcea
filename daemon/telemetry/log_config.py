"""Structured logs: one JSON object a line where the output is no terminal, coloured columns where it is.

Everything that levelwind itself says is an event of `daemon.events`; lines of libraries come through as `library.log`.
Logs go to standard error, so that the output of a command can be piped.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal, TextIO

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["auto", "json", "console"]


def configure(
    *, level: str = "info", form: LogFormat = "auto", stream: TextIO | None = None
) -> None:
    """Set the process's logging once, before anything logs.

    Args:
        level: the least severe level that is written (debug, info, warning, error).
        form: json, console, or auto: console only where the stream is a terminal.
        stream: where to; standard error by default.
    """
    out = stream or sys.stderr
    as_json = form == "json" or (form == "auto" and not out.isatty())
    render: Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_as_library_event, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info if as_json else _keep,
                render,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # What the scheduler warns of (a run skipped or missed) is an event of ours; the others chat below warning.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    for name in ("py4j", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _as_library_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Give a library's free text a place of its own, so that `event` is always a word of the vocabulary."""
    record = event.get("_record")
    return {
        **event,
        "event": "library.log",
        "library": record.name if record is not None else "?",
        "text": event.get("event"),
    }


def _keep(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return event

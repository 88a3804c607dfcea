"""Loggers that load their library with the first event: commands that log nothing start fast.

`import structlog` takes 0.25 s of CPU, and 0.16 s of that loads rich and pygments, which structlog
needs for coloured traces alone. Here structlog comes without them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class Logger:
    """Writes events of the vocabulary: a method for each level, as of `structlog.get_logger()`."""

    def __getattr__(self, level: str) -> Callable[..., Any]:
        """Return the method that logs an event and its fields at a level."""
        method: Callable[..., Any] = getattr(load_structlog().get_logger(), level)
        return method


def load_structlog() -> ModuleType:
    """Return structlog, and keep its first import from loading rich.

    structlog takes rich for its traces where rich can be imported, and goes without where not.
    `log_config` loads rich by itself when a trace is to be shown on a terminal.
    """
    if "structlog" not in sys.modules and "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment] # any import of it raises now
        try:
            import structlog  # noqa: PLC0415 - see the module
        finally:
            del sys.modules["rich"]
    else:
        import structlog  # noqa: PLC0415 - see the module
    if not structlog.is_configured():
        # A command that configures no log may have a client that says something. Its results are
        # on standard output, which structlog's own loggers write to.
        structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    return structlog

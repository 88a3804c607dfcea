"""Reload of the settings at SIGHUP: what can change does, and what cannot is named."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from levelwind.daemon.config.shown import reloaded
from levelwind.daemon.control.boundary.control_events import SettingsChanged
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.telemetry import log_config
from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from levelwind.daemon.config.settings import Settings

log = Logger()


class SettingsReload:
    """The settings in force, and whether they are to be read again.

    The main thread calls all methods; `ask` only sets a flag, so that a signal's handler may.
    """

    def __init__(self, settings: Settings, read: Callable[[], Settings] | None) -> None:
        """Begin with the settings of the start.

        Args:
            settings: the settings of the start.
            read: reads the settings again, from all of their sources; None: a reload is refused.
        """
        self.settings = settings
        """The settings in force."""
        self._read = read
        self._asked = False

    def ask(self) -> None:
        """Have the settings read again."""
        self._asked = True

    def take(self) -> SettingsChanged | None:
        """Read the settings again if that was asked for; return what the control is to know."""
        if not self._asked:
            return None
        self._asked = False
        if self._read is None:
            log.error("config.refused", error="this process reads its settings only once")
            return None
        try:
            found = reloaded(self.settings, self._read())
        except ConfigurationError as error:
            log.error("config.refused", error=str(error))  # noqa: TRY400 - the text says it all
            return None
        self.settings = found.settings
        log_config.set_level(found.settings.log.level)
        log.info("config.reloaded", changed=found.changed)
        if found.restart_needed:
            log.warning("config.restart_needed", settings=found.restart_needed)
        return SettingsChanged(
            settings=found.settings.control, planning_of=found.settings.planning_of
        )


@contextmanager
def reload_on_signal(reload: SettingsReload) -> Iterator[None]:
    """Have the settings read again at SIGHUP; restore the previous handler and mask at the end.

    A signal that came while SIGHUP was blocked counts.
    """

    def handle(*_: object) -> None:
        reload.ask()

    before = signal.signal(signal.SIGHUP, handle)
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGHUP, before)

"""Callbacks of the application: their errors unwind nothing, and reach it from its next poll.

A hand-over that a callback unwound would be answered by nobody. librdkafka destroys all records of
a batch when a callback raises while `consume` fetches it, and goes on behind them.
"""

from __future__ import annotations

from inspect import iscoroutinefunction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from levelwind.assignors.clients.confluent.settings import SettingError
from levelwind.assignors.clients.flat_settings import flat_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GUARDED_SETTINGS = ("error_cb", "on_commit", "stats_cb", "throttle_cb")
"""Settings of confluent-kafka whose errors come out of the call in which they run.

`oauth_cb` is none: a background thread calls it, and its error counts as a token that is missing.
"""


def require_function(name: str, callback: object) -> None:
    """Raise `SettingError` unless a callback can be called, or is None.

    That of a coroutine can only be awaited, which neither librdkafka nor `ManagedConsumer` does.
    """
    if iscoroutinefunction(callback):
        raise SettingError(f"{name}: expected a function, got a coroutine function: {callback!r}")
    if callback is not None and not callable(callback):
        raise SettingError(f"{name}: expected a function, got {callback!r}")


class CallbackErrors:
    """The first error of one consumer's callbacks, until the application gets it."""

    def __init__(self) -> None:
        self._first: Exception | None = None

    def guard(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Return a callback that keeps its error and returns None instead."""

        def call(*args: Any) -> Any:
            try:
                return callback(*args)
            except Exception as error:  # noqa: BLE001 - the application's, which gets it
                self.keep(error)
                return None

        return call

    def guard_settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings, flat, with guarded callbacks.

        Raises:
            SettingError: A callback cannot be called, or its result would have to be awaited.
        """
        guarded = flat_settings(config)
        for name in (*GUARDED_SETTINGS, "oauth_cb"):
            require_function(name, callback := guarded.get(name))
            if callback is not None and name in GUARDED_SETTINGS:
                guarded[name] = self.guard(callback)
        # The clients of the hand-over log by it as well: its error would end the member's thread.
        if (logger := guarded.get("logger")) is not None:
            if not callable(write := getattr(logger, "log", None)):
                raise SettingError(f"logger: expected a logger, got {logger!r}")
            guarded["logger"] = SimpleNamespace(log=self.guard(write))
        return guarded

    def keep(self, error: Exception) -> None:
        """Keep an error, unless one is kept already."""
        if self._first is None:
            self._first = error

    def raise_first(self) -> None:
        """Raise the error that is kept, once."""
        error, self._first = self._first, None
        if error is not None:
            raise error

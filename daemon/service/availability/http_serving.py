"""What a daemon hands to its HTTP server: the records that it reads, and its readiness."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage
    from levelwind.daemon.service.availability.readiness import Readiness


class HttpServing:
    """The HTTP server of a daemon, which lives as long as its process; this one serves nothing."""

    def on_record(self, read: ConsumedRecord | UnreadMessage) -> None:
        """Take a record that was read; must not wait."""

    def on_replaced(self) -> None:
        """Note that the topics are others from now on."""

    def show(
        self, readiness: Callable[[float], Readiness], settings: Callable[[], Settings]
    ) -> None:
        """Show the daemon that runs from now on.

        Args:
            readiness: returns its readiness, and waits for what is new for so many seconds at
                most; called from any thread.
            settings: returns the settings in force; called from any thread.
        """

    def close(self) -> None:
        """Stop serving."""

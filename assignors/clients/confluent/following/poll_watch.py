"""Watch over `max.poll.interval.ms`, which librdkafka enforces for subscribers only."""

from __future__ import annotations

from levelwind.assignors.boot_clock import boot_seconds


class PollWatch:
    """How long the application has stayed away from `poll`; both threads call its methods."""

    def __init__(self, limit: float) -> None:
        """Begin with the application away; it may be so for `limit` seconds."""
        self.limit = limit
        self._away_since: float | None = boot_seconds()

    def set_polling(self, *, polling: bool) -> None:
        """Note that the application entered (`polling`) or left `poll`."""
        self._away_since = None if polling else boot_seconds()

    @property
    def overdue(self) -> bool:
        """Whether the application has been away for too long."""
        since = self._away_since
        return since is not None and boot_seconds() - since > self.limit

"""What every route needs: the view, the status, the metrics and the tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from levelwind.daemon.service.availability.readiness import Readiness

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from levelwind.daemon.api.access.bearer_tokens import TokenFile
    from levelwind.daemon.api.views.live_view import LiveView
    from levelwind.daemon.config.settings import Settings


def _starting(_: float) -> Readiness:
    return Readiness(role="starting", caught_up=False, instance="", leader=None, planner_epoch=None)


@dataclass(slots=True, kw_only=True)
class ApiContext:
    """Shared by all routes; the event loop's thread uses all of it."""

    settings: Callable[[], Settings]
    """Returns the settings in force, which a reload changes."""
    version: str
    """Version of levelwind."""
    view: LiveView
    registry: CollectorRegistry
    """The daemon's metrics."""
    members_wanted: Callable[[str], int | None] = lambda _: None
    """Returns how many members a group wants, and may wait for what is new; None where this daemon
    does not lead."""
    tokens: TokenFile | None = None
    """The tokens that open the levers; None: they are closed."""
    readiness: Callable[[float], Readiness] = field(default=_starting)
    """Returns the readiness of the daemon that runs, and waits for what is new for so many seconds
    at most; replaced when another one is made."""

    def status_document(self, patience: float = 0.0) -> dict[str, object]:
        """Return the daemon's status.

        Args:
            patience: seconds to wait at most for what is new; the event loop must not.
        """
        readiness = self.readiness(patience)
        return {
            # Not `asdict`, which copies each group.
            **{part.name: getattr(readiness, part.name) for part in fields(readiness)},
            "ready": readiness.caught_up,
            "version": self.version,
            "levers": self.tokens is not None,
        }

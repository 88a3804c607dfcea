"""Claim to the lead: the membership of this daemon in the group of daemons, as settings have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.kafka.lead_group import LeadGroup
from levelwind.daemon.service.leadership import LeadChanged
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.static_leave import leave_static

if TYPE_CHECKING:
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.control.boundary.control_events import Event
    from levelwind.daemon.service.leadership import LeadershipEvent
    from levelwind.daemon.service.mailbox import Mailbox

log = Logger()


def lead_claim(
    settings: Settings,
    kept_id: str,
    mailbox: Mailbox[Event | LeadershipEvent | BaseException],
) -> LeadGroup:
    """Return the membership, which posts a `LeadChanged` when the lead comes or goes.

    It is static, unless the settings have a security that is not known here: then the daemon could
    not leave the group at once, and others would wait for the end of its session.
    """
    config, topics = settings.client(), settings.topics
    try:
        security = client_security(config)
    except ConfigurationError:
        security = None

    def depart() -> None:
        if security is None:
            return  # librdkafka has left
        if (error := leave_static(config, security, topics.control, kept_id)) is not None:
            log.warning("daemon.left_silently", group=topics.control, error=error)

    return LeadGroup(
        config,
        topics,
        session=settings.timers.takeover,
        on_change=lambda owns: mailbox.put("lead", LeadChanged(owns=owns), last=True),
        on_crash=lambda error: mailbox.put("lead group", error),
        static_id=None if security is None else kept_id,
        depart=depart,
        log=log,
    )

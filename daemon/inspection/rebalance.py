"""`levelwind rebalance`: an operator's request for a new plan, written to the control topic."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from assignors.protocol.records import OperatorRecord
from daemon.errors import NotFoundError
from daemon.inspection.group_view import find_group, read_views
from daemon.kafka.record_writer import outgoing, write
from daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from daemon.config.settings import Settings


def request_rebalance(settings: Settings, group: str, reason: str) -> None:
    """Request a new plan for a group.

    Raises:
        NotFoundError: levelwind does not plan for such a group, so no plan would follow.
        ClusterUnavailableError: the cluster does not answer, or did not acknowledge the request
            in time.
    """
    # Reading first also proves that the topics exist: a producer might let the cluster create them
    # with its default settings.
    views = read_views(settings)
    view = find_group(views, group)
    if not (view.plan or view.members):
        raise NotFoundError(
            f"group {group!r} is watched, but none of its consumers follows plans: nothing to plan"
        )
    record = OperatorRecord(
        group=group, at=now_ms(), by=_user_name(), action="rebalance", reason=reason
    )
    records = outgoing(settings.topics, "control", record, partitions=1)
    write(settings.client(), records, timeout=settings.topic.timeout)


def _user_name() -> str:
    """Name of the user that runs the command; the user id in a container without user names."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())

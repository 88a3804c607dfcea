"""An operator's word to the control, written where the control listens."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from assignors.protocol.records import OperatorRecord
from daemon.errors import NotFoundError
from daemon.inspection.group_view import (
    find_group,
    read_views,
)
from daemon.kafka.record_writer import outgoing, write
from daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from daemon.config.settings import Settings


def request_rebalance(settings: Settings, group: str, reason: str) -> None:
    """Ask for a new plan for a group.

    Raises:
        NotFoundError: levelwind plans for no such group, so nobody would follow the word.
        ClusterUnavailableError: the cluster does not answer, or the word was not acknowledged in time.
    """
    # First to read is also not to write: a producer would let a cluster make the topic, and not as it should be.
    views = read_views(settings)
    view = find_group(views, group)
    if not (view.plan or view.members):
        raise NotFoundError(
            f"group {group!r} is watched, but none of its consumers follows plans: there is nothing to plan"
        )
    record = OperatorRecord(
        group=group, at=now_ms(), by=_user_name(), action="rebalance", reason=reason
    )
    records = outgoing(settings.topics, "control", record, partitions=1)
    write(settings.client(), records, timeout=settings.topic.timeout)


def _user_name() -> str:
    """Who asks; in a container the user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())

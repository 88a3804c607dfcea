"""An operator's word to the control, written where the control listens."""

from __future__ import annotations

import getpass
import os
import time
from typing import TYPE_CHECKING

from assignors.protocol.records import OperatorRecord, encode
from daemon.errors import ClusterUnavailableError, NotFoundError
from daemon.inspection.group_view import (
    known,
    read_views,
)
from daemon.kafka import clients

if TYPE_CHECKING:
    from daemon.config.settings import Settings


def ask_for_rebalance(settings: Settings, group: str, reason: str) -> None:
    """Ask for a new plan for a group.

    Raises:
        NotFoundError: levelwind plans for no such group, so nobody would follow the word.
        ClusterUnavailableError: the cluster does not answer, or the word was not acknowledged in time.
    """
    # First to read is also not to write: a producer would let a cluster make the topic, and not as it should be.
    views = read_views(settings)
    view = known(views, group)
    if not (view.plan or view.members):
        raise NotFoundError(
            f"group {group!r} is watched, but none of its consumers follows plans: there is nothing to plan"
        )
    record = OperatorRecord(
        group=group, at=time.time_ns() // 1_000_000, by=_user(), action="rebalance", reason=reason
    )
    key, value = encode(record)
    within = settings.topic.timeout
    failures: list[str] = []
    producer = clients.producer(
        settings.client(), {"enable.idempotence": True, "message.timeout.ms": round(within * 1000)}
    )
    producer.produce(
        settings.topics.control,
        value,
        key,
        partition=0,
        on_delivery=lambda e, _: failures.append(e.str()) if e else None,
    )
    if producer.flush(within) or failures:
        raise ClusterUnavailableError(
            f"{settings.topics.control} did not take it: {', '.join(failures) or 'no answer'}"
        )


def _user() -> str:
    """Who asks; in a container the user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())

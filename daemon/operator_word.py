"""An operator's word to the control, written where the control listens."""

from __future__ import annotations

import getpass
import time
from typing import TYPE_CHECKING

from assignors.protocol.records import OperatorRecord, encode
from daemon import clients
from daemon.errors import ClusterUnavailableError

if TYPE_CHECKING:
    from daemon.settings import Settings


def ask_for_rebalance(settings: Settings, group: str, reason: str) -> None:
    """Ask for a new plan for a group.

    Raises:
        ClusterUnavailableError: the word was not acknowledged in time.
    """
    record = OperatorRecord(
        group=group, at=time.time_ns() // 1_000_000, by=getpass.getuser(), action="rebalance", reason=reason
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
        on_delivery=lambda e, _: failures.append(str(e)) if e else None,
    )
    if producer.flush(within) or failures:
        raise ClusterUnavailableError(
            f"{settings.topics.control} did not take it: {', '.join(failures) or 'no answer'}"
        )

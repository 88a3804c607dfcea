"""Leaving a group as a static member: the request that librdkafka never sends."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.group_requests import LeaveRequest
from levelwind.daemon.wire.shared_connections import SharedConnections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.wire.client_security import ClientSecurity

LEAVE_SECONDS = 1.5
"""Longest time for the request: after it the brokers drop the member by its session."""

CLIENT_ID = "levelwind"


def leave_static(
    client_config: Mapping[str, str], security: ClientSecurity, group: str, static_id: str
) -> str | None:
    """Take a static member out of a classic group at once; return why that failed, None if not.

    Args:
        client_config: librdkafka's settings of the connection.
        security: the security of the connection.
        group: the name of the group.
        static_id: the member's `group.instance.id`.
    """
    try:
        return asyncio.run(_leave(client_config["bootstrap.servers"], security, group, static_id))
    except TimeoutError:
        return "no answer in time"
    except ConnectionFailedError as error:
        return str(error)


async def _leave(
    bootstrap: str, security: ClientSecurity, group: str, static_id: str
) -> str | None:
    async with asyncio.timeout(LEAVE_SECONDS):
        with closing(SharedConnections(addresses(bootstrap), security, CLIENT_ID)) as connections:
            coordinator = await connections.coordinator(group)
            response = await connections.ask(coordinator, LeaveRequest(group, "", static_id))
    return f"error {response.error}" if response.error else None

"""Racks and subscriptions of members, which only the coordinators' own answers hold.

confluent-kafka's descriptions have neither, so the coordinators are asked over the connections of
the leader proxy. Where those do not know the security of the cluster, racks are not known.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from levelwind.daemon.assessment.observed_groups import MemberDetail
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.inspection.live_members import members_by_group
from levelwind.daemon.wire.broker_connection import ConnectionFailedError, open_connection
from levelwind.daemon.wire.client_security import client_security

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.wire.client_security import ClientSecurity

CLIENT_ID = "levelwind-assess"

Details = dict[tuple[str, str], MemberDetail]
"""What members subscribe to, by group and member id."""


def read_details(
    config: Mapping[str, str], coordinators: Mapping[str, tuple[str, int]], timeout: float
) -> tuple[Details, str | None]:
    """Ask the coordinators of some groups for the racks and subscriptions of their members.

    Costs one connection to each coordinator, and at most two requests for each group, one after
    the other.

    Args:
        config: settings of librdkafka.
        coordinators: host and port of the coordinator of each group.
        timeout: seconds for each answer.

    Returns:
        What is known, and why the rest is not; None: all is known.
    """
    if not coordinators:
        return {}, None
    try:
        security = client_security(config)
    except ConfigurationError as error:
        return {}, f"the connections that could ask for them do not fit the settings: {error}"
    return asyncio.run(_read(coordinators, security, timeout))


async def _read(
    coordinators: Mapping[str, tuple[str, int]], security: ClientSecurity, within: float
) -> tuple[Details, str | None]:
    found: Details = {}

    async def read_from(address: tuple[str, int], groups: list[str]) -> str | None:
        """Ask one coordinator; return why it could not be asked for all."""
        try:
            connection = await open_connection(*address, security, CLIENT_ID, within)
        except ConnectionFailedError as error:
            return str(error)
        with closing(connection):
            members, failures = await members_by_group(connection, groups, within)
        for group, described in members.items():
            for member in described:
                found[group, member.id] = MemberDetail(member.rack, member.topics)
        return next((f"{address[0]}:{address[1]}: {why}" for why in failures.values()), None)

    by_address: dict[tuple[str, int], list[str]] = {}
    for group, address in coordinators.items():
        by_address.setdefault(address, []).append(group)
    reasons = await asyncio.gather(*(read_from(*asked) for asked in by_address.items()))
    return found, next(filter(None, reasons), None)

"""Members of groups as the brokers describe them: their ids, hosts and client ids.

Classic groups and those of KIP-848 are asked for in their own ways; a group whose members levelwind
manages has none for the brokers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.kafka.carried_plan import MARK
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.console import echo
from levelwind.daemon.errors import LevelwindError
from levelwind.daemon.wire.broker_connection import ConnectionFailedError, addresses
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupRequest,
    DescribeGroupRequest,
)
from levelwind.daemon.wire.group_requests import NO_ERROR
from levelwind.daemon.wire.shared_connections import SharedConnections

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.wire.broker_connection import BrokerConnection
    from levelwind.daemon.wire.client_security import ClientSecurity
    from levelwind.daemon.wire.describe_requests import DescribedMember

CLIENT_ID = "levelwind-describe"

Described = dict[str, dict[str, "DescribedMember"]]
"""The members of each group, by `group.instance.id` or else by member id."""


def described_members(settings: Settings, groups: Iterable[str]) -> Described:
    """Return the members of groups as their coordinators describe them.

    Where the brokers do not tell, a warning goes to standard error, and the members of that group
    are missing: everything else about it is known from levelwind's topics.
    """
    names = list(groups)
    if not names:
        return {}
    try:
        bootstrap, security = addresses(settings.bootstrap), client_security(settings.client())
    except LevelwindError as error:
        echo(f"hosts and client ids are not known: {error}", err=True)
        return {}
    described, failures = asyncio.run(_describe(bootstrap, names, security))
    if failures:
        echo(
            f"hosts and client ids of {len(failures)} groups are not known: {failures[0]}", err=True
        )
    return described


async def _describe(
    bootstrap: Sequence[tuple[str, int]], groups: list[str], security: ClientSecurity
) -> tuple[Described, list[str]]:
    connections = SharedConnections(bootstrap, security, CLIENT_ID)
    described: Described = {}
    failures: list[str] = []
    try:
        for group in groups:
            try:
                coordinator = await connections.to(await connections.coordinator(group))
                members = await members_of(coordinator, group)
            except (ConnectionFailedError, WireError, TimeoutError) as error:
                failures.append(f"{group}: {error}")
                continue
            described[group] = {member.instance_id or member.id: member for member in members}
    finally:
        connections.close()
    return described, failures


async def members_of(connection: BrokerConnection, group: str) -> tuple[DescribedMember, ...]:
    """Return the members of a group as its coordinator describes them, without carriers of plans.

    Raises:
        ConnectionFailedError: the coordinator refuses, or the connection ended.
    """
    if DescribeConsumerGroupRequest.KEY in connection.versions:
        newer = await connection.ask(DescribeConsumerGroupRequest(group))
        if newer.error == NO_ERROR:
            found: tuple[DescribedMember, ...] = newer.members
            return tuple(member for member in found if not (member.rack or "").startswith(MARK))
    classic = await connection.ask(DescribeGroupRequest(group))
    if classic.error != NO_ERROR:
        raise ConnectionFailedError(f"the coordinator answers with error {classic.error}")
    members: tuple[DescribedMember, ...] = classic.members
    return members

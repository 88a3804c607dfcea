"""Members of groups as the brokers describe them: their ids, hosts and client ids.

Classic groups and those of KIP-848 are asked for in their own ways; a group whose members levelwind
manages has none for the brokers. A coordinator may take connections and answer nothing, as a broker
with a full disk does: it is waited for once, and its other groups are not asked for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.kafka.carried_plan import MARK
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.console import echo
from levelwind.daemon.errors import LevelwindError
from levelwind.daemon.printable import one_line
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import OPEN_SECONDS, ConnectionFailedError
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
    from levelwind.daemon.wire.broker_addresses import Address
    from levelwind.daemon.wire.broker_connection import BrokerConnection
    from levelwind.daemon.wire.client_security import ClientSecurity
    from levelwind.daemon.wire.describe_requests import DescribedMember

CLIENT_ID = "levelwind-describe"

Described = dict[str, dict[str, "DescribedMember"]]
"""The members of each group, by `group.instance.id` or else by member id."""

Failures = dict[str, str]
"""Why the members of groups are not known, by group."""


class GroupRefusedError(ConnectionFailedError):
    """The coordinator answers, and refuses to describe this group."""


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
    within = min(settings.topic.timeout, OPEN_SECONDS)
    described, failures = asyncio.run(describe_groups(bootstrap, names, security, within))
    if failures:
        (group, reason), count = min(failures.items()), len(failures)
        example = one_line(f"{group}: {reason}")
        echo(f"hosts and client ids of {count} groups are not known: {example}", err=True)
    return described


async def describe_groups(
    bootstrap: Sequence[Address], groups: Sequence[str], security: ClientSecurity, within: float
) -> tuple[Described, Failures]:
    """Ask the coordinators of some groups for their members, all coordinators at once.

    Args:
        bootstrap: hosts and ports of the brokers that are asked for the coordinators.
        groups: names of the groups.
        security: the security of the connections.
        within: longest time in seconds for each answer.
    """
    connections = SharedConnections(bootstrap, security, CLIENT_ID, within)
    described: Described = {}
    failures: Failures = {}

    async def describe(address: Address, led: list[str]) -> None:
        try:
            members, unknown = await members_by_group(await connections.to(address), led, within)
        except ConnectionFailedError as error:
            failures.update(dict.fromkeys(led, str(error)))
            return
        for group, found in members.items():
            described[group] = {member.instance_id or member.id: member for member in found}
        failures.update(
            {group: f"{address[0]}:{address[1]}: {unknown[group]}" for group in unknown}
        )

    try:
        led_by, without = await connections.by_coordinator(groups)
        failures.update({each.group: each.refusal for each in without})
        await asyncio.gather(*(describe(*coordinator) for coordinator in led_by.items()))
    except ConnectionFailedError as error:  # no broker says who coordinates
        failures.update(dict.fromkeys(groups, str(error)))
    finally:
        connections.close()
    return described, failures


async def members_by_group(
    connection: BrokerConnection, groups: Sequence[str], within: float
) -> tuple[dict[str, tuple[DescribedMember, ...]], Failures]:
    """Return the members of a coordinator's groups, and why those of the others are not known.

    A refusal concerns one group. After an answer that does not come, or a connection that ends, the
    groups that are left are not asked for.

    Args:
        connection: a connection to the coordinator.
        groups: names of its groups.
        within: longest time in seconds for the answers about one group.
    """
    members: dict[str, tuple[DescribedMember, ...]] = {}
    failures: Failures = {}
    for number, group in enumerate(groups):
        try:
            async with asyncio.timeout(within):
                members[group] = await _members_of(connection, group)
        except (GroupRefusedError, WireError) as error:
            failures[group] = str(error)
        except (ConnectionFailedError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            failures.update(dict.fromkeys(groups[number:], reason))
            break
    return members, failures


async def _members_of(connection: BrokerConnection, group: str) -> tuple[DescribedMember, ...]:
    """Return the members of a group as its coordinator describes them, without carriers of plans.

    Raises:
        GroupRefusedError: the coordinator refuses.
        ConnectionFailedError: the connection ended.
    """
    if DescribeConsumerGroupRequest.KEY in connection.versions:
        newer = await connection.ask(DescribeConsumerGroupRequest(group))
        if newer.error == NO_ERROR:
            found: tuple[DescribedMember, ...] = newer.members
            return tuple(member for member in found if not (member.rack or "").startswith(MARK))
    classic = await connection.ask(DescribeGroupRequest(group))
    if classic.error != NO_ERROR:
        raise GroupRefusedError(f"the coordinator answers with error {classic.error}")
    members: tuple[DescribedMember, ...] = classic.members
    return members

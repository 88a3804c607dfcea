"""Error for a member that shares no protocol with its group, in words that say what to do.

A broker refuses such a member with no word about the others, and a client passes that on as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from levelwind.assignors.clients.flat_settings import flat_settings
from levelwind.assignors.strategies.vote import InconsistentGroupProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.clients.classic.classic_assignor import ClassicAssignor

TIMEOUT_SECONDS = 5.0


def no_common_protocol(
    config: Mapping[str, Any],
    group: str,
    assignors: Iterable[ClassicAssignor | type[ClassicAssignor]],
    *,
    timeout: float = TIMEOUT_SECONDS,
) -> InconsistentGroupProtocolError:
    """Make the error to raise when a client reports an inconsistent group protocol.

    Args:
        config: librdkafka's settings of the connection: `bootstrap.servers`, and security.
        group: id of the group.
        assignors: the `partition_assignment_strategy` of the member that was refused.
        timeout: seconds to wait for the group's description.
    """
    names = ", ".join(assignor.name for assignor in assignors)
    refused = f"group {group!r}: this member offers {names}, which its members do not all offer"
    try:
        asked = AdminClient({"client.id": "levelwind-protocols", **flat_settings(config)})
        described = asked.describe_consumer_groups([group], request_timeout=timeout)
        found = described[group].result(timeout)
    except (KafkaException, TimeoutError) as error:
        return InconsistentGroupProtocolError(f"{refused} ({error})")
    clients = ", ".join(sorted({member.client_id for member in found.members}))
    if not found.partition_assignor:
        return InconsistentGroupProtocolError(f"{refused}; members: {clients or 'none any more'}")
    return InconsistentGroupProtocolError(
        f"{refused}: its {len(found.members)} members ({clients}) go by"
        f" {found.partition_assignor!r}; give all members one in common"
    )

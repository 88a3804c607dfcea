"""Consumers that subscribe under a managed group's name: the brokers list them.

The brokers are asked for the states of all groups first, and the group's coordinator for its
members only where that shows some. librdkafka ends the whole process by a failed assertion when a
coordinator's connection breaks just as an admin request is sent to it (its issue 4605), so that
request must be rare: each member asks as it joins, which is when brokers restart, too.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

MOST_SHOWN = 5
NO_MEMBERS = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})


def found(admin: Any, group: str, timeout: float) -> list[str]:
    """Who subscribes under the group's name, each as a text.

    Args:
        admin: an `AdminClient` of the brokers.
        group: name of the group.
        timeout: seconds that each of the two questions may take.

    Raises:
        KafkaException: The brokers refused, or one that may know the group did not answer in time.
    """
    listed = admin.list_consumer_groups(request_timeout=timeout).result()
    if not any(one.group_id == group and one.state not in NO_MEMBERS for one in listed.valid):
        if listed.errors:
            raise KafkaException(listed.errors[0])
        return []
    [described] = admin.describe_consumer_groups([group], request_timeout=timeout).values()
    try:
        return _shown(described.result())
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise


def _shown(description: Any) -> list[str]:
    members = [
        f"{member.client_id} at {member.host} ({member.member_id})"
        for member in description.members
    ]
    more = len(members) - MOST_SHOWN
    return members if more <= 0 else [*members[:MOST_SHOWN], f"and {more} more"]

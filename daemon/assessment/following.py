"""Ways in which a group could follow levelwind, and what each one needs. Pure.

The brokers tell a group's protocol, its assignor and its members' client ids. What library a member
uses they do not tell; only a client id that a library gives by default names it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from levelwind.daemon.assessment.observed_groups import CLASSIC, CONSUMER_PROTOCOL, STREAMS
from levelwind.daemon.proxy.dictation import PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.assessment.observed_groups import GroupDescription

MODES = ("advisory", "proxy", "published", "managed")
NOT_STREAMS = "tasks of Kafka Streams are planned by `levelwind assign` alone"
PYTHON = frozenset({"kafka-python", "aiokafka"})
"""Libraries that take levelwind's assignor classes."""
LIBRARIES: Mapping[str, str] = {
    "Kafka Streams": r".*-StreamThread-\d+-consumer",
    "Java": r"consumer-{group}-\d+",
    "librdkafka": r"rdkafka",
    "kafka-python": r"kafka-python-\d.*",
    "aiokafka": r"aiokafka-\d.*",
    "Sarama": r"sarama",
    "franz-go": r"kgo",
}
"""Client ids that libraries give by default, with the name of the group in braces."""


NEEDS: Mapping[str, str] = {
    "advisory": "no change of the group; the daemon with its rights (`levelwind acls`) says what it"
    " would do, and moves nothing",
    "proxy": "consumers as they are; for the daemon READ on group {group} besides; once a restart"
    " of the members one after the other (a static member that leads: stopped for longer than its"
    " session timeout)",
    "published": "consumers of kafka-python or aiokafka with PublishedAssignor, in two rounds of"
    " restarts; for them READ on the topic of assignments (`levelwind acls --role subscriber`)",
    "managed": "consumers of confluent-kafka in Python with ManagedConsumer; all of the group move"
    " over at once (`levelwind acls --role consumer`)",
    "coordinator": "consumers as they are, with a client.rack; the jar with `rack-uniform` in every"
    " broker, and no daemon",
}
"""What each way needs, by its mode; `{group}` stands for the group."""


class Way(NamedTuple):
    """One way to follow."""

    mode: str
    """A mode of the settings, or `coordinator` for the assignor in the brokers."""
    fits: bool | None
    """Whether the group can follow so; None: it depends on what the brokers do not tell."""
    reason: str = ""
    """Why it does not fit."""

    def needs(self, group: str) -> str | None:
        """What it needs of a group; None where it does not fit."""
        return None if self.fits is False else NEEDS[self.mode].replace("{group}", group)

    def as_json(self, group: str) -> dict[str, object]:
        """The way of one group as a JSON object."""
        return {
            "mode": self.mode,
            "fits": self.fits,
            "reason": self.reason or None,
            "needs": self.needs(group),
        }


def libraries_of(group: GroupDescription, name: str) -> tuple[str, ...]:
    """The libraries that the members' client ids name, sorted; empty where they name none."""
    clients = {member.client for member in group.members}
    patterns = {
        library: re.compile(text.replace("{group}", re.escape(name)))
        for library, text in LIBRARIES.items()
    }
    return tuple(
        sorted(
            library
            for library, pattern in patterns.items()
            if any(pattern.fullmatch(client) for client in clients)
        )
    )


def ways_of(
    group: GroupDescription, name: str, proxy_refuses: str | None = None
) -> tuple[Way, ...]:
    """Say of each way whether a group can go it.

    Args:
        group: the group.
        name: its name.
        proxy_refuses: why the leader proxy cannot speak with this cluster; None: it can.
    """
    if not group.members:
        return ()
    if group.assignor == STREAMS:
        return tuple(Way(mode, False, NOT_STREAMS) for mode in MODES)
    libraries = frozenset(libraries_of(group, name))
    if group.type == CONSUMER_PROTOCOL:
        return (
            Way("advisory", True),
            Way("proxy", False, "no member leads a group of KIP-848"),
            Way("published", False, "the brokers assign a group of KIP-848"),
            _managed(libraries),
            Way("coordinator", None),
        )
    return (
        Way("advisory", True),
        _proxy(group, proxy_refuses),
        _published(libraries),
        _managed(libraries),
    )


def _proxy(group: GroupDescription, refuses: str | None) -> Way:
    if refuses is not None:
        return Way("proxy", False, refuses)
    if group.assignor and group.assignor not in PROTOCOLS:
        return Way("proxy", False, f"its members use {group.assignor}, not {', '.join(PROTOCOLS)}")
    if len(group.members) < 2:
        return Way("proxy", False, "a member that is alone always leads")
    return Way("proxy", True if group.assignor and group.type == CLASSIC else None)


def _published(libraries: frozenset[str]) -> Way:
    if other := libraries - PYTHON:
        text = f"clients of {', '.join(sorted(other))} take no assignor of levelwind's"
        return Way("published", False, text)
    return Way("published", True if libraries else None)


def _managed(libraries: frozenset[str]) -> Way:
    if other := libraries - {"librdkafka"}:
        named = ", ".join(sorted(other))
        return Way("managed", False, f"ManagedConsumer is for confluent-kafka, not for {named}")
    return Way("managed", None)

"""Check of the daemon's own rights: the brokers tell each client what it may do.

A missing right otherwise shows as a topic that does not exist, or as a read that never ends.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, TOPIC_KINDS
from levelwind.daemon.access.role_rights import (
    EVERY,
    Operation,
    Resource,
    Right,
    missing,
)
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka import clients

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from levelwind.assignors.protocol.topics import Topics

HINT = "`levelwind acls` prints the commands that grant all rights"
USED_AT_ONCE = frozenset({Operation.READ, Operation.WRITE})
"""Operations without which the daemon cannot begin; the others limit what it can show or create."""


def require_rights(
    client_config: Mapping[str, Any],
    topics: Topics,
    rights: Sequence[Right],
    *,
    timeout: float,
    log: Any,
    commits_topic: str = OFFSETS_TOPIC,
) -> bool:
    """Compare what the brokers allow this user with what it needs.

    Topics that do not exist yet are left out. A right that the daemon can begin without is logged.

    Args:
        client_config: the clients' configuration.
        topics: the names of levelwind's topics.
        rights: the rights of the user's role.
        timeout: seconds for each request.
        log: takes the event `rights.missing`.
        commits_topic: the topic that commits are read from.

    Returns:
        Whether all of the topics exist, so that nothing is left to compare.

    Raises:
        ClusterUnavailableError: a right is missing without which the daemon cannot begin, or no
            answer in time; the text names the rights.
    """
    client = clients.admin(client_config)
    clients.list_topics(client, client_config, timeout)  # names a cluster that does not answer
    found = compare_rights(client, topics, rights, timeout, commits_topic)
    lacking = found.missing
    needed = [right for right in lacking if right.operation in USED_AT_ONCE]
    if needed:
        raise ClusterUnavailableError(
            f"this user lacks {', '.join(right.label for right in needed)}: {HINT}"
        )
    for right in lacking:
        log.warning("rights.missing", missing=right.label, purpose=right.purpose, hint=HINT)
    return not found.absent


class Comparison(NamedTuple):
    """What the brokers allow a user, beside what it needs."""

    missing: list[Right]
    absent: list[str]
    """Topics that do not exist."""


def compare_rights(
    client: AdminClient,
    topics: Topics,
    rights: Iterable[Right],
    timeout: float,
    commits_topic: str = OFFSETS_TOPIC,
) -> Comparison:
    """Compare rights on levelwind's topics, that of the commits and the cluster.

    Raises:
        ClusterUnavailableError: no answer in time.
    """
    rights = list(rights)
    own = [*(topics.name(kind) for kind in TOPIC_KINDS), commits_topic]
    names = {right: _topics_of(right, own) for right in rights if right.resource is Resource.TOPIC}
    cluster = [right for right in rights if right.resource is Resource.CLUSTER]
    try:
        allowed, absent = _allowed_on_topics(client, {*chain(*names.values())}, timeout)
        lacking = [*_missing_on_cluster(client, cluster, timeout)]
    except KafkaException as exception:
        raise ClusterUnavailableError(
            f"the brokers do not say what this user may do: {clients.kafka_error(exception).str()}"
        ) from exception
    for right, asked in names.items():
        known = [name for name in asked if name in allowed]
        lacked = [name for name in known if missing([right], allowed[name])]
        if (right.prefixed or right.name == EVERY) and lacked and lacked == known:
            lacking.append(right)
        else:
            lacking += [replace(right, name=name, prefixed=False) for name in lacked]
    return Comparison(lacking, absent)


def _topics_of(right: Right, own: Sequence[str]) -> list[str]:
    """Return the topics to look at for a right: observed topics are the observer's business."""
    if right.name == EVERY:
        return [*own]
    if right.prefixed:
        return [name for name in own if name.startswith(right.name)]
    return [right.name] if right.name in own else []


def may_read(client_config: Mapping[str, Any], name: str, *, timeout: float) -> bool | None:
    """Return whether the brokers let this user read a topic; None: they know no such topic.

    Raises:
        ClusterUnavailableError: no answer in time.
    """
    client = clients.admin(client_config)
    clients.list_topics(client, client_config, timeout)  # names a cluster that does not answer
    try:
        allowed, absent = _allowed_on_topics(client, {name}, timeout)
    except KafkaException as exception:
        raise ClusterUnavailableError(
            f"the brokers do not say whether this user may read {name}:"
            f" {clients.kafka_error(exception).str()}"
        ) from exception
    # Brokers that do not tell what is allowed have no rules.
    return None if absent else name not in allowed or Operation.READ.name in allowed[name]


def _allowed_on_topics(
    client: AdminClient, names: Collection[str], timeout: float
) -> tuple[dict[str, Collection[str]], list[str]]:
    """Return the operations that are allowed, by the topics that exist, and those that do not.

    A topic without any right is allowed nothing: whether it exists, the brokers do not tell.
    """
    allowed: dict[str, Collection[str]] = {}
    absent: list[str] = []
    if not names:
        return allowed, absent
    answers = client.describe_topics(
        TopicCollection(sorted(names)), include_authorized_operations=True, request_timeout=timeout
    )
    for name, answer in answers.items():
        try:
            operations = answer.result().authorized_operations
        except KafkaException as exception:
            code = clients.kafka_error(exception).code()
            if code in clients.AUTHORIZATION_ERRORS:
                allowed[name] = ()
            elif code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                absent.append(name)
            else:
                raise
        else:
            if operations is not None:
                allowed[name] = {operation.name for operation in operations}
    return allowed, absent


def _missing_on_cluster(
    client: AdminClient, rights: Sequence[Right], timeout: float
) -> list[Right]:
    if not rights:
        return []
    answer = client.describe_cluster(include_authorized_operations=True, request_timeout=timeout)
    allowed = answer.result().authorized_operations
    if not allowed:  # the brokers list the operations only for a user that may describe the cluster
        return [right for right in rights if right.operation is Operation.DESCRIBE]
    return missing(rights, {operation.name for operation in allowed})

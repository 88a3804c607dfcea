"""Errors of commits: which of them the broker has decided, and which it blames on subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

if TYPE_CHECKING:
    from collections.abc import Iterable

SUBSCRIBER_ERRORS = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.FENCED_INSTANCE_ID}
)
"""Errors of a commit while the group has subscribed members.

The broker then accepts no commits of clients that only assign partitions to themselves.
"""
REFUSED_ERRORS = SUBSCRIBER_ERRORS | {
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
    KafkaError.INVALID_COMMIT_OFFSET_SIZE,
    KafkaError.INVALID_GROUP_ID,
}
"""Errors with which the broker has refused a commit: the commit will not arrive later."""


def stray_hint(group: str) -> str:
    """What to do about a consumer that subscribes under a managed group's name."""
    return (
        f"a consumer subscribes under the managed group {group!r}, so the broker refuses the "
        "commits of the managed members: stop it, or give it a group of its own "
        f"(kafka-consumer-groups.sh --describe --members --group {group} shows it)"
    )


class StraySubscriberError(RuntimeError):
    """A consumer subscribes under a managed group id, so the broker refuses managed commits.

    Stop that consumer, or give it a group id of its own.
    """


def raise_error_of(partitions: Iterable[Any]) -> None:
    """Raise `KafkaException` with the error of the first partition that has one."""
    if (error := error_of(partitions)) is not None:
        raise KafkaException(error)


def error_of(partitions: Iterable[Any]) -> Any:
    """Return the error of the first partition that has one; None without."""
    return next((partition.error for partition in partitions if partition.error is not None), None)

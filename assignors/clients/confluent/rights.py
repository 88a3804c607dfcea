"""Rights (ACLs) that a member lacks, by the errors of the brokers."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

RIGHT_HINT = "grant this right to the consumer's principal; docs/operations.md lists all of them"


class MissingRightError(RuntimeError):
    """The brokers refuse something for want of a right, which is the error's argument."""


def missing_right(
    error: Any, *, topic: str = "", operation: str = "READ", group: str = "", identifier: str = ""
) -> str | None:
    """Return the right without which a request was refused; None for any other error.

    Args:
        error: The request's `KafkaError`.
        topic: Names of the topics that it was about.
        operation: What it does with the topics.
        group: The consumer group.
        identifier: The transactional id.
    """
    rights = {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: f"{operation} on topic {topic}",
        KafkaError.GROUP_AUTHORIZATION_FAILED: f"READ on group {group}",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
            f"WRITE on transactional id {identifier}"
        ),
        # Brokers before 2.8 ask for it.
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IDEMPOTENT_WRITE on the cluster",
    }
    return rights.get(error.code())

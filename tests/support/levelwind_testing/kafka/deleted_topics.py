"""Deletes the topics of a test that is over."""

from functools import cache

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient


def delete_topics(bootstrap: str, part: str) -> None:
    """Delete the topics whose names contain a text, and wait for the controller's answers.

    The brokers delete their replicas of them later. One that lags may still list a topic that the
    test itself has deleted.
    """
    admin = _admin(bootstrap)
    names = [name for name in admin.list_topics(timeout=60).topics if part in name]
    for future in admin.delete_topics(names).values() if names else ():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


@cache
def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})

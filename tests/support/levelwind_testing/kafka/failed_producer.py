"""A producer after a fatal error, for tests of what replaces it."""

from confluent_kafka import KafkaError, KafkaException

DESYNCHRONIZED = KafkaError(
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "sequence desynchronization", fatal=True
)


class FailedProducer:
    """Raises its error at every call, as librdkafka's does from `poll` on."""

    def __init__(self, error: KafkaError = DESYNCHRONIZED) -> None:
        self._error = error

    def poll(self, *_arguments: object, **_options: object) -> int:
        """Raise the error."""
        raise KafkaException(self._error)

    flush = poll
    produce = poll

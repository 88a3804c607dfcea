"""What the coordinator says of a group, also while the brokers choose who that is."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from levelwind_testing.waiting import wait_until

ANSWER_SECONDS = 10.0


def described_group(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    """Describe a group, which has no coordinator for a moment where it is the first, or moves."""

    def described() -> ConsumerGroupDescription | None:
        try:
            asked = admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS)
            return asked[group].result()
        except KafkaException as error:
            # The client may wait until its time-out for a coordinator that there is by then.
            if lacks_coordinator(error) or error.args[0].code() == KafkaError._TIMED_OUT:
                return None
            raise

    return wait_until(f"coordinator of {group}", described)


def lacks_coordinator(error: BaseException) -> bool:
    """Whether a question failed because its group has no coordinator yet."""
    return isinstance(error, KafkaException) and error.args[0].code() in {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }

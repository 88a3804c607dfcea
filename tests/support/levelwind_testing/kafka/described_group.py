"""What the coordinator says of a group, also while the brokers choose who that is."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.poll_requests import FindCoordinatorsRequest
from levelwind_testing.kafka.each_broker import answers
from levelwind_testing.waiting import wait_until

ANSWER_SECONDS = 60.0


def described_group(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    """Describe a group, which has no coordinator for a moment where it is the first, or moves.

    librdkafka may end the process by a failed assertion when its time is over while it looks for a
    coordinator (its issue 4605), and looks on though there is one by then. So the brokers are asked
    for it first.
    """

    def described() -> ConsumerGroupDescription | None:
        if not _is_coordinated(admin, group):
            return None
        try:
            asked = admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS)
            return asked[group].result()
        except KafkaException as error:
            if lacks_coordinator(error):
                return None
            raise

    return wait_until(f"coordinator of {group}", described)


def _is_coordinated(admin: AdminClient, group: str) -> bool:
    """Whether each broker says that the group has a coordinator."""
    brokers = admin.list_topics(timeout=ANSWER_SECONDS).brokers.values()
    config = {"bootstrap.servers": ",".join(f"{one.host}:{one.port}" for one in brokers)}
    request = FindCoordinatorsRequest([group])
    try:
        return all(not found.error for [found] in answers(config, request, ANSWER_SECONDS))
    except (ConnectionFailedError, TimeoutError):
        return False


def lacks_coordinator(error: BaseException) -> bool:
    """Whether a question failed because its group has no coordinator yet."""
    return isinstance(error, KafkaException) and error.args[0].code() in {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }

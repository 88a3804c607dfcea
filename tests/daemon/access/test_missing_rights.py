"""The daemon without each of its rights: it names the one that is missing."""

import contextlib
import queue

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import ResourceType

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.access.rights_check import require_rights
from levelwind.daemon.access.role_rights import daemon_rights, operator_rights
from levelwind.daemon.errors import ClusterUnavailableError, FencedError, LevelwindError
from levelwind.daemon.kafka.lead_group import LeadGroup
from levelwind.daemon.kafka.publisher import Publisher
from levelwind.daemon.kafka.record_writer import OutgoingRecord
from levelwind.daemon.kafka.topic_setup import ensure_offsets_topic, ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind_testing.security.printed_rights import grant, printed, revoke
from levelwind_testing.security.secure_brokers import secure_brokers
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

TOPICS = Topics()
SETTINGS = TopicSettings(timeout=20)
NAMED = {
    "CREATE on topic levelwind.*": "rights.missing CREATE on topic levelwind.*",
    "DESCRIBE_CONFIGS on topic levelwind.*": "rights.missing DESCRIBE_CONFIGS on topic levelwind.*",
    "WRITE on topic levelwind.*": "lacks WRITE on topic levelwind.*",
    "READ on topic *": "lacks READ on topic *",
    "DESCRIBE on group *": "lacks DESCRIBE on group levelwind.probe",
    "READ on group levelwind.control": "READ on the group levelwind.control",
    "DESCRIBE on the cluster": "rights.missing DESCRIBE on the cluster",
    "DESCRIBE_CONFIGS on the cluster": "rights.missing DESCRIBE_CONFIGS on the cluster",
    "WRITE on transactional id levelwind.*": "lacks WRITE on transactional id levelwind.planner",
}
"""What a start without each right says: a warning, or the text that ends it."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with secure_brokers(tmp_path_factory.mktemp("secure")) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def user(brokers):
    """A user with all rights of the daemon, whose topics exist."""
    user = brokers.scram_user("planner-user")
    grant(brokers.admin, printed("--principal", user.principal))
    assert begin(user, Events()) == ""
    return user


class Events:
    """A log that keeps the rights that are missing, and publishes nothing else."""

    def __init__(self):
        self.missing = []

    def __getattr__(self, level):
        def log(event, **fields):
            if event == "rights.missing":
                self.missing.append(f"{event} {fields['missing']}")

        return log


def begin(user, log):
    """Begin as the daemon does, up to the lead; return the text of the error that ends it."""
    config = {**user.librdkafka, "log_level": 0}
    try:
        rights = daemon_rights(TOPICS)
        compared = require_rights(config, TOPICS, rights, timeout=20, log=log)
        ensure_topics(config, TOPICS, SETTINGS, log)
        ensure_offsets_topic(config, SETTINGS, "levelwind.probe")
        if not compared:
            require_rights(config, TOPICS, rights, timeout=20, log=log)
        be_elected(config)
        publisher = Publisher(config, TOPICS, timeout=20, log=log)
        with contextlib.closing(publisher):
            publisher.init()
    except ClusterUnavailableError as error:
        return str(error)
    return ""


def be_elected(config):
    """Join the group of daemons, and leave it once this one leads; raise the error that ends it."""
    found = queue.Queue()
    lead = LeadGroup(config, TOPICS, session=6.0, on_change=found.put, on_crash=found.put)
    lead.join()
    try:
        change = found.get(timeout=60)
    finally:
        lead.leave()
    if isinstance(change, BaseException):
        raise change


def test_each_right_of_the_daemon_is_taken_away_below():
    assert {right.label for right in daemon_rights(TOPICS)} == NAMED.keys()


@pytest.mark.parametrize(
    ("right", "binding"),
    [
        pytest.param(right, binding, id=right.label)
        for right, binding in zip(
            daemon_rights(TOPICS), printed("--principal", "User:planner-user"), strict=True
        )
    ],
)
def test_a_start_without_a_right_names_it(brokers, user, right, binding):
    revoke(brokers.admin, binding)
    log = Events()
    try:
        ended = begin(user, log)
    finally:
        grant(brokers.admin, [binding])
    assert any(NAMED[right.label] in text for text in (ended, *log.missing)), (ended, log.missing)
    if not ended:
        assert log.missing == [NAMED[right.label]]


@pytest.mark.parametrize("label", [label for label in NAMED if label.startswith("WRITE")])
def test_a_right_that_is_taken_away_and_given_back_costs_the_planner_a_term_at_most(
    brokers, user, label
):
    labels = [right.label for right in daemon_rights(TOPICS)]
    binding = printed("--principal", user.principal)[labels.index(label)]
    config = {**user.librdkafka, "log_level": 0}
    record = OutgoingRecord(topic=TOPICS.control, key=b"key", value=b"{}", partition=0)

    def begun():
        publisher = Publisher(config, TOPICS, timeout=5, log=Events())
        with contextlib.suppress(ClusterUnavailableError):
            publisher.init()
            return publisher
        return None

    def errors(publisher):
        try:
            publisher.publish([record])
        except LevelwindError as error:
            return [error]
        return []

    publisher = wait_until("the first term", begun)
    publisher.publish([record])
    revoke(brokers.admin, binding)
    try:
        (error, *_) = wait_until("the end of the right", lambda: errors(publisher))
    finally:
        grant(brokers.admin, [binding])
    assert f"this user lacks {label.partition(' on ')[0]} on" in str(error)
    if isinstance(error, FencedError):  # its client is of no more use
        publisher.close()
        publisher = wait_until("a new term", begun)
    with contextlib.closing(publisher):
        wait_until("the next step", lambda: not errors(publisher))


def test_a_publisher_takes_its_id_once_it_has_the_right(brokers, log):
    user = brokers.scram_user("late")
    rights = printed("--principal", user.principal)
    late = [each for each in rights if each.restype == ResourceType.TRANSACTIONAL_ID]
    grant(brokers.admin, [each for each in rights if each not in late])
    publisher = Publisher(user.librdkafka, TOPICS, role="commits", timeout=5.0, log=log)
    with pytest.raises(ClusterUnavailableError, match="lacks WRITE on transactional id"):
        publisher.init()
    grant(brokers.admin, late)

    def begun():
        with contextlib.suppress(ClusterUnavailableError):
            publisher.init()
        return "publisher.ready" in log.names

    wait_until("the id", begun)


def test_rights_to_one_installation_are_none_to_another(brokers):
    user = brokers.scram_user("other-user")
    own = ("--set", "prefix=team-a.", "--topic", "orders", "--principal", user.principal)
    grant(brokers.admin, printed(*own))
    config = {**user.librdkafka, "log_level": 0}
    rights = daemon_rights(Topics("team-a."), observed=["orders"])
    require_rights(config, Topics("team-a."), rights, timeout=20, log=Events())
    with pytest.raises(ClusterUnavailableError, match=r"lacks READ on topic levelwind\.\*"):
        require_rights(config, TOPICS, operator_rights(TOPICS), timeout=20, log=Events())


def test_no_member_commits_under_the_names_of_another_group(brokers):
    user = brokers.certificate_user("orders-user")
    options = ("--group", "orders", "--topic", "placed", "--fencing", "broker")
    grant(brokers.admin, printed("--role", "consumer", *options, "--principal", user.principal))
    for group, allowed in (("orders", True), ("payments", False)):
        settings = {**user.librdkafka, "log_level": 0, "transactional.id": f"levelwind.{group}/one"}
        producer = Producer(settings)
        if allowed:
            producer.init_transactions(20)
            continue
        with pytest.raises(KafkaException) as refused:
            producer.init_transactions(20)
        code = refused.value.args[0].code()
        assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

"""Our topics: what they should be, and what is done about those that are not."""

import time
from concurrent.futures import Future
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from levelwind.assignors.protocol.topics import TOPIC_KINDS, Topics
from levelwind.daemon.errors import ClusterUnavailableError, ConfigurationError
from levelwind.daemon.kafka.topic_setup import _create, ensure_offsets_topic, ensure_topics
from levelwind.daemon.kafka.topic_specs import (
    FUTURE,
    Difference,
    TopicSettings,
    differences,
    expected_topics,
    refusal,
)
from levelwind_testing.security.printed_rights import granted


@pytest.fixture
def expected():
    return {shape.name: shape for shape in expected_topics(Topics(), TopicSettings(), 3)}


def test_states_are_compacted_and_dead_letters_are_kept_for_thirty_days(expected):
    policies = {name: shape.settings["cleanup.policy"] for name, shape in expected.items()}
    assert policies.pop("levelwind.dead-letters") == "delete"
    assert expected["levelwind.dead-letters"].settings["retention.ms"] == "2592000000"
    assert policies.pop("levelwind.replays") == "delete"
    assert expected["levelwind.replays"].settings["retention.ms"] == "604800000"
    assert policies.pop("levelwind.decisions") == "delete"
    assert expected["levelwind.decisions"].settings["retention.ms"] == "7776000000"
    for kind in ("dead-letters", "replays", "decisions"):
        # A default of the brokers, log.retention.bytes, ends no record earlier.
        assert expected[f"levelwind.{kind}"].settings["retention.bytes"] == "-1"
    assert set(policies.values()) == {"compact"}
    assert sorted(policies) == [
        "levelwind." + kind
        for kind in ("assignments", "control", "lag", "members", "metadata", "triggers")
    ]


def test_what_the_pipeline_reads_takes_no_record_of_a_far_future():
    """Spark cannot read a time in nanoseconds, and its query would end of it at each start."""
    read = {
        spec.name
        for spec in expected_topics(Topics(), TopicSettings(), 3, polled=True)
        if spec.settings.get(FUTURE) == "3600000"
    }
    assert read == {
        f"levelwind.{kind}" for kind in ("assignments", "commits", "metadata", "replays")
    }


def test_a_bound_that_brokers_do_not_know_is_no_difference(expected):
    spec = expected["levelwind.metadata"]
    without = {name: value for name, value in spec.settings.items() if name != FUTURE}
    assert differences(spec, replace(spec, settings=without)) == ()
    (found,) = differences(spec, replace(spec, settings={**without, FUTURE: str(2**63 - 1)}))
    assert (found.setting, found.expected) == (FUTURE, "3600000")


class OldAdmin:
    """An admin client of brokers that do not know a setting."""

    def __init__(self, unknown):
        self.unknown, self.made = unknown, []

    def create_topics(self, new, **_):
        return {topic.topic: self._answer(topic) for topic in new}

    def _answer(self, topic):
        answer = Future()
        if self.unknown in topic.config:
            error = KafkaError(
                KafkaError.INVALID_CONFIG, f"Unknown topic config name: {self.unknown}"
            )
            answer.set_exception(KafkaException(error))
        else:
            self.made.append(topic.topic)
            answer.set_result(None)
        return answer


def test_brokers_that_do_not_know_the_bound_get_the_topic_without_it(expected):
    specs = tuple(expected.values())
    admin = OldAdmin(FUTURE)
    assert {spec.name for spec in _create(admin, specs, "levelwind.", 1.0)} == set(expected)
    assert sorted(admin.made) == sorted(expected)
    with pytest.raises(ClusterUnavailableError, match=r"control was not created: .*segment\.ms"):
        _create(OldAdmin("segment.ms"), [expected["levelwind.control"]], "levelwind.", 1.0)


def test_control_has_one_partition_and_the_others_as_many_as_set():
    shapes = expected_topics(Topics(), TopicSettings(partitions=8), 3)
    assert {shape.partitions for shape in shapes if shape.name != "levelwind.control"} == {8}
    assert [shape.partitions for shape in shapes if shape.name == "levelwind.control"] == [1]


@pytest.mark.parametrize(
    ("brokers", "replication", "insync"), [(1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (9, 3, "2")]
)
def test_replication_is_what_the_brokers_allow(brokers, replication, insync):
    shapes = expected_topics(Topics(), TopicSettings(), brokers)
    assert {(shape.replication, shape.settings["min.insync.replicas"]) for shape in shapes} == {
        (replication, insync)
    }


def test_a_topic_as_it_should_be_has_no_differences(expected):
    shape = expected["levelwind.lag"]
    assert (
        differences(shape, replace(shape, settings={**shape.settings, "retention.ms": "1"})) == ()
    )


def test_every_difference_is_said_by_itself(expected):
    shape = expected["levelwind.lag"]
    found = replace(
        shape, partitions=2, replication=1, settings={**shape.settings, "cleanup.policy": "delete"}
    )
    assert differences(shape, found) == (
        Difference(topic="levelwind.lag", setting="partitions", expected="4", found="2"),
        Difference(topic="levelwind.lag", setting="replication.factor", expected="3", found="1"),
        Difference(
            topic="levelwind.lag", setting="cleanup.policy", expected="compact", found="delete"
        ),
        Difference(topic="levelwind.lag", setting="min.insync.replicas", expected="1", found="2"),
    )


def test_three_replicas_are_no_difference_while_two_brokers_are_away(expected):
    (alone,) = (
        shape
        for shape in expected_topics(Topics(), TopicSettings(), 1)
        if shape.name == "levelwind.lag"
    )
    assert differences(alone, expected["levelwind.lag"]) == ()


def test_a_refusal_names_the_topics_their_settings_and_the_right(expected):
    text = refusal([expected["levelwind.control"]], "levelwind.", "not authorised")
    assert "--topic levelwind.control --partitions 1 --replication-factor 3" in text
    assert "--config cleanup.policy=compact" in text
    assert "--operation Create" in text
    assert "--resource-pattern-type prefixed --topic levelwind." in text


def test_a_cluster_that_does_not_answer_is_said():
    with pytest.raises(ClusterUnavailableError, match="does not answer"):
        ensure_topics(
            {"bootstrap.servers": "127.0.0.1:1"}, Topics(), TopicSettings(timeout=0.5), None
        )


def test_a_setting_that_the_client_does_not_know_is_the_operators_to_mend():
    with pytest.raises(ConfigurationError, match=r"kafka: .*fetch\.wait\.mox"):
        ensure_topics(
            {"bootstrap.servers": "127.0.0.1:1", "fetch.wait.mox": 1},
            Topics(),
            TopicSettings(),
            None,
        )


@pytest.mark.integration
def test_what_is_missing_is_made_once_and_is_as_it_should_be(client_config, fresh, log):
    topics = Topics(fresh("lw") + ".")
    ensure_topics(client_config, topics, TopicSettings(), log)
    assert sorted(event["topic"] for event in log.of("topics.created")) == sorted(
        shape.name for shape in expected_topics(topics, TopicSettings(), 3)
    )
    log.events.clear()
    ensure_topics(client_config, topics, TopicSettings(), log)
    assert log.events == []


@pytest.mark.integration
def test_a_record_with_a_time_in_nanoseconds_is_refused(client_config, fresh, log):
    topics = Topics(fresh("lw") + ".")
    ensure_topics(client_config, topics, TopicSettings(), log)
    refused = []
    producer = Producer(client_config)
    producer.produce(
        topics.metadata,
        b"{}",
        b'["topic","t"]',
        0,
        on_delivery=lambda error, _: refused.append(error.code()),
        timestamp=time.time_ns(),
    )
    producer.flush(20)
    assert refused == [KafkaError.INVALID_TIMESTAMP]


@pytest.mark.integration
def test_what_differs_is_said_and_left_alone(client_config, fresh, log, kafka):
    topics = Topics(fresh("lw") + ".")
    kafka.create(topics.control, 2, 3, **{"cleanup.policy": "compact", "segment.ms": "77000"})
    for _ in range(2):
        log.events.clear()
        ensure_topics(client_config, topics, TopicSettings(), log)
        drifted = {event["setting"]: event["found"] for event in log.of("topics.drifted")}
        assert drifted["partitions"] == "2"
        assert drifted["segment.ms"] == "77000"
        assert "cleanup.policy" not in drifted
        assert {event["level"] for event in log.of("topics.drifted")} == {"warning"}


@pytest.mark.integration
def test_the_offsets_topic_is_there_for_who_asks_for_it(client_config, fresh):
    # As many as the embedded cluster is set to have.
    assert ensure_offsets_topic(client_config, TopicSettings(), fresh("probe")) == 4


@pytest.mark.integration
def test_who_may_create_nothing_is_told_what_to_ask_for(own_cluster, fresh, log):
    client_config = {"bootstrap.servers": own_cluster.bootstrap}
    prefix = fresh("lw") + "."
    rules = [
        rule(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW),
        rule(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, AclPermissionType.DENY),
        rule(ResourceType.TOPIC, prefix, AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    ]
    with (
        granted(AdminClient(client_config), rules),
        pytest.raises(ClusterUnavailableError) as refused,
    ):
        ensure_topics(client_config, Topics(prefix), TopicSettings(timeout=10), log)
    assert str(refused.value).count("kafka-topics.sh --create") == len(TOPIC_KINDS)
    assert f"--topic {prefix}assignments --partitions 4 --replication-factor 1" in str(
        refused.value
    )


def rule(kind, name, operation, permission):
    pattern = ResourcePatternType.PREFIXED if name.endswith(".") else ResourcePatternType.LITERAL
    return AclBinding(kind, name, pattern, "User:ANONYMOUS", "*", operation, permission)

"""Brokers with TLS, SCRAM, mutual TLS and the authorizer."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from levelwind_testing.security.secure_brokers import secure_brokers
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with secure_brokers(tmp_path_factory.mktemp("secure")) as brokers:
        yield brokers


def create(user, topic):
    admin = AdminClient({**user.librdkafka, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=30)[topic].result(30)


@pytest.mark.parametrize("kind", ["SCRAM-SHA-256", "SCRAM-SHA-512", "certificate"])
def test_a_user_may_do_what_an_acl_allows_and_nothing_else(brokers, fresh, kind):
    name = fresh("user")
    user = (
        brokers.certificate_user(name) if kind == "certificate" else brokers.scram_user(name, kind)
    )
    with pytest.raises(KafkaException) as refused:
        create(user, f"{name}.orders")
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allowed = AclBinding(
        ResourceType.TOPIC,
        f"{name}.",
        ResourcePatternType.PREFIXED,
        user.principal,
        "*",
        AclOperation.CREATE,
        AclPermissionType.ALLOW,
    )
    for answer in brokers.admin.create_acls([allowed]).values():
        answer.result(30)

    def created():
        try:
            create(user, f"{name}.orders")
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            return False
        return True

    wait_until("right to create", created)  # a rule takes a moment


@pytest.mark.parametrize("settings", [{}, {"security.protocol": "ssl"}])
def test_who_gives_neither_password_nor_certificate_is_refused(brokers, settings):
    address = brokers.cluster.mutual_tls_bootstrap if settings else brokers.cluster.bootstrap
    ca = {"ssl.ca.location": str(brokers.authority.certificate)} if settings else {}
    stranger = AdminClient({"bootstrap.servers": address, "log_level": 0, **settings, **ca})
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=5)

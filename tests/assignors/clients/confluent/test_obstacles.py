"""What blocks a managed consumer, named in its log: rights that it lacks, and subscribers."""

from __future__ import annotations

from threading import Thread

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from levelwind.assignors.clients.confluent.following import subscribers
from levelwind.clients.confluent import Phase
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.managed_consumers import PATIENT_MEMBER, poll_until, produce, spread
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytestmark = pytest.mark.integration

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture
def timers():
    return PATIENT_MEMBER


@pytest.fixture(scope="module")
def guarded():
    """A broker that asks for rights: everybody has those that no rule denies."""
    with Cluster.start(1, settings=PATIENT | AUTHORIZER) as cluster:
        yield cluster


class Denied:
    """A rule that denies everybody an operation, until `lift`, beside one that allows all others.

    A resource with a rule has no right that none allows. The planner has the same principal: what
    is denied it must do without.
    """

    def __init__(self, cluster, kind, name, operation):
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        self.resource = kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"
        self.rule = *self.resource, operation, AclPermissionType.DENY
        self.create(AclBinding(*self.resource, AclOperation.ALL, AclPermissionType.ALLOW))
        self.create(AclBinding(*self.rule))

    def create(self, rule):
        for answer in self.admin.create_acls([rule]).values():
            answer.result()

    def lift(self):
        for answer in self.admin.delete_acls([AclBindingFilter(*self.rule)]).values():
            answer.result()


class TestRights:
    @pytest.fixture
    def cluster(self, guarded):
        return guarded

    @pytest.mark.parametrize(
        "right",
        ["WRITE members", "READ assignments", "READ group", "READ topic", "WRITE transactions"],
    )
    def test_a_right_that_is_missing_is_named_until_it_is_granted(
        self, cluster, topic, plan, make_consumer, caplog, right
    ):
        planner = plan(spread(topic))
        operation, what = right.split()
        name, kind = {
            "members": (planner.topics.members, ResourceType.TOPIC),
            "assignments": (planner.topics.assignments, ResourceType.TOPIC),
            "group": (planner.group, ResourceType.GROUP),
            "topic": (topic, ResourceType.TOPIC),
            "transactions": (
                f"{planner.topics.prefix}{planner.group}/i0",
                ResourceType.TRANSACTIONAL_ID,
            ),
        }[what]
        produce(cluster, topic, [(0, "a")])
        denied = Denied(cluster, kind, name, AclOperation[operation])
        resource = {"group": "group", "transactions": "transactional id"}.get(what, "topic")
        missing = f"missing={operation} on {resource} {name} "
        consumer = make_consumer(
            planner, "i0", fencing="broker" if what == "transactions" else "none"
        )
        # Besides, the client hands out what its own requests were answered.
        refused = [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED]
        seen = poll_until(consumer, lambda _: missing in caplog.text, errors=refused)
        [line] = [line for line in caplog.text.splitlines() if missing in line][:1]
        assert line.startswith("ERROR")
        assert "member.not_authorized" in line
        denied.lift()
        # Without the right to commit it reads.
        assert (seen or poll_until(consumer, len, errors=refused)) == ["a"]


def test_a_subscriber_under_the_groups_name_is_named_at_once(
    cluster, topic, plan, make_consumer, caplog
):
    planner = plan(spread(topic))
    with_subscriber = {"bootstrap.servers": cluster.bootstrap, "group.id": planner.group}
    stray = Consumer({**with_subscriber, "client.id": "stray-7"})
    stray.subscribe([topic])
    try:
        wait_until("assignment", lambda: stray.poll(0.1) is None and stray.assignment(), pause=0)
        consumer = make_consumer(planner, "i0")
        poll_until(consumer, lambda _: "member.stray_subscriber" in caplog.text)
        [line] = [line for line in caplog.text.splitlines() if "stray_subscriber" in line]
        assert line.startswith("ERROR")
        assert "subscribers=stray-7 at /127.0.0.1" in line
        assert "stop it, or give it a group of its own" in line
    finally:
        stray.close()


def test_a_member_may_wait_until_the_subscribers_have_left(
    cluster, topic, plan, make_consumer, caplog, monkeypatch
):
    looks = []
    found = subscribers.found
    monkeypatch.setattr(
        subscribers, "found", lambda *args: looks.append(answer := found(*args)) or answer
    )
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "a"), (0, "b")])
    old = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": planner.group,
            "auto.offset.reset": "earliest",
            "client.id": "old-1",
        }
    )
    old.subscribe([topic])
    wait_until(
        "first record",
        lambda: (message := old.poll(0.1)) is not None and message.value() == b"a",
        pause=0,
    )
    consumer = make_consumer(planner, "i0", after_subscribers=True)
    waits = Thread(target=poll_until, args=(consumer, lambda _: "waiting_for_sub" in caplog.text))
    waits.start()
    waits.join(GENEROUS_SECONDS)
    assert not waits.is_alive()
    assert "subscribers=old-1 at /127.0.0.1" in caplog.text
    assert consumer.phase is Phase.JOINING
    assert planner.live == {}
    old.close()
    asked = len(looks)
    assert poll_until(consumer, len) == ["b"], "the subscriber committed the first as it left"
    assert sum(map(bool, looks[asked:])) <= 1, "one question may have been under way"

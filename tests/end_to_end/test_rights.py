"""Daemon, pipeline, consumer and operator with exactly the rights that `levelwind acls` prints.

By `make rare` also on brokers of older releases.
"""

import json
import subprocess
import sys

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from levelwind.clients.confluent import ManagedConsumer
from levelwind_testing.kafka.broker_releases import RELEASES
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.managed_consumers import poll_until
from levelwind_testing.processes.command_line import printed_by
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.security.printed_rights import decisions, grant, printed
from levelwind_testing.security.secure_brokers import secure_brokers
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

GROUP, TOPIC = "billing", "orders"
CONSUMER = ("--role", "consumer", "--group", GROUP, "--topic", TOPIC, "--fencing", "broker")


def kafka_settings(user):
    """Settings of the command line for a user, but for the brokers' address."""
    return [
        f"kafka.{name}={value}"
        for name, value in user.librdkafka.items()
        if name != "bootstrap.servers"
    ]


def set_options(settings):
    return [word for setting in settings for word in ("--set", setting)]


class Installation:
    """Secure brokers, and users with the rights of their roles."""

    def __init__(self, brokers):
        self.brokers, self.admin = brokers, brokers.admin
        self.daemon = brokers.scram_user("planner-user")
        self.pipeline = brokers.certificate_user("pipeline-user")
        self.consumer = brokers.scram_user("billing-user", "SCRAM-SHA-256")
        self.operator = brokers.certificate_user("operator-user")
        self.rights = {
            user.name: printed(*arguments, "--principal", user.principal)
            for user, arguments in (
                (self.daemon, ("--role", "daemon")),
                (self.pipeline, ("--role", "pipeline")),
                (self.consumer, CONSUMER),
                (self.operator, ("--role", "operator")),
            )
        }
        for rights in self.rights.values():
            grant(self.admin, rights)
        create_topics(brokers.cluster.admin_settings, NewTopic(TOPIC, 2, 1))

    def produce(self, *values):
        producer = Producer(self.brokers.cluster.admin_settings | {"log_level": "0"})
        for number, value in enumerate(values):
            producer.produce(TOPIC, partition=number % 2, value=value)
        assert producer.flush(30) == 0

    def write(self, topic, key, value):
        producer = Producer(self.brokers.cluster.admin_settings | {"log_level": "0"})
        producer.produce(topic, key=key, value=value)
        assert producer.flush(30) == 0

    def consume(self, instance):
        return ManagedConsumer(
            {"auto.offset.reset": "earliest", "log_level": 0, **self.consumer.librdkafka},
            group=GROUP,
            topics=[TOPIC],
            instance=instance,
            fencing="broker",
        )

    def start_daemon(self, state, *settings):
        return DaemonProcess(
            self.daemon.librdkafka["bootstrap.servers"],
            state,
            "pipeline.run=elsewhere",
            *kafka_settings(self.daemon),
            *settings,
        )

    def levelwind(self, user, *arguments, settings=(), **options):
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "levelwind.daemon.cli", *arguments),
                *("--bootstrap", user.librdkafka["bootstrap.servers"]),
                *set_options([*kafka_settings(user), *settings]),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )


@pytest.fixture(scope="module", params=RELEASES)
def installation(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("secure")
    with secure_brokers(directory, log_allowed=True, version=request.param) as brokers:
        yield Installation(brokers)


def java_settings(user):
    return [
        f"pipeline.kafka.{name}={value}"
        for name, value in user.java.items()
        if name != "bootstrap.servers"
    ]


def test_everything_works_with_exactly_these_rights_and_each_of_them_is_used(
    installation, tmp_path
):
    installation.produce("a", "b", "c")
    daemon = installation.start_daemon(tmp_path / "daemon")
    pipeline = None
    try:
        daemon.wait_for("the lead", lambda: daemon.logged("daemon.leading"))
        installation.write("levelwind.metadata", b'["no such kind"]', b"{}")  # a dead letter
        pipeline = installation.levelwind(
            installation.pipeline,
            "pipeline",
            settings=[f"state_dir={tmp_path / 'p'}", *java_settings(installation.pipeline)],
        )
        with installation.consume("one") as consumer:
            assert sorted(poll_until(consumer, lambda values: len(values) == 3)) == ["a", "b", "c"]

            def lag_is_known():
                assert pipeline.poll() is None, pipeline.stdout.read()
                consumer.poll(1.0)
                groups = printed_by(
                    *("groups", "--format", "json"),
                    bootstrap=installation.operator.librdkafka["bootstrap.servers"],
                    settings=kafka_settings(installation.operator),
                )
                found = [json.loads(line) for line in groups.splitlines()]
                return any(one["group"] == GROUP and one.get("lag") is not None for one in found)

            wait_until("lag of the group", lag_is_known, within=400)
        for words in (("pause", GROUP, "--execute"), ("dead-letters", "--retry")):
            asked = installation.levelwind(installation.operator, *words)
            text, _ = asked.communicate(timeout=150)
            assert asked.returncode == 0, text
    finally:
        if pipeline is not None:
            pipeline.terminate()
            pipeline.communicate(timeout=150)
        daemon.stop()
    made = decisions(installation.brokers.cluster.log(1))
    users = installation.rights.keys()
    assert [one for one in made if one.user in users and not one.allowed] == []
    unused = [
        f"{user}: {right.operation.name} {right.name}"
        for user, rights in installation.rights.items()
        for right in rights
        if not any(one.user == user and one.uses(right) for one in made)
    ]
    # Neither a lost checkpoint nor a dead letter that an upgrade can read is part of this story.
    assert {right for right in unused if not right.endswith(" levelwind.replays")} == set()

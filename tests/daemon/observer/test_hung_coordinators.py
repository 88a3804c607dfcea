"""A coordinator that hangs before its first question costs its own groups alone, and no process."""

import json
import signal
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.hung_brokers import broker_process
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.kafka.plain_commits import commit_offsets

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC = "orders"
GROUPS = [f"group-{number}" for number in range(12)]
SHORT, LONG = 4.0, 60.0
"""Seconds for an answer while a coordinator hangs, and afterwards."""
HELD = """
from levelwind.daemon.observer.held_commits import HeldCommits

commits = HeldCommits(config, clients.admin(config), Topics(), None)

def ask(timeout):
    return list(commits._committed(groups, timeout))
"""
ASSESSED = """
import time
from levelwind.daemon.assessment.cluster_reader import ClusterReader

reader = ClusterReader(config, SHORT)
assert reader.group_names() == sorted(groups)

def ask(timeout):
    reader._patience = timeout
    answers = dict(reader._readings(groups, time.monotonic()))
    return [name for name, one in answers.items() if one.group and one.commits is not None]
"""
ROUNDS = """
os.kill(hung, signal.SIGSTOP)
answers = [ask(SHORT), ask(SHORT)]
os.kill(hung, signal.SIGCONT)
answers.append(ask(LONG))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def coordinators():
    """Three brokers, and the number of the one that coordinates each group."""
    with Cluster.start(3, settings=PATIENT) as cluster:
        config = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(config)
        create_topics(config, NewTopic(TOPIC, 1, 3))
        for group in GROUPS:
            consumer = Consumer({**config, "group.id": group})
            commit_offsets(consumer, [TopicPartition(TOPIC, 0, 3)])
            consumer.close()
        yield cluster, {group: described_group(admin, group).coordinator.id for group in GROUPS}


@pytest.mark.parametrize("asks", [HELD, ASSESSED], ids=["held commits", "assess"])
def test_groups_of_other_coordinators_are_answered(coordinators, asks):
    cluster, led = coordinators
    number = led[GROUPS[0]]
    others = [group for group in GROUPS if led[group] != number]
    assert others
    hung = broker_process(cluster.directory / f"broker-{number}")
    config = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    code = f"""
import json, os, signal
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.kafka import clients

config, groups, hung, SHORT, LONG = {config!r}, {GROUPS!r}, {hung.pid}, {SHORT}, {LONG}
{asks}{ROUNDS}"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    finally:
        hung.send_signal(signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    assert [sorted(each) for each in json.loads(done.stdout)] == [
        sorted(others),
        sorted(others),
        sorted(GROUPS),
    ]

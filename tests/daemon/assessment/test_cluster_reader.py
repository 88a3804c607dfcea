"""The way in which the answers about groups are noted."""

import asyncio
from contextlib import closing
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from levelwind.daemon.access.role_rights import Resource
from levelwind.daemon.assessment import cluster_reader
from levelwind.daemon.observer import coordinator_questions, group_commits
from levelwind.daemon.wire.describe_requests import DescribedGroup, DescribeGroupsRequest
from levelwind.daemon.wire.group_requests import CONSUMER
from levelwind.daemon.wire.poll_requests import (
    FetchedGroup,
    FetchOffsetsRequest,
    FindCoordinatorsRequest,
)
from levelwind_testing.waiting import GENEROUS_SECONDS

VERSIONS = {FindCoordinatorsRequest.KEY: (0, 6), FetchOffsetsRequest.KEY: (0, 10)}


class Coordinators:
    """A coordinator for each group, which lets a minute pass before it fails if it hangs."""

    def __init__(self):
        self.now = 0.0

    def __call__(self, *_):
        return self

    def monotonic(self):
        return self.now

    async def versions(self):
        return VERSIONS

    async def to(self, _address):
        return SimpleNamespace(versions=VERSIONS)

    async def by_coordinator(self, groups, **_options):
        return {(group, 0): [group] for group in groups}, []

    async def ask(self, address, request):
        if address[0] == "hung":
            try:
                await asyncio.Event().wait()
            finally:
                self.now += 60.0
        if isinstance(request, DescribeGroupsRequest):
            return [DescribedGroup(0, "Empty", CONSUMER, "", (), group) for group in request.groups]
        return [FetchedGroup(group, 0, {}) for group in request.groups]

    def fail(self, _address, _reason):
        pass

    def close(self):
        pass


@pytest.fixture
def reader():
    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with closing(cluster_reader.ClusterReader(config, GENEROUS_SECONDS)) as reader:
        yield reader


def test_a_coordinator_that_hangs_does_not_age_the_commits_of_other_groups(reader, monkeypatch):
    coordinators = Coordinators()
    monkeypatch.setattr(coordinator_questions, "SharedConnections", coordinators)
    for module in (cluster_reader, group_commits):
        monkeypatch.setattr(module, "time", coordinators)
    monkeypatch.setattr(reader, "_pause", lambda _: None)
    monkeypatch.setattr(reader, "_patience", 2.0)
    readings = dict(reader._readings(["hung", "up"], 0.0))
    assert (readings["up"].at, readings["up"].commits) == (0.0, {})
    assert (readings["hung"].at, readings["hung"].commits) == (60.0, None)


def read(reader, monkeypatch, names, failures, left=()):
    monkeypatch.setattr(reader._questions, "ask", lambda *_: (failures, [*left]))
    return dict(reader._readings(names, 0.0))


def test_a_failure_is_over_when_the_group_answers(reader, monkeypatch):
    silent = {"g": KafkaError(KafkaError._TIMED_OUT, "no answer")}
    read(reader, monkeypatch, ["g"], silent)
    assert reader.failures == {"g": "no answer"}
    read(reader, monkeypatch, ["h"], {})
    assert reader.failures == {"g": "no answer"}
    read(reader, monkeypatch, ["g"], {})
    assert reader.failures == {}


def test_a_failure_of_log_ends_is_that_of_the_newest_sample(reader, monkeypatch):
    reader.failures = {"log ends of t": "no answer", "g": "no answer"}
    for name, answer in (("_readings", []), ("_look_at", None), ("_ends", {})):
        monkeypatch.setattr(reader, name, lambda *_, answer=answer: answer)
    reader.sample(["g"])
    assert reader.failures == {"g": "no answer"}


def test_a_group_that_reads_topics_which_may_not_be_described_lacks_the_right_to_these(
    reader, monkeypatch
):
    read(reader, monkeypatch, ["g"], {"g": KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)})
    (lack,) = reader.lacks
    assert (lack.right.resource, lack.right.label) == (Resource.TOPIC, "DESCRIBE on topic *")


def test_a_group_without_a_name_costs_itself_alone_where_librdkafka_asks(reader, monkeypatch):
    monkeypatch.setattr(reader, "_patience", 0.2)
    readings = read(reader, monkeypatch, ["", "g"], {}, ["", "g"])
    assert [*readings] == ["", "g"]
    assert reader.failures.keys() == {"", "g"}

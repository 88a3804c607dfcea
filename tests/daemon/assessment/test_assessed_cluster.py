"""`levelwind assess` on a broker with an authorizer: with its rights, and without each."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from levelwind.daemon.access.role_rights import assessment_rights
from levelwind.daemon.assessment import cluster_reader, log_sizes, observing
from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import load
from levelwind.daemon.shutdown import StopEvent
from levelwind.daemon.wall_clock import now_ms
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.security.printed_rights import decisions, grant, printed, revoke
from levelwind_testing.security.secure_brokers import secure_brokers
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ORDERS, OLD = "orders", "old"
CLASSIC_GROUP, NEW_GROUP, EMPTY_GROUP = "classic-app", "new-app", "gone-app"
FIVE_DAYS_MS = 5 * 86_400_000
"""Age of the old topic's records: more than half of the default of `offsets.retention.minutes`."""
GROUPS = (CLASSIC_GROUP, EMPTY_GROUP, NEW_GROUP)
READING = {
    "ApiVersions",
    "ConsumerGroupDescribe",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeTopicPartitions",
    "FindCoordinator",
    "ListGroups",
    "ListOffsets",
    "Metadata",
    "OffsetFetch",
}
"""Kinds of requests that change nothing, as the authorizer names them."""
ACL_OF = {
    right.label: binding
    for right, binding in zip(
        assessment_rights(),
        printed("--role", "assess", "--principal", "User:assessor"),
        strict=True,
    )
}


class AssessedCluster:
    """A broker with a classic group, one of KIP-848, and one without members."""

    def __init__(self, brokers):
        self.brokers, self.admin = brokers, brokers.admin
        self.user = brokers.scram_user("assessor")
        grant(self.admin, list(ACL_OF.values()))
        new = NewTopic(ORDERS, 3, 1), NewTopic(OLD, 1, 1)
        create_topics(brokers.cluster.admin_settings, *new)
        self.produce(ORDERS, 30)
        self.produce(OLD, 10, timestamp=now_ms() - FIVE_DAYS_MS)
        self.members = [
            self.member(CLASSIC_GROUP, "static-1", **{"group.instance.id": "static-1"}),
            self.member(NEW_GROUP, "new-1", **{"group.protocol": "consumer"}),
        ]
        for member in self.members:
            wait_until("assignment", lambda each=member: each.poll(0.1) and each.assignment())
            offsets = [TopicPartition(ORDERS, number, 4) for number in range(3)]
            member.commit(offsets=offsets, asynchronous=False)
        self.commit(EMPTY_GROUP, OLD, 3)

    def settings(self):
        return {**self.brokers.cluster.admin_settings, "log_level": "0"}

    def produce(self, topic, count, **other):
        producer = Producer(self.settings())
        for number in range(count):
            partition = number % 3 if topic == ORDERS else 0
            producer.produce(topic, b"record", partition=partition, **other)
        assert producer.flush(30) == 0

    def member(self, group, client, **other):
        member = Consumer(
            self.settings()
            | {"group.id": group, "client.id": client, "client.rack": "a"}
            | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
            | other
        )
        member.subscribe([ORDERS])
        return member

    def commit(self, group, topic, offset):
        consumer = Consumer(self.settings() | {"group.id": group})
        commit_offsets(consumer, [TopicPartition(topic, 0, offset)])
        consumer.close()

    def loaded(self):
        """Settings of the user that assesses."""
        kafka = dict(self.user.librdkafka)
        return load(None, {"bootstrap": kafka.pop("bootstrap.servers"), "kafka": kafka})

    def command(self, *options):
        pairs = [f"kafka.{name}={value}" for name, value in self.user.librdkafka.items()]
        words = [word for pair in pairs if "bootstrap" not in pair for word in ("--set", pair)]
        bootstrap = self.user.librdkafka["bootstrap.servers"]
        return ["assess", "--bootstrap", bootstrap, "--for", "0", *options, *words]

    def assess(self, *options):
        return CliRunner().invoke(main, self.command(*options))

    def assessed(self, *options):
        result = self.assess("--format", "json", *options)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        return found, {group["group"]: group for group in found["groups"]}

    def state(self):
        """Everything that the command could have changed."""
        listed = self.admin.list_topics(timeout=30)
        every = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        groups = self.admin.list_consumer_groups().result(30).valid
        return (
            {name: len(topic.partitions) for name, topic in listed.topics.items()},
            sorted((group.group_id, group.state.name) for group in groups),
            sorted(map(str, self.admin.describe_acls(every).result(30))),
            [self.offsets(group.group_id) for group in groups],
            {member.memberid() for member in self.members},
        )

    def offsets(self, group):
        asked = [ConsumerGroupTopicPartitions(group)]
        (answer,) = self.admin.list_consumer_group_offsets(asked).values()
        return sorted(
            (one.topic, one.partition, one.offset) for one in answer.result(30).topic_partitions
        )

    def close(self):
        for member in self.members:
            member.close()


@pytest.fixture(scope="module")
def assessed_cluster(tmp_path_factory):
    with secure_brokers(tmp_path_factory.mktemp("assessed"), log_allowed=True) as brokers:
        cluster = AssessedCluster(brokers)
        yield cluster
        cluster.close()


@pytest.fixture
def without(assessed_cluster):
    """Takes a right away until the end of the test."""
    taken = []

    def take(label):
        revoke(assessed_cluster.admin, ACL_OF[label])
        taken.append(ACL_OF[label])

    yield take
    if taken:
        grant(assessed_cluster.admin, taken)


def test_a_cluster_is_assessed_and_nothing_is_changed_by_it(assessed_cluster):
    before = assessed_cluster.state()
    found, groups = assessed_cluster.assessed()
    assert assessed_cluster.state() == before
    assert found["missing_rights"] == []
    assert (found["failures"], found["racks_unknown"], found["unseen"]) == ({}, None, [])
    assert found["offsets_retention_minutes"] > 0
    assert sorted(groups) == sorted(GROUPS)
    classic, new, empty = groups[CLASSIC_GROUP], groups[NEW_GROUP], groups[EMPTY_GROUP]
    assert (classic["type"], classic["assignor"], classic["lag"]) == ("classic", "range", 18)
    assert (new["type"], new["assignor"], new["lag"]) == ("consumer", "uniform", 18)
    for group in (classic, new):
        assert group["members"] == group["members_with_rack"] == 1
        assert group["now"]["cross_rack"] == 0
        assert group["moves"] == 0
    assert (empty["state"], empty["members"], empty["lag"]) == ("empty", 0, 7)
    assert [risk["kind"] for risk in empty["risks"]] == ["nobody_reads", "old_commits"]


def test_every_request_that_was_sent_only_reads(assessed_cluster):
    assessed_cluster.assessed()
    made = [
        one
        for one in decisions(assessed_cluster.brokers.cluster.log(1))
        if one.user == assessed_cluster.user.name
    ]
    kinds = {one.request for one in made}
    assert {"OffsetFetch", "ListOffsets", "ConsumerGroupDescribe"} <= kinds
    assert kinds <= READING
    assert {one.operation for one in made if one.allowed} <= {"DESCRIBE", "DESCRIBE_CONFIGS"}


def test_rates_come_from_two_samples(assessed_cluster):
    found, groups = assessed_cluster.assessed("--for", "1", "--group", "classic*")
    assert (found["samples"], [*groups]) == (2, [CLASSIC_GROUP])
    assert found["seconds"] > 0
    group = groups[CLASSIC_GROUP]
    assert group["arrivals"] == group["consumed"] == 0
    assert [risk["kind"] for risk in group["risks"]] == ["member_stands_still"]


def test_each_form_of_the_page_has_the_groups(assessed_cluster):
    for form in ("text", "html"):
        result = assessed_cluster.assess("--format", form)
        assert result.exit_code == 0, result.output
        assert all(group in result.stdout for group in GROUPS)
    assert assessed_cluster.assess("--group", "no-such-*").exit_code == 6


def test_the_first_page_comes_after_two_samples_and_the_last_one_at_the_end(
    assessed_cluster, monkeypatch
):
    monkeypatch.setattr(observing, "FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(observing, "STEP_SECONDS", 0.1)
    first = []
    last = observing.observe(assessed_cluster.loaded(), [], 0.3, StopEvent(), on_first=first.append)
    assert [page.samples for page in first] == [2]
    assert last.samples > 2


def test_records_have_the_size_that_their_logs_take(assessed_cluster, without):
    cluster = assessed_cluster
    config = cluster.loaded().client()
    reader = cluster_reader.ClusterReader(config, 30)
    ends = reader.sample(reader.group_names()).ends
    sizes = log_sizes.read_log_sizes(config, reader.led_partitions(), 30)
    assert sizes.keys() == ends.keys() == reader.begins.keys()
    size = log_sizes.record_sizes(sizes, reader.begins, ends)[ORDERS]
    assert len(b"record") < size < 200, "a batch of one record takes 68 bytes besides"
    without("DESCRIBE on the cluster")
    assert log_sizes.read_log_sizes(config, reader.led_partitions(), 30) == {}


def test_a_stop_ends_the_observation_with_what_was_seen(assessed_cluster):
    stop = StopEvent()
    last = observing.observe(
        assessed_cluster.loaded(),
        [],
        600,
        stop,
        on_progress=lambda text: stop.set() if text.startswith("sample 2") else None,
    )
    assert last.samples == 1
    assert [group.name for group in last.groups if group.group.members] == [
        CLASSIC_GROUP,
        NEW_GROUP,
    ]


def test_groups_are_asked_in_parts_with_pauses(assessed_cluster, monkeypatch):
    monkeypatch.setattr(cluster_reader, "GROUPS_AT_ONCE", 1)
    monkeypatch.setattr(cluster_reader, "GROUPS_PER_SECOND", 2)
    monkeypatch.setattr(cluster_reader, "time", SimpleNamespace(monotonic=lambda: 100.0))
    pauses = []
    reader = cluster_reader.ClusterReader(
        assessed_cluster.loaded().client(), 30, pause=pauses.append
    )
    assert list(reader.sample(GROUPS).groups) == list(GROUPS)
    assert pauses == [0, 0.5, 1]


def test_the_ends_of_many_groups_are_read_soon_after_their_commits(assessed_cluster, monkeypatch):
    monkeypatch.setattr(cluster_reader, "GROUPS_PER_SECOND", 1)
    reader = cluster_reader.ClusterReader(
        assessed_cluster.loaded().client(), 30, pause=lambda _: None
    )
    groups = reader.sample(GROUPS).groups
    assert [set(groups[name].ends) for name in GROUPS] == [
        {(ORDERS, number) for number in range(3)},
        {(OLD, 0)},
        {(ORDERS, number) for number in range(3)},
    ]
    times = [time for name in GROUPS for time in (groups[name].at, groups[name].ends_read_at)]
    assert times == sorted(times)


def test_a_coordinator_that_is_silent_is_waited_for_once(assessed_cluster, monkeypatch):
    reader = cluster_reader.ClusterReader(assessed_cluster.loaded().client(), 30)
    silent = {"silent-app": KafkaError(KafkaError._TIMED_OUT, "no answer")}
    with monkeypatch.context() as patched:
        patched.setattr(reader._questions, "ask", lambda *_: (silent, []))
        ((_, reading),) = reader._readings(["silent-app"], 0.0)
    assert (reading.group, reading.commits) == (None, None)
    assert reader._patience == cluster_reader.SHORT_PATIENCE_SECONDS
    assert reader.failures == {"silent-app": "no answer"}
    assert reader.sample([CLASSIC_GROUP]).groups[CLASSIC_GROUP].group is not None


@pytest.mark.parametrize("missing", [(), ("DESCRIBE on topic *",)])
def test_librdkafka_gives_the_same_readings(assessed_cluster, monkeypatch, without, missing):
    """It is asked where the own connections do not know the security, as OAuth."""
    for label in missing:
        without(label)
    config = assessed_cluster.loaded().client()
    asked = {}
    for own in (True, False):
        reader = cluster_reader.ClusterReader(config, 30)
        if not own:
            monkeypatch.setattr(reader._questions, "ask", lambda names, *_: ({}, [*names]))
        readings = dict(reader._readings([*GROUPS, "no-such-group"], 0.0))
        asked[own] = [
            {name: (one.group, one.commits) for name, one in readings.items()},
            reader.lacks,
            reader.failures,
        ]
    assert asked[True] == asked[False]
    assert asked[True][0][CLASSIC_GROUP][0].owners


def test_it_works_where_pyspark_is_not_installed(assessed_cluster):
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None;"
        "from levelwind.daemon.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *assessed_cluster.command()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert CLASSIC_GROUP in done.stdout


NAMED = {
    "DESCRIBE on topic *": f"DESCRIBE on topic {ORDERS}",
    "DESCRIBE on group *": None,
    "DESCRIBE on the cluster": "DESCRIBE on the cluster",
    "DESCRIBE_CONFIGS on the cluster": "DESCRIBE_CONFIGS on the cluster",
}
"""What is named without each right; None: all groups, which the right to the cluster lists."""


def test_each_right_of_the_command_is_taken_away_below():
    assert NAMED.keys() == ACL_OF.keys()


@pytest.mark.parametrize("label", NAMED)
def test_a_right_that_is_missing_is_named_and_costs_what_it_would_have_shown(
    assessed_cluster, without, label
):
    without(label)
    found, groups = assessed_cluster.assessed()
    named = [lack["right"] for lack in found["missing_rights"]]
    if label == "DESCRIBE on group *":
        assert named == [f"DESCRIBE on group {group}" for group in GROUPS]
        assert found["unseen"] == sorted(GROUPS)
        return
    assert NAMED[label] in named
    if label == "DESCRIBE on topic *":
        assert groups[CLASSIC_GROUP]["lag"] is None
        assert groups[CLASSIC_GROUP]["members"] == 1
        return
    assert groups[CLASSIC_GROUP]["lag"] == 18
    fetching = found["follower_fetching"]
    assert (fetching is None) == (label == "DESCRIBE_CONFIGS on the cluster")


def test_a_group_that_may_not_be_described_costs_itself_alone(assessed_cluster, without):
    without("DESCRIBE on group *")
    right = ACL_OF["DESCRIBE on group *"]
    named = AclBinding(
        right.restype,
        CLASSIC_GROUP,
        right.resource_pattern_type,
        right.principal,
        right.host,
        right.operation,
        right.permission_type,
    )
    grant(assessed_cluster.admin, [named])
    try:
        found, groups = assessed_cluster.assessed()
    finally:
        revoke(assessed_cluster.admin, named)
    assert [*groups] == [CLASSIC_GROUP]
    assert found["unseen"] == [EMPTY_GROUP, NEW_GROUP]
    assert groups[CLASSIC_GROUP]["lag"] == 18

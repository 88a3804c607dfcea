"""Groups of unmodified kafka-python, aiokafka and Java consumers on real brokers."""

from contextlib import ExitStack
from importlib import import_module

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from levelwind.assignors.clients import broker_lag
from levelwind.assignors.clients.broker_lag import BrokerLag
from levelwind.assignors.clients.group_protocols import no_common_protocol
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.registry import STRATEGIES
from levelwind.assignors.strategies.vote import InconsistentGroupProtocolError
from levelwind_testing.kafka.classic_members import (
    AiokafkaMember,
    JavaMember,
    KafkaPythonMember,
    again_where_a_member_stalled,
)
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.kafka_oracle import CLIENT_SIDE
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.waiting import wait_until

pytest.importorskip("kafka", reason="an extra that is not installed")
pytest.importorskip("aiokafka", reason="an extra that is not installed")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

kafka_python = import_module("levelwind.clients.kafka_python")
aiokafka = import_module("levelwind.clients.aiokafka")

RACK_OF = {1: "a", 2: "b", 3: "c"}


@pytest.fixture
def make_topic(cluster, fresh):
    """Make a topic from the brokers of each partition's replicas."""

    def make(replicas):
        topic = fresh("classic")
        new = NewTopic(topic, len(replicas), replica_assignment=replicas)
        create_topics({"bootstrap.servers": cluster.bootstrap}, new)
        return topic

    return make


@pytest.fixture
def start(cluster, request):
    """Start members, and stop them at the end."""
    with ExitStack() as stack:

        def begin(client, group, topics, strategy, rack=None, **kwargs):
            common = {} if rack is None else {"client_rack": rack}
            if client == "java":
                config = {"partition.assignment.strategy": CLIENT_SIDE[strategy]}
                if rack is not None:
                    config["client.rack"] = rack
                kafka = request.getfixturevalue("kafka")
                member = JavaMember(cluster.bootstrap, group, topics, kafka=kafka, **config)
            else:
                module, kind = {
                    "kafka-python": (kafka_python, KafkaPythonMember),
                    "aiokafka": (aiokafka, AiokafkaMember),
                }[client]
                made = {getattr(module, name).name: name for name in module.__all__}
                assignor = getattr(module, made[strategy])(rack=rack, **kwargs)
                member = kind(cluster.bootstrap, group, topics, assignors=[assignor], **common)
            member.start()
            stack.callback(member.stop)
            return member

        yield begin


def settled(members, partitions):
    """Whether the members are in one generation and share all partitions, each once."""
    held = [partition for member in members for partition in member.held]
    return (
        len({member.generation for member in members}) == 1
        and len(held) == len(set(held)) == partitions
    )


def shown(members):
    return lambda: str(
        [(type(m).__name__, m.generation, sorted(m.held), m.failure) for m in members]
    )


def as_planned(members):
    """What the members hold, by member id, topic and partition."""
    held = {}
    for member in members:
        held[member.member_id] = by_topic = {}
        for topic, number in sorted(member.held):
            by_topic.setdefault(topic, []).append(number)
    return held


@pytest.mark.parametrize("leader", ["kafka-python", "aiokafka", "java"])
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
@again_where_a_member_stalled
def test_a_group_of_three_clients_has_kafkas_answer_whoever_leads(
    start, make_topic, fresh, strategy, leader
):
    """The first member leads. `range` is rack-aware here, also where aiokafka's member leads."""
    replicas = [[1], [1], [2], [2], [3], [3]]
    topic, group = make_topic(replicas), fresh("mixed")
    clients = sorted(["kafka-python", "aiokafka", "java"], key=lambda client: client != leader)
    racks = dict(zip(clients, "cab", strict=True))
    members = [start(clients[0], group, [topic], strategy, rack=racks[clients[0]])]
    wait_until("first member", lambda: settled(members, 6), shown=shown(members))
    members += [
        start(client, group, [topic], strategy, rack=racks[client]) for client in clients[1:]
    ]
    wait_until(
        "settled group",
        lambda: settled(members, 6) and all(m.held for m in members),
        shown=shown(members),
    )
    if strategy == "sticky":
        assert sorted(len(member.held) for member in members) == [2, 2, 2]
        return
    group = Group.build(
        {topic: Topic(partitions=6, replica_racks=[[RACK_OF[b] for b in r] for r in replicas])},
        [
            Member(id=member.member_id, topics=[topic], rack=racks[client])
            for client, member in zip(clients, members, strict=True)
        ],
    )
    assert as_planned(members) == STRATEGIES[strategy](group).to_names(group)


@pytest.mark.parametrize("leader", ["kafka-python", "java"])
@again_where_a_member_stalled
def test_a_cooperative_group_with_java_keeps_what_does_not_move(start, make_topic, fresh, leader):
    topic, group = make_topic([[1]] * 6), fresh("cooperative")
    clients = sorted(["kafka-python", "java"], key=lambda client: client != leader)
    first = start(clients[0], group, [topic], "cooperative-sticky")
    wait_until("first member", lambda: settled([first], 6), shown=shown([first]))
    second = start(clients[1], group, [topic], "cooperative-sticky")
    wait_until(
        "settled group",
        lambda: settled([first, second], 6) and len(second.held) == 3,
        shown=shown([first, second]),
    )
    assert len(first.held) == 3
    joined = [held for _, held in first.changes if len(held) == 6 or held == first.held]
    assert [held for _, held in first.changes if held] == joined, "it gave up more than moved"


@again_where_a_member_stalled
def test_a_leader_with_a_rack_rebalances_when_replicas_move_to_other_racks(
    start, make_topic, fresh, reassign
):
    """KIP-881: nobody joins or leaves, and each member reads locally again."""
    topic, group = make_topic([[1], [1], [2], [2]]), fresh("racks")
    first = start("kafka-python", group, [topic], "range", rack="a")
    wait_until("first member", lambda: settled([first], 4), shown=shown([first]))
    second = start("aiokafka", group, [topic], "range", rack="b")
    members = [first, second]
    wait_until(
        "settled group", lambda: settled(members, 4) and len(second.held) == 2, shown=shown(members)
    )
    assert first.held == {(topic, 0), (topic, 1)}
    reassign(topic, {0: [2], 1: [2], 2: [1], 3: [1]})
    wait_until(
        "other partitions of the first member",
        lambda: first.held == {(topic, 2), (topic, 3)},
        shown=shown(members),
    )
    wait_until(
        "other partitions of the second member",
        lambda: second.held == {(topic, 0), (topic, 1)},
        shown=shown(members),
    )


@again_where_a_member_stalled
def test_a_leader_plans_by_the_lag_that_the_brokers_know(cluster, start, make_topic, fresh):
    topic, group = make_topic([[1], [1], [1]]), fresh("lagging")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition, records in enumerate([50, 100, 60]):
        for _ in range(records):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    commit_offsets(consumer, [TopicPartition(topic, 2, 55)])
    consumer.close()
    lag = BrokerLag({"bootstrap.servers": cluster.bootstrap}, group, auto_offset_reset="earliest")
    assert lag([topic, "no-such-topic"]) == {topic: [50, 100, 5]}
    assert BrokerLag({"bootstrap.servers": cluster.bootstrap}, group)([topic]) == {topic: [0, 0, 5]}
    for words, behind in ((broker_lag.AT_END, [0, 0, 5]), (broker_lag.AT_BEGIN, [50, 100, 5])):
        for word in words:
            by_word = BrokerLag(
                {"bootstrap.servers": cluster.bootstrap}, group, auto_offset_reset=word
            )
            assert by_word([topic]) == {topic: behind}, word

    def fixed(topics):
        """The lag as it was: the members commit what they read."""
        return {name: [50, 100, 5] for name in topics}

    members = [
        start(client, group, [topic], "lag", lags=fixed) for client in ("aiokafka", "kafka-python")
    ]
    wait_until(
        "settled group",
        lambda: settled(members, 3) and all(m.held for m in members),
        shown=shown(members),
    )
    assert {(topic, 1)} in [member.held for member in members], shown(members)()


@again_where_a_member_stalled
def test_a_member_without_a_common_protocol_is_refused_in_clear_words(
    cluster, start, make_topic, fresh
):
    topic, group = make_topic([[1]]), fresh("refused")
    first = start("aiokafka", group, [topic], "roundrobin")
    wait_until("first member", lambda: settled([first], 1), shown=shown([first]))
    stranger = start("kafka-python", group, [topic], "fair")
    wait_until("refusal", lambda: stranger.failure is not None, shown=shown([stranger]))
    assert type(stranger.failure).__name__ == "InconsistentGroupProtocolError"
    error = no_common_protocol(
        {"bootstrap.servers": cluster.bootstrap}, group, [kafka_python.FairAssignor]
    )
    assert isinstance(error, InconsistentGroupProtocolError)
    assert "offers fair" in str(error)
    assert "its 1 members (aiokafka-" in str(error)
    assert "go by 'roundrobin'; give all members one in common" in str(error)
    assert first.held == {(topic, 0)}, "the group goes on"

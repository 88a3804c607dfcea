"""Each strategy on real brokers: both clients in one group, and Kafka's console consumer."""

from contextlib import ExitStack
from importlib import import_module

import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.registry import STRATEGIES
from levelwind_testing.kafka.classic_members import (
    AiokafkaMember,
    KafkaPythonMember,
    again_where_a_member_stalled,
)
from levelwind_testing.kafka.console_consumer import CLIENT_ID, ConsoleConsumer
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.kafka_oracle import CLIENT_SIDE
from levelwind_testing.waiting import wait_until

pytest.importorskip("kafka", reason="an extra that is not installed")
pytest.importorskip("aiokafka", reason="an extra that is not installed")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

MODULES = {
    "kafka-python": (import_module("levelwind.clients.kafka_python"), KafkaPythonMember),
    "aiokafka": (import_module("levelwind.clients.aiokafka"), AiokafkaMember),
}
LEVELWINDS = sorted(STRATEGIES.keys() - CLIENT_SIDE.keys())
REPLICAS = [[1], [1], [2], [2], [3], [3]]
RACK_OF = {1: "a", 2: "b", 3: "c"}
RACKS = {"kafka-python": "c", "aiokafka": "a", "console": "b"}
LAGS = [70, 10, 20, 30, 40, 50]
PRIORITIES = {"kafka-python": 7, "aiokafka": 3}


class GroupOnBrokers:
    """A group of one topic on real brokers, and what its coordinator says of it."""

    def __init__(self, bootstrap, group, topic, stack):
        self.bootstrap, self.group, self.topic, self.stack = bootstrap, group, topic, stack
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        new = NewTopic(topic, len(REPLICAS), replica_assignment=REPLICAS)
        create_topics({"bootstrap.servers": bootstrap}, new)
        self.members = []

    def join(self, client, *strategies):
        """A member that offers strategies, by preference."""
        module, kind = MODULES[client]
        names = {getattr(module, name).name: name for name in module.__all__}
        assignors = []
        for strategy in strategies:
            options = {}
            if strategy == "failover":
                options["priority"] = PRIORITIES[client]
            if strategy in {"lag", "lag-global", "optimal"}:
                options["lags"] = lambda topics: dict.fromkeys(topics, LAGS)
            assignors.append(getattr(module, names[strategy])(rack=RACKS[client], **options))
        member = kind(
            self.bootstrap,
            self.group,
            [self.topic],
            assignors=assignors,
            client_id=client,
            client_rack=RACKS[client],
        )
        member.start()
        self.stack.callback(member.stop)
        self.members.append(member)
        return member

    def join_console(self, strategy):
        console = ConsoleConsumer(
            self.bootstrap,
            self.group,
            self.topic,
            {
                "partition.assignment.strategy": CLIENT_SIDE[strategy],
                "client.rack": RACKS["console"],
                "group.protocol": "classic",
            },
        )
        self.stack.callback(console.stop)
        return console

    def described(self):
        """Protocol, and by client id the member id and partitions; None while it rebalances."""
        asked = described_group(self.admin, self.group)
        if asked.state != ConsumerGroupState.STABLE:
            return None
        return asked.partition_assignor, {
            member.client_id: (
                member.member_id,
                sorted(entry.partition for entry in member.assignment.topic_partitions),
            )
            for member in asked.members
        }

    def stable(self, count):
        """Wait until so many members share all partitions; return what the coordinator says."""

        def shared():
            found = self.described()
            if found is None or len(found[1]) != count:
                return None
            numbers = sorted(n for _, held in found[1].values() for n in held)
            return found if numbers == list(range(len(REPLICAS))) else None

        return wait_until(
            f"group of {count}",
            shared,
            shown=lambda: (self.described(), [member.failure for member in self.members]),
        )


@pytest.fixture
def make_group(cluster, fresh):
    """Make a group with a topic of its own."""
    with ExitStack() as stack:
        yield lambda: GroupOnBrokers(
            cluster.bootstrap, fresh("strategies"), fresh("classic"), stack
        )


def answer(strategy, topic, members):
    """The library's own answer, by member id."""
    lagging = strategy in {"lag", "lag-global", "optimal"}
    inputs = Topic(
        partitions=len(REPLICAS),
        replica_racks=[[RACK_OF[broker] for broker in brokers] for brokers in REPLICAS],
        lags=LAGS if lagging else None,
    )
    group = Group.build({topic: inputs}, members)
    return {
        member: held.get(topic, [])
        for member, held in STRATEGIES[strategy](group).to_names(group).items()
    }


@pytest.mark.parametrize("leader", ["kafka-python", "aiokafka"])
@pytest.mark.parametrize("strategy", LEVELWINDS)
@again_where_a_member_stalled
def test_a_group_of_both_clients_gets_the_librarys_answer(make_group, strategy, leader):
    """The first member leads; when the second joins, it owns all partitions of the topic."""
    on_brokers = make_group()
    other = "aiokafka" if leader == "kafka-python" else "kafka-python"
    first = on_brokers.join(leader, strategy)
    on_brokers.stable(1)
    held, generation = {on_brokers.topic: tuple(range(len(REPLICAS)))}, first.generation
    on_brokers.join(other, strategy)
    protocol, found = on_brokers.stable(2)
    assert protocol == strategy
    expected = answer(
        strategy,
        on_brokers.topic,
        [
            Member(
                id=found[client][0],
                topics=[on_brokers.topic],
                rack=RACKS[client],
                owned=held if client == leader else None,
                generation=generation if client == leader else -1,
                **({"priority": PRIORITIES[client]} if strategy == "failover" else {}),
            )
            for client in (leader, other)
        ],
    )
    assert dict(found.values()) == expected


@pytest.mark.parametrize("leader", ["kafka-python", "console"])
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@again_where_a_member_stalled
def test_kafkas_console_consumer_shares_a_group_with_both_clients(make_group, strategy, leader):
    on_brokers = make_group()
    producer = Producer({"bootstrap.servers": on_brokers.bootstrap})
    for number in range(len(REPLICAS)):
        producer.produce(on_brokers.topic, f"record {number}", partition=number)
    assert producer.flush(30) == 0
    if leader == "console":
        console = on_brokers.join_console(strategy)
        on_brokers.stable(1)
        on_brokers.join("kafka-python", strategy)
    else:
        on_brokers.join("kafka-python", strategy)
        on_brokers.stable(1)
        console = on_brokers.join_console(strategy)
    on_brokers.join("aiokafka", strategy)
    _, found = on_brokers.stable(3)
    clients = {CLIENT_ID: "console"}
    members = [
        Member(id=member, topics=[on_brokers.topic], rack=RACKS[clients.get(client, client)])
        for client, (member, _) in found.items()
    ]
    assert dict(found.values()) == answer(strategy, on_brokers.topic, members)

    # It reads what it was assigned, whoever assigned it.
    numbers = found[CLIENT_ID][1]
    for number in range(len(REPLICAS)):
        producer.produce(on_brokers.topic, f"then {number}", partition=number)
    assert producer.flush(30) == 0
    wait_until(
        "record of each partition",
        lambda: {n for n, text in console.read if text.startswith("then")} == set(numbers),
        shown=lambda: console.output,
    )


@again_where_a_member_stalled
def test_of_several_strategies_the_group_takes_the_one_that_all_members_offer(make_group):
    """As with Kafka's own, a group changes its strategy in two rounds of restarts."""
    on_brokers = make_group()
    on_brokers.join("kafka-python", "sticky", "uniform", "range")
    assert on_brokers.stable(1)[0] == "sticky"
    second = on_brokers.join("aiokafka", "range", "uniform")
    protocol, found = on_brokers.stable(2)
    assert protocol in {"range", "uniform"}
    assert [len(held) for _, held in found.values()] == [3, 3]
    second.stop()
    on_brokers.stable(1)
    on_brokers.join("aiokafka", "uniform", "fair")
    assert on_brokers.stable(2)[0] == "uniform"

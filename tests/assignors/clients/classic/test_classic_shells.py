"""Both shells give the answer of `assignors`, from and to the bytes of Kafka's protocol."""

import asyncio
import struct
from importlib import import_module
from inspect import getdoc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.clients.classic.lag_source import LagUnavailableError
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerSubscription
from levelwind.assignors.protocol.kafka.sticky_user_data import StickyUserData
from levelwind.assignors.registry import STRATEGIES
from levelwind_testing.examples import examples
from levelwind_testing.groups.random_groups import ProblemShape, problems
from levelwind_testing.kafka.classic_shells import JoinedConsumer, partitions_in

SHELLS = {
    "kafka": ("levelwind_testing.kafka.kafka_python_shell", "KafkaPythonShell"),
    "aiokafka": ("levelwind_testing.kafka.aiokafka_shell", "AiokafkaShell"),
}
RACKS = {1: "a", 2: "b", 3: "c", 4: None}


def shell_of(client):
    """The shell of a client, which is an extra."""
    pytest.importorskip(client, reason="an extra that is not installed")
    module, name = SHELLS[client]
    return getattr(import_module(module), name)()


@pytest.fixture(scope="module", params=SHELLS)
def shell(request):
    return shell_of(request.param)


@pytest.fixture(scope="module")
def kafka_python():
    return shell_of("kafka")


@pytest.fixture(scope="module")
def aiokafka():
    return shell_of("aiokafka")


def offered(shell):
    """The assignor classes of a shell, by strategy; not those that follow the daemon's plans."""
    classes = {getattr(shell.assignors, name).name: name for name in shell.assignors.__all__}
    return {protocol: name for protocol, name in classes.items() if protocol in STRATEGIES}


def lags_of(topics):
    """A source with the lag of a problem's topics."""
    return lambda names: {name: topics[name].lags or [] for name in names if name in topics}


def made(shell, name, member, topics):
    """The assignor of a member of a problem, as it is after the rebalances so far."""
    kwargs = {"rack": member.rack}
    if name == "failover":
        kwargs["priority"] = member.priority
    if name in {"lag", "lag-global", "optimal"}:
        kwargs["lags"] = lags_of(topics)
    assignor = getattr(shell.assignors, offered(shell)[name])(**kwargs)
    if member.owned is not None:
        assignor.take({t: tuple(held) for t, held in member.owned.items()}, member.generation)
    return assignor


def test_each_strategy_has_a_class_with_its_name(kafka_python, aiokafka):
    assert offered(kafka_python).keys() == STRATEGIES.keys()
    assert offered(aiokafka).keys() == STRATEGIES.keys() - {"cooperative-sticky"}
    for shell in (kafka_python, aiokafka):
        assert {"PublishedAssignor", *offered(shell).values()} <= set(shell.assignors.__all__)
        for name in shell.assignors.__all__:
            made_class = getattr(shell.assignors, name)
            assert made_class.__name__ == name
            assert made_class.__module__ == shell.assignors.__name__
            assert getdoc(made_class)


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(data=st.data(), problem=problems(ProblemShape(static=False, claims=False)))
def test_a_leader_gives_the_answer_of_the_strategy(shell, data, problem):
    name = data.draw(st.sampled_from(sorted(offered(shell))))
    # Replicas are named by broker here, so a partition has as many racks as it has brokers.
    rack_of = {f"r{n}": n + 1 for n in range(4)}
    layout = {
        topic: [
            sorted(rack_of[rack] for rack in racks)
            for racks in (inputs.replica_racks or [()] * inputs.partitions)
        ]
        for topic, inputs in problem.topics.items()
    }
    cluster = shell.cluster(layout, {broker: rack for rack, broker in rack_of.items()})
    members = [
        Member(id=m.id, topics=m.topics, rack=m.rack, priority=priority_under(name, m))
        for m in problem.members
    ]
    assignors = {m.id: made(shell, name, m, problem.topics) for m in members}
    joined = {m.id: (assignors[m.id].metadata(set(m.topics)), None) for m in members}
    leader = assignors[members[0].id]
    answer = shell.assign(leader, cluster, joined)

    read = {topic for member in members for topic in member.topics}
    lagging = name in {"lag", "lag-global", "optimal"}
    topics = {
        topic: Topic(
            partitions=inputs.partitions,
            replica_racks=inputs.replica_racks,
            lags=inputs.lags if lagging else None,
        )
        for topic, inputs in problem.topics.items()
        if topic in read
    }
    group = Group.build(topics, members)
    expected = STRATEGIES[name](group).to_names(group)
    assert {member: partitions_in(raw) for member, raw in answer.items()} == expected


def priority_under(name, member):
    """The priority that a leader sees: only `failover` carries it."""
    return member.priority if name == "failover" else 2**31 - 1


@given(data=st.data(), problem=problems(ProblemShape(lags=False, static=False)))
def test_claims_and_their_generation_reach_the_leader(shell, data, problem):
    name = data.draw(
        st.sampled_from([s for s in offered(shell) if "sticky" in s or s == "uniform"])
    )
    layout = {topic: [[1]] * inputs.partitions for topic, inputs in problem.topics.items()}
    cluster = shell.cluster(layout, RACKS)
    assignors = {m.id: made(shell, name, m, problem.topics) for m in problem.members}
    joined = {m.id: (assignors[m.id].metadata(set(m.topics)), None) for m in problem.members}
    answer = shell.assign(assignors[problem.members[0].id], cluster, joined)
    members = [
        Member(
            id=m.id,
            topics=m.topics,
            rack=m.rack,
            generation=m.generation,
            owned=None
            if m.owned is None
            else {t: held for t, held in m.owned.items() if t in m.topics},
        )
        if m.owned is not None
        else Member(id=m.id, topics=m.topics, rack=m.rack)
        for m in problem.members
    ]
    read = {topic for member in members for topic in member.topics}
    group = Group.build(
        {
            topic: Topic(partitions=inputs.partitions, replica_racks=[["a"]] * inputs.partitions)
            for topic, inputs in problem.topics.items()
            if topic in read
        },
        members,
    )
    expected = STRATEGIES[name](group).to_names(group)
    assert {member: partitions_in(raw) for member, raw in answer.items()} == expected


def test_kafka_pythons_own_codec_reads_and_writes_the_same_bytes(kafka_python):
    metadata = import_module("kafka.protocol.consumer.metadata")
    assignor = kafka_python.assignors.UniformAssignor(rack="a")
    assignor.take({"t": (0, 2)}, 7)
    raw = assignor.metadata({"t", "u"})
    read = metadata.ConsumerProtocolSubscription.decode(raw)
    assert (read.topics, read.generation_id, read.rack_id) == (["t", "u"], 7, "a")
    assert read.encode() == raw


@pytest.mark.parametrize("version", range(4))
def test_a_member_writes_the_version_that_it_was_told_to(shell, version):
    assignor = shell.assignors.UniformAssignor(rack="a", version=version)
    assignor.take({"t": (0,)}, 7)
    read = ConsumerSubscription.decode(assignor.metadata({"t"}))
    assert read.owned == ({"t": (0,)} if version >= 1 else {})
    assert read.generation == (7 if version >= 2 else -1)
    assert read.rack == ("a" if version >= 3 else None)
    with pytest.raises(ValueError, match="version: must be 0 to 3, not 4"):
        shell.assignors.UniformAssignor(version=4)


def test_user_data_is_that_of_kafkas_assignors(shell):
    sticky = shell.assignors.StickyAssignor()
    assert ConsumerSubscription.decode(sticky.metadata({"t"})).user_data is None
    cluster = shell.cluster({"t": [[1], [2]]}, RACKS)
    raw = shell.assign(sticky, cluster, {"m": (sticky.metadata({"t"}), None)})["m"]
    shell.take(sticky, raw, 4)
    user_data = ConsumerSubscription.decode(sticky.metadata({"t"})).user_data
    assert StickyUserData.decode(user_data) == StickyUserData(held={"t": (0, 1)}, generation=4)
    failover = shell.assignors.FailoverAssignor(priority=-7)
    assert ConsumerSubscription.decode(failover.metadata({"t"})).user_data == struct.pack(">i", -7)
    with pytest.raises(ValueError, match="priority: must fit an int32"):
        shell.assignors.FailoverAssignor(priority=2**31)


def test_strategies_without_memory_join_with_the_same_bytes_after_an_assignment(shell):
    """A member that joins again with other bytes would start a rebalance."""
    for name in ("RangeAssignor", "RoundRobinAssignor", "FailoverAssignor", "LagAssignor"):
        assignor = getattr(shell.assignors, name)()
        owned = assignor.metadata({"t", "u"})
        assignor.take({"t": (0,)}, -1)
        assert assignor.metadata(["u", "t"]) == owned


def test_partitions_of_a_topic_that_is_no_longer_read_are_not_claimed(kafka_python):
    assignor = kafka_python.assignors.CooperativeStickyAssignor()
    assignor.take({"t": (0,), "u": (1,)}, 3)
    assert ConsumerSubscription.decode(assignor.metadata({"u"})).owned == {"u": (1,)}


def test_static_members_are_ordered_by_instance_id(kafka_python):
    assignor = kafka_python.assignors.RangeAssignor()
    cluster = kafka_python.cluster({"t": [[1]]}, RACKS)
    raw = assignor.metadata({"t"})
    answer = kafka_python.assign(assignor, cluster, {"a": (raw, "z"), "b": (raw, "i")})
    assert partitions_in(answer["b"]) == {"t": [0]}


def test_a_leader_with_a_rack_asks_for_a_rebalance_once_the_racks_of_replicas_change(shell):
    """KIP-881; leaders of partitions, topics of others and the order of replicas are no change."""
    assignor, consumer = shell.assignors.RangeAssignor(rack="a"), JoinedConsumer()
    assignor.attach(consumer)
    cluster = shell.cluster({"t": [[1, 2]], "other": [[1]]}, RACKS)
    shell.assign(assignor, cluster, {"m": (assignor.metadata({"t"}), None)})
    for unchanged in ({"t": [[2, 1]], "other": [[3]]}, {"other": [[1]]}, {"t": [[1, 2], [3]]}):
        shell.update(cluster, unchanged, RACKS)
        assert consumer.requests == []
    shell.update(cluster, {"t": [[1, 3]]}, RACKS)
    shell.update(cluster, {"t": [[2, 3]]}, RACKS)
    assert consumer.requests == [1], "one request, until it leads again"
    shell.assign(assignor, cluster, {"m": (assignor.metadata({"t"}), None)})
    assignor.metadata({"t"})  # it joins again, and may not lead any more
    shell.update(cluster, {"t": [[1, 3]]}, RACKS)
    assert consumer.requests == [1]


def test_a_leader_without_a_rack_asks_for_nothing(shell):
    assignor, consumer = shell.assignors.RangeAssignor(), JoinedConsumer()
    assignor.attach(consumer)
    cluster = shell.cluster({"t": [[1, 2]]}, RACKS)
    shell.assign(assignor, cluster, {"m": (assignor.metadata({"t"}), None)})
    shell.update(cluster, {"t": [[3]]}, RACKS)
    assert consumer.requests == []


def test_an_assignor_belongs_to_one_consumer(shell):
    assignor, first, second = shell.assignors.RangeAssignor(), JoinedConsumer(), JoinedConsumer()
    assignor.attach(first)
    assignor.attach(first)
    with pytest.raises(RuntimeError, match="each consumer needs an instance of its own"):
        assignor.attach(second)


def test_lag_that_cannot_be_had_counts_as_none(shell, caplog):
    def broken(_):
        raise LagUnavailableError("no broker answers")

    assignor = shell.assignors.LagAssignor(lags=broken)
    cluster = shell.cluster({"t": [[1], [1]]}, RACKS)
    answer = shell.assign(assignor, cluster, {"m": (assignor.metadata({"t"}), None)})
    assert partitions_in(answer["m"]) == {"t": [0, 1]}
    assert "lag plans without lag: no broker answers" in caplog.text


@pytest.mark.parametrize("name", ["LagAssignor", "OptimalAssignor"])
def test_a_source_of_lag_that_no_leader_could_call_is_refused_at_once(shell, name):
    async def lags(_topics):
        return {}

    for source in (lags, {"orders": [1]}):
        with pytest.raises(TypeError, match=r"^lags: must be a function"):
            getattr(shell.assignors, name)(lags=source)


def test_an_option_of_a_strategy_is_checked_at_the_start(shell):
    shell.assignors.OptimalAssignor(count_slack=2)
    with pytest.raises(TypeError, match="lag-global takes no option 'slack'"):
        shell.assignors.LagGlobalAssignor(slack=2)
    with pytest.raises(ProblemError, match="max_count_skew"):
        shell.assignors.LagGlobalAssignor(max_count_skew=-1)


def test_a_class_given_to_aiokafka_has_an_instance_for_each_consumer(aiokafka):
    """aiokafka's own assignors are classes; what a class keeps would be shared by all consumers."""
    sticky = aiokafka.assignors.StickyAssignor
    cluster = aiokafka.cluster({"t": [[1], [2]]}, RACKS)

    async def consumer():
        raw = aiokafka.assign(sticky, cluster, {"m": (sticky.metadata({"t"}), None)})["m"]
        aiokafka.take(sticky, raw, -1)
        await asyncio.sleep(0)
        return ConsumerSubscription.decode(sticky.metadata({"t"})).user_data

    async def fresh():
        await asyncio.sleep(0)
        return ConsumerSubscription.decode(sticky.metadata({"t"})).user_data

    async def both():
        return await asyncio.gather(consumer(), fresh())

    used, unused = asyncio.run(both())
    assert StickyUserData.decode(used).held == {"t": (0, 1)}
    assert unused is None


def test_a_leader_of_aiokafka_sees_racks_though_aiokafka_does_not(aiokafka):
    """Members of other clients write what aiokafka's structure leaves out."""
    assignor = aiokafka.assignors.RangeAssignor()
    cluster = aiokafka.cluster({"t": [[1], [2]]}, RACKS)
    joined = {
        "m0": (ConsumerSubscription(topics=("t",), rack="b").encode(), None),
        "m1": (ConsumerSubscription(topics=("t",), rack="a").encode(), None),
    }
    answer = aiokafka.assign(assignor, cluster, joined)
    assert partitions_in(answer["m0"]) == {"t": [1]}

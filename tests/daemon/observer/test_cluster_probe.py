"""From the client's answers to values of ours."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from levelwind.assignors.protocol.records import BrokerRecord, TopicRecord, decode, encode
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.kafka.clients import CALLS_AHEAD, PARTITIONS_PER_REQUEST
from levelwind.daemon.observer.cluster_probe import (
    _to_describe,
    _topic,
    begins_due,
    probe_cluster,
    read_offsets,
)
from levelwind.daemon.observer.cluster_state import (
    ClusterState,
    ObservedTopic,
    diff,
)
from levelwind.daemon.observer.selection import Selection


def node(number):
    return SimpleNamespace(id=number)


def partition(number, leader, replicas, isr):
    return SimpleNamespace(
        id=number,
        leader=leader and node(leader),
        replicas=[node(broker) for broker in replicas],
        isr=[node(broker) for broker in isr],
    )


def test_a_description_is_put_in_order_and_its_id_written_as_kafka_writes_it():
    # 0xFBEF… has both letters that the two alphabets of base64 write differently.
    topic_id = Uuid(-0x0410410410410411, -0x0410410410410411)
    assert str(topic_id).count("+") + str(topic_id).count("/") > 0
    description = SimpleNamespace(
        topic_id=topic_id,
        partitions=[partition(1, None, [3], []), partition(0, 2, [2, 1], [2, 1])],
    )
    assert _topic(description) == ObservedTopic(
        id=str(topic_id).replace("+", "-").replace("/", "_"),
        leader=(2, -1),
        replicas=((2, 1), (3,)),
        isr=((1, 2), ()),
    )


def test_begins_are_asked_for_where_they_are_not_known_and_there_is_somebody_to_ask():
    topic = TopicRecord(
        topic="t",
        at=1,
        id="new",
        leader=(1, -1, 2),
        replicas=((1,), (1,), (2,)),
        isr=((1,), (), (2,)),
        racks=((), (), ()),
    )
    assert begins_due([topic], {}, all_due=False) == {("t", 0), ("t", 2)}
    assert begins_due([topic], {("new", 0): 5, ("old", 2): 5}, all_due=False) == {("t", 2)}
    assert begins_due([topic], {("new", 0): 5, ("new", 2): 5}, all_due=False) == set()
    assert begins_due([topic], {("new", 0): 5, ("new", 2): 5}, all_due=True) == {("t", 0), ("t", 2)}


class Answering:
    """An admin client to whom each partition's offset is its number."""

    def __init__(self):
        self.calls = []

    def list_offsets(self, wanted, **_):
        self.calls.append([(partition.topic, partition.partition) for partition in wanted])
        return {partition: Answer(partition) for partition in wanted}


class Answer:
    def __init__(self, partition):
        self.offset = partition.partition

    def result(self, _timeout=None):
        return self


class CountedAnswers(Answering):
    """An admin client that counts the calls whose answers nobody has taken yet."""

    def __init__(self, *, slow=False):
        super().__init__()
        self.slow = slow
        self.waiting = self.most_waiting = 0

    def list_offsets(self, wanted, **_):
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        *_, last = wanted
        return {
            partition: CountedAnswer(self, partition, last=partition is last)
            for partition in wanted
        }


class CountedAnswer(Answer):
    def __init__(self, client, partition, *, last):
        super().__init__(partition)
        self.client, self.last = client, last

    def result(self, timeout=None):
        if timeout is not None and self.client.slow:
            raise TimeoutError
        if timeout is None and self.last:
            self.client.waiting -= 1
        return self


def test_a_large_cluster_is_asked_in_a_few_calls_at_a_time():
    client = CountedAnswers()
    places = [("t", number) for number in range(20 * PARTITIONS_PER_REQUEST)]
    found = read_offsets(client, places, (), 1.0)
    assert len(found.stable) == len(places)
    assert client.most_waiting <= CALLS_AHEAD


def test_all_calls_are_made_at_once_where_one_is_not_answered_soon():
    client = CountedAnswers(slow=True)
    places = [("t", number) for number in range(20 * PARTITIONS_PER_REQUEST)]
    assert len(read_offsets(client, places, (), 1.0).stable) == len(places)
    assert client.most_waiting == 20


def test_many_partitions_are_asked_for_in_calls_of_a_few_and_in_their_order():
    client = Answering()
    places = [("t", number) for number in range(2 * PARTITIONS_PER_REQUEST + 1)]
    found = read_offsets(client, places, places[:1], 1.0, commit_partitions=2)
    numbers = dict(zip(places, range(len(places)), strict=True))
    assert (found.stable, found.high, found.begin) == (numbers, numbers, {("t", 0): 0})
    assert found.commits == found.commits_high == {0: 0, 1: 1}
    assert max(map(len, client.calls)) == PARTITIONS_PER_REQUEST
    asked = [partition for call in client.calls for partition in call]
    commits = [(OFFSETS_TOPIC, 0), (OFFSETS_TOPIC, 1)]
    assert asked == [*commits, *places, *commits, ("t", 0), *places]


def test_a_stable_offset_is_asked_for_only_where_the_high_watermark_moved_or_stood_above_it():
    client = Answering()
    places = [("t", number) for number in range(4)]
    # The last has moved since; of ("t", 3) nothing is known.
    stable_at_high_watermark = {("t", 0): 0, ("t", 1): 1, ("t", 2): 1}
    found = read_offsets(client, places, (), 1.0, stable_at_high_watermark=stable_at_high_watermark)
    assert found.stable == found.high == dict(zip(places, range(4), strict=True))
    assert client.calls == [places, places[2:]]


class Refusing(Answering):
    """An admin client whose calls for these partitions alone fail as a whole."""

    def __init__(self, *partitions):
        super().__init__()
        self.refused = list(partitions)

    def list_offsets(self, wanted, **_):
        answers = super().list_offsets(wanted)
        failed = self.calls[-1] == self.refused
        return dict.fromkeys(wanted, Refused()) if failed else answers


class Refused:
    def result(self, _timeout=None):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_leader_that_gives_one_offset_has_answered():
    places = [("t", number) for number in range(4)]
    begins = Refusing(("t", 0), ("t", 1))
    found = read_offsets(begins, places, places[:2], 1.0)
    assert (found.failed.keys(), found.unanswered) == ({("t", 0), ("t", 1)}, frozenset())
    stables = Refusing(("t", 2))
    known = {("t", number): number for number in (0, 1, 3)}
    found = read_offsets(stables, places, (), 1.0, stable_at_high_watermark=known)
    assert (found.failed.keys(), found.unanswered) == ({("t", 2)}, frozenset())


def test_a_leader_that_gives_no_offset_has_not_answered():
    places = [("t", number) for number in range(4 * PARTITIONS_PER_REQUEST)]
    lost = places[:PARTITIONS_PER_REQUEST]
    assert read_offsets(Refusing(*lost), places, (), 1.0).unanswered == set(lost)


def listed(**layouts):
    return {
        name: SimpleNamespace(
            error=None,
            partitions={
                number: SimpleNamespace(leader=leader, replicas=replicas, isrs=isr)
                for number, (leader, replicas, isr) in enumerate(partitions)
            },
        )
        for name, partitions in layouts.items()
    }


def test_a_topic_is_described_when_the_list_shows_another_layout_than_is_known_of_it():
    def known(name):
        return TopicRecord(
            topic=name, at=1, id=name, leader=(1,), replicas=((2, 1),), isr=((1, 2),), racks=((),)
        )

    state = ClusterState(
        topics={name: known(name) for name in ("same", "led", "moved", "out", "grown", "hid")}
    )
    same = (1, [2, 1], [2, 1])  # a list gives those in sync in any order, replicas in theirs
    now = listed(
        same=[same],
        led=[(2, [2, 1], [2, 1])],
        moved=[(1, [1, 2], [2, 1])],
        out=[(1, [2, 1], [1])],
        grown=[same, same],
        new=[same],
        other=[same],
    )
    selection = Selection.of([".*"], ["other"])
    some = _to_describe(now, selection, state, full=False)
    assert some == ["grown", "hid", "led", "moved", "new", "out"]
    assert _to_describe(now, selection, state, full=True) == sorted([*some, "same"])


class Cluster:
    """An admin client of some brokers without topics, which counts its questions."""

    def __init__(self, *brokers):
        self.brokers = brokers
        self.asked = []

    def list_topics(self, **_):
        self.asked.append("list")
        return SimpleNamespace(topics={}, brokers=dict.fromkeys(self.brokers))

    def describe_cluster(self, **_):
        self.asked.append("cluster")
        nodes = [SimpleNamespace(id=number, rack=f"r{number}") for number in self.brokers]
        return SimpleNamespace(result=lambda: SimpleNamespace(nodes=nodes))

    def describe_configs(self, resources, **_):
        self.asked += [f"settings of {resource.name}" for resource in resources]
        return {resource: SimpleNamespace(result=dict) for resource in resources}


class Joined(Cluster):
    """Brokers of some racks, and a topic with a replica on one that joined after their list."""

    def __init__(self, racks, joined):
        super().__init__(*racks)
        self.racks, self.joined = racks, joined

    def list_topics(self, **_):
        topics = listed(t=[(1, [1, 9], [1, 9])])
        return SimpleNamespace(topics=topics, brokers=dict.fromkeys(self.brokers))

    def describe_cluster(self, **_):
        nodes = [SimpleNamespace(id=number, rack=rack) for number, rack in self.racks.items()]
        return SimpleNamespace(result=lambda: SimpleNamespace(nodes=nodes))

    def describe_topics(self, _names, **_):
        replicas = [
            SimpleNamespace(id=number, rack=rack, host="h")
            for number, rack in (*self.racks.items(), (9, self.joined))
        ]
        one = SimpleNamespace(id=0, leader=replicas[0], replicas=replicas, isr=replicas)
        described = SimpleNamespace(topic_id=Uuid(1, 2), partitions=[one])
        return {"t": SimpleNamespace(result=lambda: described)}


@pytest.mark.parametrize("rack", ["", None, "a"])
@pytest.mark.parametrize("joined", ["", None, "b"])
def test_a_probe_leads_to_records_that_can_be_read_whatever_the_racks(rack, joined):
    cluster = Joined({1: rack}, joined)
    snapshot = probe_cluster(cluster, Selection.of([".*"], []), ClusterState(), 1, 1.0)
    assert snapshot.brokers == {1: rack or None, 9: joined or None}
    _, published = diff(ClusterState(), snapshot)
    assert len(published) == 3
    for record in published:
        assert decode("metadata", *encode(record)) == record


def test_a_probe_asks_for_brokers_and_their_settings_only_where_they_can_have_changed():
    known = {
        number: BrokerRecord(
            broker=number, at=1, rack=f"r{number}", online=True, follower_fetching=False
        )
        for number in (1, 2)
    }
    state, selection = ClusterState(brokers=known), Selection.of([".*"], [])

    def questions(cluster, **options):
        snapshot = probe_cluster(cluster, selection, state, 2, 1.0, **options)
        assert snapshot.brokers == {number: f"r{number}" for number in cluster.brokers}
        return cluster.asked

    settings = ["settings of 1", "settings of 2"]
    assert questions(Cluster(1, 2), full=False) == ["list"]
    assert questions(Cluster(1, 2), full=True, settings=False) == ["list", "cluster"]
    assert questions(Cluster(1, 2), full=True) == ["list", "cluster", *settings]
    assert questions(Cluster(1), full=False, settings=False) == ["list", "cluster"]
    more = questions(Cluster(1, 2, 3), full=False, settings=False)
    assert more == ["list", "cluster", "settings of 3"]

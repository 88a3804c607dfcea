"""What is polled is what the coordinators write to `__consumer_offsets`, on real brokers."""

import asyncio
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.polling.commit_mirror import CommitMirror
from levelwind.daemon.polling.coordinators import Coordinators, RequestPace
from levelwind.daemon.polling.poll_round import PollRound
from levelwind.daemon.polling.poll_schedule import QUIET_EVERY, PollSchedule
from levelwind.daemon.wall_clock import now_ms
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.client_security import ClientSecurity
from levelwind.daemon.wire.shared_connections import SharedConnections
from levelwind.streaming.decoding import offset_commits, offsets_topic
from levelwind.streaming.group.ownership import owners_of, with_coordinator_record
from levelwind.streaming.group.state import GroupState
from levelwind.streaming.messages.rows import Raw
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

PARTITIONS = 6


class Told:
    """Commits and owners that records in the format of the offsets topic tell of some groups."""

    def __init__(self, groups, topic_ids):
        self.groups = groups
        self.commits = {}
        self._states = {
            group: GroupState(topic_ids={topic: topic_ids[topic] for topic in topic_ids})
            for group in groups
        }

    def take(self, records):
        """Take keys and values in log order."""
        keys, values = [key for key, _ in records], [value for _, value in records]
        decoded = offsets_topic.decode(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
        assert decoded.rejected == {}
        commits = decoded.commits
        for group, topic, partition, offset in zip(
            commits.group, commits.topic, commits.partition, commits.offset, strict=True
        ):
            name = commits.groups[group]
            if name not in self.groups:
                continue
            key = name, commits.topics[topic], int(partition)
            if offset == offset_commits.TOMBSTONE:
                self.commits.pop(key, None)
            else:
                self.commits[key] = int(offset)
        for row, group in sorted(decoded.memberships.items()):
            if group in self.groups:
                raw = Raw(
                    topic=OFFSETS_TOPIC,
                    partition=0,
                    offset=row,
                    timestamp=0,
                    key=keys[row],
                    value=values[row],
                )
                self._states[group] = with_coordinator_record(self._states[group], raw)
        return self

    @property
    def owners(self):
        """By group, the members with their racks and partitions."""
        return {
            group: sorted(
                (
                    owner.name,
                    owner.rack,
                    sorted((t, tuple(p)) for t, p in owner.assigned.items() if p),
                )
                for owner in owners_of(state)
            )
            for group, state in self._states.items()
        }


class Poller:
    """Rounds of questions, whose answers are kept in memory."""

    def __init__(self, bootstrap):
        self._loop = asyncio.new_event_loop()
        connections = SharedConnections(addresses(bootstrap), ClientSecurity(), "poller")
        self._coordinators = Coordinators(connections, RequestPace(1000))
        self._schedule = PollSchedule()
        self.mirror = CommitMirror()
        self.written = []

    def rounds(self, number=QUIET_EVERY):
        """Ask each group at least once."""
        for _ in range(number):
            question = PollRound(self._coordinators, self.mirror, self._schedule, now_ms)
            outcome = self._loop.run_until_complete(question.run())
            assert outcome.unanswered == {}
            self.written += self.mirror.unwritten.items()
            self.mirror.written(dict(self.mirror.unwritten))

    def close(self):
        self._coordinators.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


@pytest.fixture
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def poller(cluster):
    with closing(Poller(cluster.bootstrap)) as poller:
        yield poller


def log_of(cluster):
    """Keys and values of `__consumer_offsets`, committed ones only."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "never-joined",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    with closing(reader):
        partitions = reader.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions
        reader.assign([TopicPartition(OFFSETS_TOPIC, n, OFFSET_BEGINNING) for n in partitions])
        left, records = set(partitions), []
        while left:
            for message in reader.consume(1000, 1.0):
                if message.error() is not None:
                    left.discard(message.partition())
                elif message.key() is not None:
                    records.append((message.key(), message.value()))
    return records


def polling(*consumers):
    for consumer in consumers:
        consumer.poll(0.1)


def test_commits_and_members_are_those_of_the_offsets_topic(cluster, admin, poller, fresh):
    topic, other = fresh("polled"), fresh("other")
    groups = {
        kind: fresh(kind) for kind in ("simple", "classic", "static", "kip848", "transactional")
    }
    new = [NewTopic(name, PARTITIONS, 1) for name in (topic, other)]
    create_topics({"bootstrap.servers": cluster.bootstrap}, *new)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": fresh("tx")})
    producer.init_transactions(30)
    base = {"bootstrap.servers": cluster.bootstrap, "enable.auto.commit": False}
    with ExitStack() as closed:

        def consumer(kind, **settings):
            made = Consumer({**base, "group.id": groups[kind], **settings})
            closed.enter_context(closing(made))
            return made

        simple = consumer("simple")
        commit_offsets(simple, [TopicPartition(topic, n, 7 + n, "note" * n) for n in range(3)])
        commit_offsets(simple, [TopicPartition(other, 0, 0)])
        members = [
            consumer("classic", **{"client.rack": rack, "client.id": f"c-{rack}"}) for rack in "ab"
        ]
        members += [
            consumer("static", **{"group.instance.id": name, "session.timeout.ms": 6000})
            for name in ("s-1", "s-2")
        ]
        members += [
            consumer("kip848", **{"group.protocol": "consumer", "client.rack": rack})
            for rack in "bc"
        ]
        for member in members:
            member.subscribe([topic])

        def joined():
            polling(*members)
            return all(member.assignment() for member in members) and settled(admin, groups)

        def shown():
            return {member.memberid(): member.assignment() for member in members}, told_of(
                admin, groups
            )

        wait_until("the members own partitions", joined, pause=0, shown=shown)
        for member in members:
            owned = member.assignment()
            member.commit(
                offsets=[TopicPartition(topic, one.partition, 100) for one in owned],
                asynchronous=False,
            )
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 5, 55)], consumer("transactional").consumer_group_metadata(), 30
        )
        poller.rounds()
        ids = topic_ids(admin, topic, other)
        # An open transaction is told by nobody.
        assert groups["transactional"] not in {key[0] for key in told(poller, groups, ids).commits}
        producer.commit_transaction(30)
        same_as_the_log(cluster, poller, groups, ids)

        members.pop(0).close()  # the other one takes over
        wait_until("the group is stable again", joined, pause=0)
        commit_offsets(simple, [TopicPartition(topic, 1, 70)])
        same_as_the_log(cluster, poller, groups, ids)
    wait_until("the groups are empty", lambda: all_in(admin, groups, "EMPTY"), pause=0.2)
    same_as_the_log(cluster, poller, groups, ids)
    for answer in admin.delete_consumer_groups([groups["classic"], groups["kip848"]]).values():
        answer.result(30)
    admin.delete_topics([other])[other].result(30)
    same_as_the_log(cluster, poller, groups, ids)
    assert groups["classic"] not in poller.mirror.groups


def told(poller, groups, ids):
    return Told(set(groups.values()), ids).take(poller.written)


def same_as_the_log(cluster, poller, groups, ids):
    """Wait until both tell the same: a coordinator answers before its log is read here."""

    def same():
        poller.rounds()
        log = Told(set(groups.values()), ids).take(log_of(cluster))
        polled = told(poller, groups, ids)
        return (polled.commits, polled.owners) == (log.commits, log.owners)

    wait_until("what is polled is what the log tells", same, pause=0.5)


def told_of(admin, groups):
    """State and number of members of each group that has members for the brokers."""
    named = [groups[kind] for kind in ("classic", "static", "kip848")]
    answers = admin.describe_consumer_groups(named, request_timeout=10)
    found = {name: answer.result() for name, answer in answers.items()}
    return {name: (one.state.name, len(one.members)) for name, one in found.items()}


def settled(admin, groups):
    return all(
        state == "STABLE" and members >= 1 for state, members in told_of(admin, groups).values()
    )


def all_in(admin, groups, wanted):
    return all(state == wanted for state, _ in told_of(admin, groups).values())


def topic_ids(admin, *names):
    answers = admin.describe_topics(TopicCollection(list(names)))
    return {
        name: str(answer.result().topic_id).translate(str.maketrans("+/", "-_")).rstrip("=")
        for name, answer in answers.items()
    }

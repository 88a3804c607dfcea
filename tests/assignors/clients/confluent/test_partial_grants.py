"""Grants of which the brokers refuse some partitions: the others are read, without brokers."""

from itertools import chain

import pytest
from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from levelwind.assignors.clients.confluent.owned_partitions import RETRY_SECONDS
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import Nack
from levelwind.clients.confluent import Phase
from levelwind_testing.kafka.brokerless_member import message

HEALTHY = [("orders", 0), ("orders", 1)]
SECRET = ("secret", 0)
ASSIGNED = {"orders": (0, 1), "secret": (0,)}
LATEST = {"auto.offset.reset": "latest"}

FORBIDDEN = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
UNSTABLE = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
LEADERLESS = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)

REFUSALS = {
    "a forbidden topic": ("unreadable", FORBIDDEN),
    "a commit under way": ("unreadable", UNSTABLE),
    "no leader": ("ends", LEADERLESS),
}


class Member:
    """A member, what its application was called with, and the time that goes on between polls."""

    def __init__(self, make, boot):
        self.boot = boot
        self.journal, self.given = [], []
        self.consumer = make(
            LATEST,
            topics=("orders", "secret"),
            journal=lambda change: self.journal.append(
                (change.event, (change.topic, change.partition))
            ),
            on_assign=lambda _, partitions: self.given.append(
                [(each.topic, each.partition) for each in partitions]
            ),
        )
        self.follower = self.consumer._follower
        self.brokers = self.consumer._consumer

    @property
    def announced(self):
        """What the next heartbeat announces."""
        return self.follower._machine.record("active")

    def poll(self, after=RETRY_SECONDS):
        self.boot.jump(after)
        self.follower.renew()
        messages = self.consumer.consume(10, 0)
        self.follower.step()
        return [(each.topic(), each.partition()) for each in messages]


@pytest.fixture
def make_member(make_brokerless, boot):
    boot.stop()
    yield lambda: Member(make_brokerless, boot)
    boot.go_on()


@pytest.fixture
def member(make_member):
    return make_member()


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_the_brokers_refuse_keeps_nothing_else_from_being_read(member, refusal):
    answers, error = REFUSALS[refusal]
    getattr(member.brokers, answers)[SECRET] = error
    member.brokers.records.extend(message(pair, 0) for pair in HEALTHY)
    member.follower.assign(ASSIGNED)

    assert member.poll() == HEALTHY
    assert member.given == [HEALTHY]
    assert member.journal == [("gained", pair) for pair in HEALTHY]
    assert sorted(member.brokers.assigned) == HEALTHY
    assert [(each.topic, each.partition) for each in member.consumer.assignment()] == HEALTHY
    assert member.announced.owned == ASSIGNED, "the rest may be started at any time"
    assert member.announced.starting == ASSIGNED

    member.poll()
    assert member.brokers.asked[1:] == [{SECRET}], "only the rest is asked for again"
    del getattr(member.brokers, answers)[SECRET]
    member.poll()
    assert member.given == [HEALTHY, [SECRET]]
    assert member.journal[2:] == [("gained", SECRET)]
    assert member.announced.owned == ASSIGNED
    assert (member.announced.starting, member.announced.nack) == ({}, None)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_only_the_rest_of_a_grant_is_reported_as_failed(member, refusal, caplog):
    answers, error = REFUSALS[refusal]
    getattr(member.brokers, answers)[SECRET] = error
    member.follower.assign(ASSIGNED)
    member.poll()
    for _ in range(10):
        member.poll(after=Timers().start_timeout / 10)
    assert member.announced.owned == {"orders": (0, 1)}
    assert member.announced.starting == {}
    assert member.announced.nack == Nack(epoch=1, code="start-failed")
    assert member.journal == [("gained", pair) for pair in HEALTHY]
    [line] = [line for line in caplog.text.splitlines() if "member.grant_failed" in line]
    assert "partitions=1 topics=secret" in line

    member.brokers.records.append(message(HEALTHY[0], 0))
    assert member.poll() == HEALTHY[:1]


def test_a_newer_record_takes_back_what_is_read_and_ends_the_tries_for_the_rest(member):
    member.brokers.unreadable[SECRET] = FORBIDDEN
    member.follower.assign(ASSIGNED)
    member.poll()
    member.follower.assign({"orders": (0,), "secret": (0,)})
    for _ in range(3):
        member.poll()
    assert sorted(member.brokers.assigned) == HEALTHY[:1]
    assert member.journal[2:] == [("released", HEALTHY[1])]
    assert member.announced.nack is None
    assert member.announced.starting == {"secret": (0,)}


def test_a_consumer_that_closes_gives_up_what_it_reads_and_tries_no_longer(member):
    member.brokers.unreadable[SECRET] = FORBIDDEN
    member.follower.assign(ASSIGNED)
    member.poll()
    member.boot.go_on()
    member.consumer.close()
    assert member.journal[2:] == [("released", pair) for pair in HEALTHY]
    assert (member.consumer.phase, member.announced.owned) == (Phase.LEFT, {})


def test_a_loss_drops_what_was_started_of_a_grant(member):
    member.brokers.unreadable[SECRET] = FORBIDDEN
    member.follower.assign(ASSIGNED)
    member.poll()
    member.follower.overdue()
    member.poll()
    assert member.brokers.assigned == {}
    assert member.journal[2:] == [("released", pair) for pair in HEALTHY]
    assert member.announced.owned == {}


def test_each_missing_right_is_logged_with_its_own_topics(member, caplog):
    member.brokers.unreadable.update({SECRET: FORBIDDEN, HEALTHY[0]: UNSTABLE})
    member.follower.assign(ASSIGNED)
    member.poll()
    assert "missing=READ on topic secret " in caplog.text
    assert member.given == [HEALTHY[1:]]


def test_all_leaders_are_asked_for_ends_at_once(member, monkeypatch):
    """Asked one after the other, those of a cluster far away used up the time of a large grant."""
    questions, answer = [], member.brokers.list_offsets

    def ask(specs, isolation_level, request_timeout):
        questions.append(len(specs))
        member.boot.jump(0.1)
        return answer(specs)

    monkeypatch.setattr(member.brokers, "list_offsets", ask)
    member.follower.assign({"orders": tuple(range(200))})
    member.poll()
    assert questions == [200]
    assert len(member.consumer.assignment()) == 200


def test_a_silent_leader_is_looked_for_anew(member):
    """The client answers with a negative offset for it, and would ask the same broker for ever."""
    member.brokers.ends.update({SECRET: OFFSET_INVALID, HEALTHY[0]: 5})
    member.follower.assign(ASSIGNED)
    member.poll()
    assert member.given == [HEALTHY]
    assert member.brokers.assigned == {HEALTHY[0]: 5, HEALTHY[1]: 0}
    assert member.brokers.looked_up == ["orders", "secret", "secret"]
    member.brokers.ends[SECRET] = 7
    member.poll()
    assert member.given == [HEALTHY, [SECRET]]
    assert member.brokers.assigned[SECRET] == 7


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_ends_are_those_of_the_consumers_isolation_level(make_brokerless, monkeypatch, level):
    """Records of a transaction that is still open lie behind the end at read_committed alone."""
    consumer = make_brokerless({**LATEST, "isolation.level": level.name.lower()})
    asked, answer = [], consumer._consumer.list_offsets
    monkeypatch.setattr(
        consumer._consumer,
        "list_offsets",
        lambda specs, **options: asked.append(options["isolation_level"]) or answer(specs),
    )
    consumer._follower.assign({"orders": (0,)})
    consumer.consume(1, 0)
    assert asked == [level]


OUTCOMES = st.sampled_from([None, "unreadable", "ends"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tries=st.lists(st.tuples(*(OUTCOMES for _ in [*HEALTHY, SECRET])), min_size=1, max_size=6),
    commits=st.sets(st.sampled_from([*HEALTHY, SECRET])),
)
def test_each_partition_begins_once_whenever_the_brokers_let_it(make_member, tries, commits):
    member, pairs = make_member(), [*HEALTHY, SECRET]
    member.brokers.offsets.update(dict.fromkeys(commits, 7))
    expected = set()
    member.follower.assign(ASSIGNED)
    for outcomes in tries:
        by_pair = dict(zip(pairs, outcomes, strict=True))
        member.brokers.unreadable = {p: FORBIDDEN for p in pairs if by_pair[p] == "unreadable"}
        member.brokers.ends = {p: LEADERLESS if by_pair[p] == "ends" else 9 for p in pairs}
        member.poll()
        # Only a partition without a commit needs its leader for the first offset.
        expected |= {
            pair
            for pair, outcome in by_pair.items()
            if outcome is None or (outcome == "ends" and pair in commits)
        }
        assert set(member.brokers.assigned) == set(member.consumer._owned.owned) == expected
        assert bool(member.announced.starting) == (len(expected) < len(pairs))
    assert sorted(chain.from_iterable(member.given)) == sorted(expected)
    assert sorted(member.journal) == [("gained", pair) for pair in sorted(expected)]
    for pair, offset in member.brokers.assigned.items():
        assert offset == (7 if pair in commits else 9) != OFFSET_INVALID

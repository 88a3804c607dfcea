"""What of a look at the cluster is news."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    BrokerRecord,
    OffsetsRecord,
    Tombstone,
    TopicRecord,
    decode,
    encode,
    encode_key,
)
from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.observer.cluster_state import (
    ClusterSnapshot,
    ClusterState,
    ObservedTopic,
    broker_counts,
    changed_samples,
    diff,
    end_offset_regressed,
    leader_only_brokers,
    partitions_with_moved_racks,
    recovered,
    sample,
    stable_at_high_watermark,
    unseen_brokers,
    without,
)
from levelwind.daemon.observer.selection import Selection

RACKS = {1: "a", 2: "b", 3: "c"}


def topic(*replicas, topic_id="one", leader=None, isr=None):
    return ObservedTopic(
        id=topic_id,
        leader=leader or tuple(row[0] for row in replicas),
        replicas=replicas,
        isr=isr or replicas,
    )


def seen(at, brokers=RACKS, removed=(), **topics):
    return ClusterSnapshot(at=at, brokers=brokers, topics=topics, removed=frozenset(removed))


@pytest.fixture
def known():
    return diff(ClusterState(), seen(1, orders=topic((1, 2), (2, 3))))[0]


def test_the_first_look_publishes_every_broker_and_topic_with_its_racks():
    _, news = diff(ClusterState(), seen(7, orders=topic((2, 1), (3, 2))))
    assert news == (
        BrokerRecord(broker=1, at=7, rack="a", online=True),
        BrokerRecord(broker=2, at=7, rack="b", online=True),
        BrokerRecord(broker=3, at=7, rack="c", online=True),
        TopicRecord(
            topic="orders",
            at=7,
            id="one",
            leader=(2, 3),
            replicas=((2, 1), (3, 2)),
            isr=((2, 1), (3, 2)),
            racks=(("a", "b"), ("b", "c")),
        ),
    )


def test_a_second_look_at_the_same_is_no_news(known):
    state, news = diff(known, seen(2, orders=topic((1, 2), (2, 3))))
    assert news == ()
    assert state == known


def test_a_clock_that_is_set_back_makes_no_record_older_than_the_one_before():
    layouts = [((1, 2), (2, 3)), ((1, 2), (2, 1)), ((1, 3), (2, 1))]
    state, times = ClusterState(), []
    for at, replicas in zip((1000, 5, 6), layouts, strict=True):
        state, news = diff(state, seen(at, {**RACKS, 1: f"rack of {at}"}, orders=topic(*replicas)))
        times.append([record.at for record in news])
    assert times == [[1000] * 4, [1001] * 2, [1002] * 2]


def test_an_offline_broker_keeps_its_rack_and_no_racks_move(known):
    dead = seen(2, {1: "a", 3: "c"}, orders=topic((1, 2), (2, 3), leader=(1, 3), isr=((1,), (3,))))
    state, news = diff(known, dead)
    assert news[0] == BrokerRecord(broker=2, at=2, rack="b", online=False)
    assert state.topics["orders"].racks == known.topics["orders"].racks
    assert state.topics["orders"].leader == (1, 3)


def test_a_bounced_broker_ends_where_it_began(known):
    away, _ = diff(known, seen(2, {1: "a", 3: "c"}, orders=topic((1, 2), (2, 3))))
    back, news = diff(away, seen(3, orders=topic((1, 2), (2, 3))))
    assert news == (BrokerRecord(broker=2, at=3, rack="b", online=True),)
    assert back.topics == known.topics


def test_a_broker_that_stays_away_is_published_once(known):
    away, _ = diff(known, seen(2, {1: "a", 3: "c"}, orders=topic((1, 2), (2, 3))))
    assert diff(away, seen(3, {1: "a", 3: "c"}, orders=topic((1, 2), (2, 3)))) == (away, ())


def test_a_broker_that_comes_back_in_another_rack_moves_the_racks_of_its_replicas(known):
    state, _ = diff(known, seen(2, {**RACKS, 2: "x"}, orders=topic((1, 2), (2, 3))))
    assert state.topics["orders"].racks == (("a", "x"), ("c", "x"))


def test_replicas_of_one_rack_count_once_and_brokers_without_a_rack_not_at_all():
    state, _ = diff(
        ClusterState(), seen(1, {1: "a", 2: "a", 3: None}, orders=topic((1, 2, 3), (3,)))
    )
    assert state.topics["orders"].racks == (("a",), ())


def test_a_topic_that_is_gone_leaves_tombstones_for_layout_and_offsets(known):
    state, news = diff(known, seen(2, removed=["orders", "never-was"]))
    assert news == (Tombstone(("topic", "orders")), Tombstone(("offsets", "orders")))
    assert state.topics == {}


def test_a_topic_that_was_merely_not_seen_stays_as_it_was(known):
    assert diff(known, seen(2)) == (known, ())


def test_a_layout_that_could_not_be_published_is_news_again_and_the_one_before_it_stays(known):
    wider = replace(next(iter(known.topics.values())), leader=(1, 2), at=9)
    new = replace(wider, topic="new")
    state = replace(known, topics={**known.topics, wider.topic: wider, "new": new})
    kept = without(state, known, {wider.key, new.key})
    assert kept == known
    assert without(state, known, ()) == state


def test_a_topic_made_anew_is_news_by_its_id_alone(known):
    _, news = diff(known, seen(2, orders=topic((1, 2), (2, 3), topic_id="two")))
    assert [(record.id, record.at) for record in news] == [("two", 2)]


def test_brokers_that_serve_reads_from_leaders_alone_are_those_with_a_rack_and_without_selector():
    observed = replace(
        seen(1, brokers={1: "a", 2: "b", 3: None, 4: "d"}),
        follower_fetching={1: True, 2: False, 3: False, 4: None},
    )
    state, _ = diff(ClusterState(), observed)
    assert leader_only_brokers(state.brokers) == {2}
    kept, news = diff(state, seen(2, brokers={1: "a", 2: "b", 3: None, 4: "d"}))
    assert leader_only_brokers(kept.brokers) == {2}, "a probe that does not ask changes nothing"
    assert news == ()
    mended, news = diff(kept, replace(observed, follower_fetching={2: True}))
    assert leader_only_brokers(mended.brokers) == frozenset()
    assert [broker.follower_fetching for broker in news] == [True]


def test_an_offline_broker_that_was_never_seen_is_told(known):
    state, _ = diff(known, seen(2, orders=topic((1, 2), (2, 9))))
    assert unseen_brokers(known) == frozenset()
    assert unseen_brokers(state) == {9}
    assert state.topics["orders"].racks[1] == ("b",)


def test_a_broker_is_silent_when_it_is_offline_or_answers_for_nothing(known):
    three = {1: "a", 2: "b", 3: "c"}
    state, _ = diff(known, seen(2, brokers=three, orders=topic((1, 2), (2, 3), (3, 1))))
    assert broker_counts(state, ()) == (3, 0)
    assert broker_counts(state, {("orders", 0)}) == (3, 1), "broker 1 leads that one alone"
    offline, _ = diff(state, seen(3, brokers={1: "a"}, orders=topic((1, 2), (2, 3), (3, 1))))
    assert broker_counts(offline, ()) == (3, 2)
    assert broker_counts(offline, {("orders", 0)}) == (3, 3)


def test_a_broker_that_left_the_cluster_for_good_does_not_count(known):
    state, _ = diff(known, seen(2, brokers={1: "a", 7: "b"}, orders=topic((1, 7))))
    gone, _ = diff(state, seen(3, brokers={1: "a"}, orders=topic((1,))))
    assert broker_counts(gone, ()) == (1, 0)


def test_racks_have_moved_where_the_set_is_another_and_the_topic_the_same(known):
    before = known.topics["orders"]
    state, _ = diff(known, seen(2, orders=topic((2, 1), (2, 1), (1, 2))))
    assert partitions_with_moved_racks(before, state.topics["orders"]) == {("orders", 1)}
    anew, _ = diff(known, seen(2, orders=topic((3, 1), (3, 1), topic_id="two")))
    assert partitions_with_moved_racks(before, anew.topics["orders"]) == set()
    assert partitions_with_moved_racks(None, before) == set()


brokers = st.integers(0, 4)
replica_lists = st.lists(
    st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=3
).map(tuple)
observations = st.builds(
    ClusterSnapshot,
    at=st.integers(0, 2**40),
    brokers=st.dictionaries(brokers, st.none() | st.sampled_from("abc")),
    topics=st.dictionaries(
        st.sampled_from(["t0", "t1", "t2"]),
        st.builds(
            lambda rows, which: topic(*rows, topic_id=which), replica_lists, st.sampled_from("xy")
        ),
    ),
    removed=st.frozensets(st.sampled_from(["t0", "t1", "t2"])),
).map(lambda record: replace(record, removed=record.removed - record.topics.keys()))


@given(st.lists(observations, max_size=6))
def test_what_is_read_back_from_the_topic_is_the_state(looks):
    state, log = ClusterState(), []
    for probe_cluster in looks:
        state, news = diff(state, probe_cluster)
        log += news
    wire = [
        (encode_key(record.key), None) if isinstance(record, Tombstone) else encode(record)
        for record in log
    ]
    assert recovered(decode("metadata", *message) for message in wire) == state


@given(st.lists(observations, max_size=6))
def test_compaction_takes_nothing_from_the_state(looks):
    state, log = ClusterState(), []
    for probe_cluster in looks:
        state, news = diff(state, probe_cluster)
        log += news
    latest = {record.key: record for record in log}
    assert recovered(latest.values()) == ClusterState(
        brokers=dict(sorted(state.brokers.items())), topics=state.topics
    )


@given(observations, observations)
def test_saying_the_same_again_is_never_news(first, second):
    state, _ = diff(diff(ClusterState(), first)[0], second)
    assert diff(state, replace(second, at=second.at + 1)) == (state, ())


@given(st.lists(observations, min_size=1, max_size=6))
def test_no_broker_that_had_a_rack_is_ever_forgotten(looks):
    state = ClusterState()
    for probe_cluster in looks:
        state, _ = diff(state, probe_cluster)
    for number in {number for probe_cluster in looks for number in probe_cluster.brokers}:
        last = [
            probe_cluster.brokers[number]
            for probe_cluster in looks
            if number in probe_cluster.brokers
        ][-1]
        assert state.brokers[number].rack == last
        assert state.brokers[number].online == (number in looks[-1].brokers)


def test_topics_are_selected_by_whole_names_and_exclusion_wins():
    selection = Selection.of(["orders.*", "x"], ["orders-test"])
    assert [
        name
        for name in ("orders", "orders-1", "orders-test", "x", "xy", "my-orders")
        if name in selection
    ] == [
        "orders",
        "orders-1",
        "x",
    ]


def test_a_broken_expression_says_where_it_stands():
    with pytest.raises(
        ConfigurationError, match=r"observer\.exclude: '\(' is not a regular expression"
    ):
        load(overrides={"observer": {"exclude": ["("]}})


def test_a_sample_never_has_its_high_watermark_below_the_stable_offset(known):
    found = sample(known.topics["orders"], 5, [0, -1], [10, 7], [9, -1])
    assert found == OffsetsRecord(
        topic="orders", at=5, id="one", begin=(0, -1), stable=(10, 7), high=(10, -1)
    )


def test_a_sample_that_says_only_that_time_has_passed_is_no_news(known):
    first = sample(known.topics["orders"], 5, [0, 0], [10, 7], [10, 7])
    assert changed_samples({}, [first]) == [first]
    published = {"orders": first}
    assert changed_samples(published, [replace(first, at=6)]) == []
    for change in ({"stable": (10, 8)}, {"begin": (1, 0)}, {"id": "two"}):
        other = replace(first, at=6, **change)
        assert changed_samples(published, [other]) == [other]


def test_a_stable_offset_is_settled_where_it_stood_at_the_high_watermark_of_this_very_topic(known):
    orders = known.topics["orders"]
    published = {"orders": sample(orders, 5, [0, 0], [10, 7], [10, 8])}
    assert stable_at_high_watermark(published, [orders]) == {("orders", 0): 10}
    assert stable_at_high_watermark(published, [replace(orders, id="two")]) == {}
    assert stable_at_high_watermark({}, [orders]) == {}
    unread = {"orders": sample(orders, 5, [0, 0], [-1, 7], [-1, 7])}
    assert stable_at_high_watermark(unread, [orders]) == {("orders", 1): 7}


def test_an_end_that_went_back_is_seen():
    before = {("one", 0): 10, ("one", 1): 7}
    assert end_offset_regressed(before, before | {("one", 1): 6})
    assert not end_offset_regressed(before, before | {("one", 1): 8})
    assert not end_offset_regressed(before, {("two", 0): 0})

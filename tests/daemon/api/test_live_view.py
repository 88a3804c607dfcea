"""The live view: what records add up to, and what changed since a version."""

import threading

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import BrokerRecord, Tombstone, encode
from levelwind.assignors.protocol.unread_lag import left_unread
from levelwind.daemon.api.views.cluster_documents import cluster_document
from levelwind.daemon.api.views.live_view import LiveView
from levelwind.daemon.api.views.record_tap import RecordTap
from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage
from levelwind_testing import records


def read(kind, record, offset=1):
    return ConsumedRecord(kind=kind, record=record, partition=0, offset=offset, timestamp=1)


@pytest.fixture
def tap():
    return RecordTap()


@pytest.fixture
def view(tap):
    return LiveView(tap)


def test_a_newer_record_of_a_key_replaces_one_that_nobody_took(tap):
    for number in range(5):
        tap.on_record(read("lag", records.lag(number)))
    tap.on_record(read("lag", records.lag(7, topic="other")))
    assert [each.record.lag for each in tap.take()[1]] == [(4,), (7,)]
    assert tap.take() == (False, [])


def test_a_full_tap_drops_new_keys_and_counts_them():
    tap = RecordTap(most=2)
    for topic in ("a", "b", "c", "a"):
        tap.on_record(read("lag", records.lag(1, topic=topic)))
    assert len(tap.take()[1]) == 2
    assert tap.dropped == 1


def test_the_reader_never_waits_for_the_view(tap, view, monkeypatch):
    """Records are entered while a summary is being computed, however long that takes."""
    computing, finish = threading.Event(), threading.Event()

    def compute(_):
        computing.set()
        assert finish.wait(60)
        return {}

    monkeypatch.setattr("levelwind.daemon.api.views.live_view.group_summary", compute)
    tap.on_record(read("lag", records.lag(1)))
    view.refresh()
    thread = threading.Thread(target=view.summary, args=("g",), daemon=True)
    thread.start()
    assert computing.wait(60)
    for number in range(1000):
        tap.on_record(read("lag", records.lag(number)))  # else the test would stand here
    finish.set()
    thread.join()
    assert [each.record.lag for each in tap.take()[1]] == [(999,)]


def test_an_unread_sample_is_read_when_it_is_shown(tap, view):
    record = records.lag(3, 4)
    raw = left_unread("g", "t", _json(record))
    tap.on_record(UnreadMessage(kind="lag", record=raw, partition=0, offset=1, timestamp=1))
    view.refresh()
    assert view.summary("g")["lag"] == 7


def test_a_sample_that_breaks_the_protocol_changes_nothing(tap, view):
    tap.on_record(read("lag", records.lag(3, 4)))
    view.refresh()
    broken = _json(records.lag(5, 5)).replace(b'"lag":[5,5]', b'"lag":[5,-5]')
    tap.on_record(
        UnreadMessage(
            kind="lag", record=left_unread("g", "t", broken), partition=0, offset=2, timestamp=1
        )
    )
    view.refresh()
    assert view.summary("g")["lag"] == 7


def test_only_what_changed_is_named(tap, view):
    for name in ("a", "b", "c"):
        tap.on_record(read("lag", records.lag(1, group=name)))
    before = view.refresh()
    tap.on_record(read("lag", records.lag(2, group="b")))
    view.refresh()
    assert view.changed_since(before) == ["b"]
    assert set(view.changed_since(0)) == {"a", "b", "c"}


def test_a_heartbeat_that_says_the_same_changes_nothing(tap, view):
    announced = records.member("m1")
    tap.on_record(read("members", announced))
    before = view.refresh()
    tap.on_record(read("members", announced))
    view.refresh()
    assert view.changed_since(before) == []


def test_a_summary_is_computed_once_for_the_same_records(tap, view):
    tap.on_record(read("lag", records.lag(1)))
    view.refresh()
    assert view.summary("g") is view.summary("g")


def test_a_group_whose_last_record_is_deleted_has_ended(tap, view):
    tap.on_record(read("lag", records.lag(1)))
    before = view.refresh()
    tap.on_record(read("lag", Tombstone(key=("lag", "g", "t"))))
    view.refresh()
    assert view.groups == {}
    assert view.ended_since(before) == ["g"]
    tap.on_record(read("lag", records.lag(1)))
    view.refresh()
    assert view.ended_since(before) == []


def test_topics_that_were_replaced_end_all_groups(tap, view):
    tap.on_record(read("lag", records.lag(1)))
    before = view.refresh()
    tap.on_replaced()
    tap.on_record(read("lag", records.lag(1, group="h")))
    view.refresh()
    assert set(view.groups) == {"h"}
    assert view.ended_since(before) == ["g"]
    assert min(view.cluster_version, view.plans_version, view.controls_version) > before


def test_the_records_are_those_that_a_reader_of_the_topics_would_find(tap, view):
    tap.on_record(read("lag", records.lag(1)))
    tap.on_record(read("lag", records.lag(2)))
    tap.on_record(read("control", records.request()))
    assert [record for _, record in view.records()] == [records.lag(2), records.request()]


def _json(record):
    return encode(record)[1]


def test_what_a_broker_lets_members_do_counts_in_the_summaries(tap, view):
    def brokers(fetch):
        for number, rack in ((1, "a"), (2, "b")):
            record = BrokerRecord(
                broker=number, at=1, rack=rack, online=True, follower_fetching=fetch
            )
            tap.on_record(read("metadata", record))

    racks = (("a", "b"),) * 2
    layout = replace(
        records.topic(racks=racks), leader=(2, 2), replicas=((2, 1),) * 2, isr=((2, 1),) * 2
    )
    owned = {"members": ("m1",), "member_racks": ("a",), "owner": (0, 0)}
    brokers(fetch=True)
    tap.on_record(read("metadata", layout))
    tap.on_record(read("lag", records.lag(1, 1, racks=racks, **owned)))
    before = view.refresh()
    assert view.summary("g")["cross_rack"] == 0.0
    brokers(fetch=False)  # replica.selector.class was taken away
    view.refresh()
    assert view.summary("g")["cross_rack"] == 1.0
    assert view.changed_since(before) == ["g"]


def test_a_broker_is_out_of_sync_where_it_holds_a_replica_that_is(tap, view):
    layout = records.topic(racks=((), ()))
    tap.on_record(read("metadata", BrokerRecord(broker=1, at=1, rack=None, online=True)))
    tap.on_record(read("metadata", replace(layout, replicas=((1, 2), (2,)), isr=((2,), (1, 2)))))
    view.refresh()
    (broker,) = cluster_document(view)["brokers"]
    assert (broker["replicas"], broker["out_of_sync"]) == (1, 1)

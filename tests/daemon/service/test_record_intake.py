"""What becomes of each record that the daemon reads."""

import pytest

from levelwind.assignors.protocol.records import (
    CanaryRecord,
    CutRecord,
    OperatorRecord,
    PlannerRecord,
    Tombstone,
    encode,
)
from levelwind.assignors.protocol.topics import Topics, partition_for
from levelwind.assignors.protocol.unread_lag import left_unread
from levelwind.daemon.control.boundary.control_events import MembersRead, RecordReceived, Recovered
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage
from levelwind.daemon.pipeline.progress_totals import ProgressTotals
from levelwind.daemon.service.leadership import LeaderSighted, TopicsRead, sign_of
from levelwind.daemon.service.mailbox import Mailbox
from levelwind.daemon.service.record_intake import RecordIntake
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords
from levelwind_testing import records

ASKED_AT = 1.0
TOPICS = Topics()
PARTITIONS = {TOPICS.name(kind): 4 for kind in ("assignments", "members", "lag")} | {
    TOPICS.control: 1
}
HOME = partition_for("g", 4)
"""The partition of the group `g`."""


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def intake(mailbox, log):
    return RecordIntake(TOPICS, PARTITIONS, mailbox, log, instance="me")


def read(kind, record, partition=HOME, offset=0):
    return ConsumedRecord(kind=kind, record=record, partition=partition, offset=offset, timestamp=1)


def member(heartbeat=1):
    return records.member("i", incarnation="1", state="active", heartbeat=heartbeat)


def planner():
    return PlannerRecord(planner_epoch=1, instance="another", started_at=1)


def request(by):
    return OperatorRecord(group="g", at=1, by=by, action="rebalance", reason="")


def test_what_was_read_before_the_daemon_leads_is_one_event_of_the_newest_records(intake, mailbox):
    intake.on_record(read("members", member(1)))
    intake.on_record(read("assignments", planner(), partition=3))
    intake.on_record(read("members", member(2)))
    intake.on_caught_up()
    assert mailbox.take(0) == [LeaderSighted(canary=sign_of(planner())), TopicsRead()]
    intake.recover(ASKED_AT)
    assert mailbox.take(0) == [
        Recovered(asked_at=ASKED_AT, records=(("assignments", planner()), ("members", member(2))))
    ]


def test_every_record_after_that_is_an_event(intake, mailbox):
    intake.recover(ASKED_AT)
    intake.on_record(read("members", member(1)))
    intake.on_record(read("assignments", planner(), partition=3))
    assert mailbox.take(0) == [
        Recovered(asked_at=ASKED_AT, records=()),
        RecordReceived(kind="members", record=member(1)),
        LeaderSighted(canary=sign_of(planner())),
        RecordReceived(kind="assignments", record=planner()),
    ]


def test_an_unhandled_state_is_replaced_by_the_newer_state_of_its_key(intake, mailbox):
    intake.recover(ASKED_AT)
    for heartbeat in (1, 2, 3):
        intake.on_record(read("members", member(heartbeat), offset=heartbeat))
    assert mailbox.take(0)[1:] == [RecordReceived(kind="members", record=member(3))]


def test_an_operators_request_is_not_replaced_by_the_tombstone_of_the_one_before(intake, mailbox):
    intake.recover(ASKED_AT)
    end = Tombstone(("operator", "g"))
    for offset, record in enumerate((request("a"), end, request("b"), end)):
        intake.on_record(read("control", record, partition=0, offset=offset))
    assert [event.record for event in mailbox.take(0)[1:]] == [request("a"), end, request("b"), end]


def test_a_members_record_in_another_partition_than_its_groups_is_logged_and_dropped(
    intake, mailbox, log
):
    astray = (HOME + 1) % 4
    intake.on_record(read("members", member(), partition=astray))
    intake.recover(ASKED_AT)
    intake.on_record(read("members", member(), partition=astray))
    assert mailbox.take(0) == [Recovered(asked_at=ASKED_AT, records=())]
    assert log.of("record.misplaced") == 2 * [
        {
            "event": "record.misplaced",
            "level": "warning",
            "topic": TOPICS.members,
            "partition": astray,
            "name": "g",
        }
    ]


def test_a_members_record_in_another_partition_is_counted(mailbox, log):
    topics = []
    intake = RecordIntake(
        TOPICS, PARTITIONS, mailbox, log, instance="me", on_misplaced=topics.append
    )
    intake.on_record(read("members", member(), partition=(HOME + 1) % 4))
    assert topics == [TOPICS.members]


def test_a_planners_record_in_another_partition_than_its_groups_ends_the_daemon(intake):
    plan = Tombstone(("g", "g"))
    with pytest.raises(
        ConfigurationError, match=r"levelwind.assignments was given more partitions after 'g'"
    ):
        intake.on_record(read("assignments", plan, partition=(HOME + 1) % 4))


def test_only_records_about_groups_have_a_partition_of_their_own(intake, mailbox):
    intake.recover(ASKED_AT)
    record = Tombstone(("lag", "g", "t"))
    intake.on_record(read("lag", record, partition=(HOME + 1) % 4))
    assert [event.record for event in mailbox.take(0)[1:]] == [record]


def canary(number, instance="me", epoch=3):
    return CanaryRecord(planner_epoch=epoch, instance=instance, number=number, state="leading")


def test_an_own_canary_that_comes_back_marks_what_its_partition_held_when_it_was_sent(
    intake, mailbox
):
    intake.recover(ASKED_AT)
    intake.expect({canary(1): 10.0, canary(2): 11.0}.get)
    mailbox.take(0)
    intake.on_record(read("members", canary(1)))
    intake.on_record(read("members", canary(1), partition=(HOME + 1) % 4))
    intake.on_record(read("members", member()))
    intake.on_record(read("members", canary(2)))
    intake.on_record(read("members", canary(99)))  # too old to know when it was sent
    assert mailbox.take(0) == [
        MembersRead(partition=(HOME + 1) % 4, asked_at=10.0),
        RecordReceived(kind="members", record=member()),
        MembersRead(partition=HOME, asked_at=11.0),
    ]


def test_the_newest_sign_of_another_planner_is_posted_and_no_older_one(intake, mailbox):
    for number in (1, 3, 2):
        intake.on_record(read("members", canary(number, "another")))
    intake.on_record(read("members", canary(9, "a third", epoch=2)))
    intake.on_record(read("members", canary(7)))  # its own
    assert mailbox.take(0) == [LeaderSighted(canary=canary(3, "another"))]
    newer = PlannerRecord(planner_epoch=4, instance="a fourth", started_at=1)
    intake.on_record(read("assignments", newer))
    assert mailbox.take(0) == [LeaderSighted(canary=sign_of(newer))]


def test_a_daemon_that_stands_by_reads_along_for_the_next_time(intake, mailbox):
    intake.recover(ASKED_AT)
    intake.stand_by()
    intake.on_record(read("members", member(4)))
    assert mailbox.take(0) == [Recovered(asked_at=ASKED_AT, records=())]
    intake.recover(ASKED_AT)
    assert mailbox.take(0) == [Recovered(asked_at=ASKED_AT, records=(("members", member(4)),))]


def test_an_error_that_ends_the_reader_is_posted(intake, mailbox):
    error = RuntimeError("a bug")
    intake.on_crash(error)
    assert mailbox.take(0) == [error]


def test_the_pipelines_record_is_kept_apart_and_that_of_the_younger_pipeline_counts(
    intake, mailbox
):
    def pipeline(instance, epoch, at):
        return ProgressTotals(instance=instance, started_at=0).record(at=at, epoch=epoch)

    younger = pipeline("b", 2, 1)
    for record in (pipeline("a", 1, 1), younger, pipeline("a", 1, 2)):
        intake.on_record(read("triggers", record))
    assert intake.pipeline == younger
    intake.on_record(read("triggers", Tombstone(("pipeline",))))
    assert intake.pipeline is None
    intake.recover(ASKED_AT)
    assert mailbox.take(0) == [Recovered(asked_at=ASKED_AT, records=())]


def test_a_record_that_its_topic_has_no_room_for_is_named_once_and_the_one_before_it_stays(
    mailbox, log
):
    unwritten = UnwrittenRecords(log)
    intake = RecordIntake(TOPICS, PARTITIONS, mailbox, log, instance="me", unwritten=unwritten)
    known = records.lag(5, 3)
    intake.on_record(read("lag", known))
    for size in (900, 901):
        cut = CutRecord(head_key=known.key, bytes=size, shards=None)
        intake.on_record(read("lag", cut))
    (entry,) = log.of("record.unwritten")
    assert (entry["topic"], entry["key"]) == ("levelwind.lag", ["lag", "g", "t"])
    assert unwritten.found() == [("levelwind.lag", known.key)]
    intake.recover(ASKED_AT)
    assert mailbox.take(0) == [Recovered(asked_at=ASKED_AT, records=(("lag", known),))]
    unread = left_unread(known.group, known.topic, encode(known)[1])
    for written in (read("lag", known), read("lag", Tombstone(known.key))):
        intake.on_record(read("lag", cut))
        intake.on_record(written)
        assert not unwritten.found()
    intake.on_record(read("lag", cut))
    intake.on_unread(UnreadMessage("lag", unread, HOME, 0, 1))
    assert not unwritten.found()


def test_without_a_group_that_has_lag_there_is_no_newest_sample(intake):
    """An old time of lag freezes planning, and would for good once the last group is gone."""
    first, second = records.lag(5, at=2000), records.lag(5, topic="u", at=3000)
    intake.on_record(read("lag", first))
    unread = left_unread(second.group, second.topic, encode(second)[1])
    for _ in range(2):
        intake.on_unread(UnreadMessage("lag", unread, HOME, 0, 1))
    assert intake.lag_at == 3000
    intake.on_record(read("lag", Tombstone(second.key)))
    assert intake.lag_at == 3000
    for _ in range(2):
        intake.on_record(read("lag", Tombstone(first.key)))
        assert intake.lag_at is None
    intake.on_record(read("lag", first))
    assert intake.lag_at == 2000

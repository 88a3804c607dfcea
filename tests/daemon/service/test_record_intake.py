"""What becomes of each record that the daemon reads."""

import pytest

from assignors.protocol.records import OperatorRecord, PlannerRecord, Tombstone
from assignors.protocol.topics import Topics, partition_for
from daemon.control.controller import ReaderStatus, RecordReceived, Recovered
from daemon.errors import ConfigurationError
from daemon.kafka.topic_reader import ConsumedRecord
from daemon.service.mailbox import Mailbox
from daemon.service.record_intake import RecordIntake
from levelwind_testing import records

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
    return RecordIntake(TOPICS, PARTITIONS, mailbox, log)


def read(kind, record, partition=HOME, offset=0):
    return ConsumedRecord(kind=kind, record=record, partition=partition, offset=offset, timestamp=1)


def member(heartbeat=1):
    return records.member("i", incarnation="1", state="active", heartbeat=heartbeat)


def planner():
    return PlannerRecord(planner_epoch=1, instance="me", started_at=1)


def request(by):
    return OperatorRecord(group="g", at=1, by=by, action="rebalance", reason="")


def test_what_was_there_at_the_start_is_one_event_in_the_order_of_reading(intake, mailbox):
    intake.on_record(read("members", member(1)))
    intake.on_record(read("assignments", planner(), partition=3))
    intake.on_record(read("members", member(2)))
    assert mailbox.take(0) == []
    intake.on_caught_up()
    assert mailbox.take(0) == [
        Recovered(
            records=(
                ("members", member(1)),
                ("assignments", planner()),
                ("members", member(2)),
            )
        )
    ]


def test_every_record_after_that_is_an_event(intake, mailbox):
    intake.on_caught_up()
    intake.on_record(read("members", member(1)))
    intake.on_record(read("assignments", planner(), partition=3))
    assert mailbox.take(0) == [
        Recovered(records=()),
        RecordReceived(kind="members", record=member(1)),
        RecordReceived(kind="assignments", record=planner()),
    ]


def test_an_unhandled_state_is_replaced_by_the_newer_state_of_its_key(intake, mailbox):
    intake.on_caught_up()
    for heartbeat in (1, 2, 3):
        intake.on_record(read("members", member(heartbeat), offset=heartbeat))
    assert mailbox.take(0)[1:] == [RecordReceived(kind="members", record=member(3))]


def test_an_operators_request_is_not_replaced_by_the_tombstone_of_the_one_before(intake, mailbox):
    intake.on_caught_up()
    end = Tombstone(("operator", "g"))
    for offset, record in enumerate((request("a"), end, request("b"), end)):
        intake.on_record(read("control", record, partition=0, offset=offset))
    assert [event.record for event in mailbox.take(0)[1:]] == [request("a"), end, request("b"), end]


def test_a_members_record_in_another_partition_than_its_groups_is_logged_and_dropped(
    intake, mailbox, log
):
    astray = (HOME + 1) % 4
    intake.on_record(read("members", member(), partition=astray))
    intake.on_caught_up()
    intake.on_record(read("members", member(), partition=astray))
    assert mailbox.take(0) == [Recovered(records=())]
    assert log.of("record.misplaced") == 2 * [
        {
            "event": "record.misplaced",
            "level": "warning",
            "topic": TOPICS.members,
            "partition": astray,
            "name": "g",
        }
    ]


def test_a_planners_record_in_another_partition_than_its_groups_ends_the_daemon(intake):
    plan = Tombstone(("g", "g"))
    with pytest.raises(
        ConfigurationError, match=r"levelwind.assignments was given more partitions after 'g'"
    ):
        intake.on_record(read("assignments", plan, partition=(HOME + 1) % 4))


def test_only_records_about_groups_have_a_partition_of_their_own(intake, mailbox):
    intake.on_caught_up()
    record = Tombstone(("lag", "g", "t"))
    intake.on_record(read("lag", record, partition=(HOME + 1) % 4))
    assert [event.record for event in mailbox.take(0)[1:]] == [record]


def test_the_state_of_the_reader_is_posted_and_the_newest_counts(intake, mailbox):
    intake.on_connection(False)
    intake.on_connection(True)
    assert mailbox.take(0) == [ReaderStatus(reading=True)]


def test_an_error_that_ends_the_reader_is_posted(intake, mailbox):
    error = RuntimeError("a bug")
    intake.on_crash(error)
    assert mailbox.take(0) == [error]

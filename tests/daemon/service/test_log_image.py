"""The image of the topics against what the whole log says."""

from levelwind.assignors.protocol.records import PlannerRecord, Tombstone
from levelwind.daemon.kafka.topic_reader import ConsumedRecord
from levelwind.daemon.service.log_image import LogImage
from levelwind_testing import records


def read(kind, record, partition=0):
    return ConsumedRecord(kind=kind, record=record, partition=partition, offset=0, timestamp=1)


def member(instance, heartbeat):
    return records.member(instance, incarnation="1", heartbeat=heartbeat)


def test_the_newest_record_of_each_key_stays_in_the_order_of_writing():
    image = LogImage()
    for item in (member("a", 1), member("b", 1), member("a", 2)):
        image.add(read("members", item))
    assert image.records == (("members", member("b", 1)), ("members", member("a", 2)))


def test_a_tombstone_stays_until_there_are_too_many():
    image = LogImage(most_tombstones=2)
    ends = [Tombstone(("m", "g", name, "1")) for name in "abc"]
    image.add(read("members", member("a", 1)))
    for end in ends:
        image.add(read("members", end))
    assert image.records == (("members", ends[1]), ("members", ends[2]))
    image.add(read("members", member("b", 2)))
    assert image.records == (("members", ends[2]), ("members", member("b", 2)))


def test_each_partition_has_a_planners_record_of_its_own():
    """An outdated one may be read last; it must not hide the newest."""
    image = LogImage()
    newest = PlannerRecord(planner_epoch=2, instance="b", started_at=2)
    outdated = PlannerRecord(planner_epoch=1, instance="a", started_at=1)
    image.add(read("assignments", newest, partition=0))
    image.add(read("assignments", outdated, partition=1))
    assert image.records == (("assignments", newest), ("assignments", outdated))

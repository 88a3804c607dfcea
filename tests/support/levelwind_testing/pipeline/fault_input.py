"""An input for a pipeline under faults: it is written once, and raises both triggers."""

from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.protocol.records import MemberAssignment
from levelwind_testing import records
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.pipeline.installation import Installation, now

GROUPS, STEPS, TOPIC = ("readers", "writers", "idlers"), 200, "work"


def write_input(lw: Installation) -> None:
    """Three groups read a topic; one's lag grows skewed, and a replica moves to another rack."""
    topic_id = str(lw._described(TOPIC).topic_id).translate(str.maketrans("+/", "-_"))
    commit_all(lw)
    begin = now()

    def layout(at: int, racks: tuple[tuple[str, ...], ...]) -> None:
        lw.publish(records.topic(TOPIC, racks, at=at, topic_id=topic_id), at=at)

    layout(begin, (("a",), ("b",), ("c",)))
    for instance, partitions, rack in (("m0", (0, 1), "a"), ("m1", (2,), None)):
        lw.publish(assigned(GROUPS[0], instance, partitions, rack), at=begin)
    for second in range(1, 120):
        stable = (1000, 1000, 1000) if second < 20 else (2500, 4000, 141)
        at = begin + second * 1000
        lw.publish(records.offsets(TOPIC, stable, at=at, topic_id=topic_id), at=at)
        if second == 60:
            layout(at + 500, (("a",), ("b",), ("a",)))


def commit_all(lw: Installation) -> None:
    readers = [
        Consumer(
            {"bootstrap.servers": lw.bootstrap, "group.id": group, "enable.auto.commit": False}
        )
        for group in GROUPS
    ]
    for step in range(1, STEPS + 1):
        for reader in readers:
            offsets = [
                TopicPartition(TOPIC, number, offset)
                for number, offset in enumerate((step, 2 * step, 40))
            ]
            commit_offsets(reader, offsets)
    for reader in readers:
        reader.close()


def assigned(
    group: str, instance: str, partitions: tuple[int, ...], rack: str | None
) -> MemberAssignment:
    return records.assignment(
        instance, {TOPIC: partitions}, group=group, incarnation="x", rack=rack
    )

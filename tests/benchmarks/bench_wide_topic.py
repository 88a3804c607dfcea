"""A topic of 50,000 partitions: the records about it, and what each part does with them.

    python tests/benchmarks/bench_wide_topic.py [--partitions 50000] [--members 50]
                                                [--message-bytes 1000000] [--follow]

No broker and no Spark: each part does its own work on the records of the part before. Three
replicas in three racks, offsets of ten digits, a commit in each partition. Sizes are of the JSON
(`z`: as lz4 would about have it, by zlib's quickest), times are CPU times of one run.
"""

import argparse
import random
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind.assignors.protocol import canonical_json
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import LagRecord, Record, encode
from levelwind.assignors.protocol.records.cutting import cut_text
from levelwind.daemon.api.views.encoded_documents import encoded
from levelwind.daemon.kafka.repeated_records import RepeatedRecords
from levelwind.daemon.shown_groups.group_documents import group_document, group_summary
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing import records
from levelwind_testing.control.play import Play
from levelwind_testing.pipeline.local_pipeline import TOPICS, LocalPipeline
from levelwind_testing.pipeline.scripted_log import ID, Story, name_of

Result = TypeVar("Result")
GROUP, TOPIC = "readers", "wide"
RACKS = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
END = 5 * 10**9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--message-bytes", type=int, default=10**6, help="of the topic of the lag")
    parser.add_argument("--follow", action="store_true", help="let members follow the second plan")
    options = parser.parse_args()
    print(f"{options.partitions:,} partitions, {options.members} members")
    members = [f"member-{number}" for number in range(options.members)]
    story = observe(options.partitions)
    play = plan(options.partitions, members)
    lag = measure_lag(story, play)
    read = publish(lag, options.message_bytes)
    replan(play, read, follow=options.follow)
    show(play, read)


def timed(name: str, act: Callable[[], Result]) -> Result:
    begun = time.process_time()
    result = act()
    print(f"    {name + ':':<58}{time.process_time() - begun:7.2f} s", flush=True)
    return result


def size(name: str, *messages: bytes) -> None:
    most, total = max(map(len, messages)) / 1e6, sum(map(len, messages)) / 1e6
    packed = sum(len(zlib.compress(message, 1)) for message in messages) / 1e6
    several = f" in {len(messages)} messages of at most {most:.2f}" if len(messages) > 1 else ""
    print(f"    {name + ':':<58}{total:7.2f} MB (z: {packed:.2f}){several}", flush=True)


def observe(partitions: int) -> Story:
    """The records of the observer."""
    print("observed")
    draw = random.Random(1)
    racks = [RACKS] * partitions
    story = Story()
    story.layout(0, TOPIC, racks)
    for number in range(partitions):
        story.commit(GROUP, TOPIC, number, END - draw.randrange(10**6), 2_000)
    for second in (3, 4):
        ends = [END + second * 1000 + draw.randrange(1000) for _ in range(partitions)]
        story.sample(second, TOPIC, ends)
    layout = records.topic(TOPIC, racks, topic_id=name_of(ID))
    for name, record in (("layout", layout), ("sample", records.offsets(TOPIC, ends, at=4000))):
        _, value = encode(record)
        size(name, value)
    return story


def plan(partitions: int, members: Sequence[str]) -> Play:
    """The first plan of the group."""
    print("planned and followed")
    play = Play()
    play.start(records.topic(TOPIC, [RACKS] * partitions, topic_id=name_of(ID)))
    racks = [RACKS[number % len(RACKS)] for number in range(len(members))]
    play.join(
        *(
            records.member(name, group=GROUP, topics=(TOPIC,), rack=rack)
            for name, rack in zip(members, racks, strict=True)
        )
    )
    timed("first plan, until every member owns its share", lambda: play.wait(4))
    assert owned(play) == partitions, owned(play)
    size("plan and assignments", *(encode(record)[1] for record in of_plan(play)))
    return play


def owned(play: Play) -> int:
    return sum(
        len(ranges.parse(text))
        for record in play.members.values()
        for text in ranges.texts(record.owned).values()
    )


def of_plan(play: Play) -> list[Record]:
    return [record for record in play.kept() if record.key[0] != "planner"]


def measure_lag(story: Story, play: Play) -> tuple[bytes, bytes]:
    """The lag record of the pipeline."""
    print("lagging")
    head = len(story.messages)
    for record in of_plan(play):
        story.add_record(TOPICS.assignments, 1_000, record)
    pipeline = LocalPipeline()
    *before, last = [*story.messages[head:], *story.messages[:head]]
    timed("first batch: layout, plan, commits and a sample", lambda: pipeline.run(before))
    rows = timed("batch with a sample", lambda: pipeline.run([last]))
    (row,) = [row for row in rows if row.key == b'["lag","readers","wide"]']
    size("lag", row.value or b"")
    return row.key, row.value or b""


def publish(lag: tuple[bytes, bytes], most_bytes: int) -> LagRecord:
    """Cut the lag record, and read it as the daemon does."""
    key, value = lag
    cut = timed(
        f"cutting to {most_bytes:,} bytes",
        lambda: [
            encode(part) for part in cut_text(tuple(canonical_json.loads(key)), value, most_bytes)
        ],
    )
    size("cut", *(value for _, value in cut))
    reader: Any = RepeatedRecords(lazy=True)
    found = timed("reading it", lambda: [reader.decode("lag", *message) for message in cut][-1])
    again = timed("reading the next", lambda: [reader.decode("lag", *part) for part in cut][-1])
    timed("reading its figures", again.read)
    return found


def replan(play: Play, lag: LagRecord, *, follow: bool) -> None:
    """The control with the lag, and the plan for one member more."""
    print("planned again")
    timed("control takes a lag record", lambda: play.receive("lag", lag))
    plans = len(play.plans)
    play.join(records.member("late", group=GROUP, topics=(TOPIC,), rack=RACKS[0]))
    if follow:
        timed("plan for one member more, until it is followed", lambda: play.wait(4))
        assert owned(play) == len(lag.lag), owned(play)
    else:
        play.unresponsive |= play.members.keys()
        timed("plan for one member more, and its records", lambda: play.wait(2.5, beat=False))
    assert len(play.plans) > plans
    print(f"    partitions that move: {play.plans[-1]['moved']:,}")


def show(play: Play, lag: LagRecord) -> None:
    """The documents of the page."""
    print("shown")
    views = GroupViews()
    for kind, record in [*play.written, ("lag", lag)]:
        views.apply(kind, record)
    view = views.groups[GROUP]
    timed("line of the table of groups", lambda: group_summary(ShownGroup(view)))
    document = timed("document of the group", lambda: group_document(ShownGroup(view)))
    size("its JSON", timed("encoding it", lambda: encoded(document).encode()))


if __name__ == "__main__":
    main()

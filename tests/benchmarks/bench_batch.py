"""CPU of the pipeline's own functions in a batch, without Spark, by lag record.

    python tests/benchmarks/bench_batch.py [--groups 2000] [--topics 1] [--partitions 50]
                                           [--owners 5] [--samples 2] [--commits 20000] [--behind]
                                           [--topics-each 1]

A batch goes through decoding, the states of topics and the states of buckets, all packed, to the
records that would be published; CPU seconds hold on a machine that does other work, too. By default
the groups keep pace. With `--behind` each has a backlog, so that the speeds of its members are
learned; with `--samples 0` a batch holds commits alone.
"""

import argparse
import gc
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind.assignors.protocol.records import (
    MemberAssignment,
    OffsetsRecord,
    TopicRecord,
    encode,
)
from levelwind.streaming import output
from levelwind.streaming.bucket import update as bucket_update
from levelwind.streaming.decoding import ingest
from levelwind.streaming.messages.buckets import GROUP_KEY_PREFIX, TOPIC_KEY_PREFIX
from levelwind.streaming.messages.rows import Kind
from levelwind.streaming.rules.skew import SkewRule
from levelwind.streaming.topic import joint_update
from levelwind.streaming.topic.batch import TopicBatch
from levelwind.streaming.topic.state import LagRule
from levelwind_testing.pipeline.local_pipeline import OFFSETS, OUTPUTS, TOPICS, Message
from levelwind_testing.processes.offsets_writer import (
    FIRST_END,
    ID,
    OFFSETS_PARTITIONS,
    Load,
    commit_keys,
    commit_value,
    member_assignments,
)

SAMPLE_MS = 1000
WARM_BATCHES, BATCHES = 3, 5
"""Batches before anything is timed, and timed ones."""
LAG, SKEW = LagRule(), SkewRule()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (
        ("groups", 2_000),
        ("topics", 1),
        ("partitions", 50),
        ("owners", 5),
        ("samples", 2),
        ("commits", 20_000),
        ("topics-each", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--behind", action="store_true", help="all groups have a backlog")
    options = parser.parse_args()
    load = Load(
        0,
        options.groups,
        options.topics,
        options.partitions,
        options.owners,
        options.topics_each,
    )
    story = Story(load, behind=options.behind)
    pipeline = TimedPipeline()
    pipeline.run(story.beginning())
    for _ in range(WARM_BATCHES):
        pipeline.run(story.batch(max(options.samples, 1), options.commits))
    gc.collect()
    gc.freeze()  # as in Spark's workers
    pipeline.reset()
    for _ in range(BATCHES):
        pipeline.run(story.batch(options.samples, options.commits))
    pipeline.show()


class Story:
    """Messages of some groups: layouts, members, then commits and samples in turn."""

    def __init__(self, load: Load, *, behind: bool) -> None:
        self._load = load
        self._behind = behind
        self._keys = commit_keys(load)
        self._committed = FIRST_END
        self._now = 1_700_000_000_000
        self._written: Counter[tuple[str, int]] = Counter()

    def beginning(self) -> list[Message]:
        """Layouts, members, and a commit of each key."""
        messages = []
        for topic, partitions in self._load.topic_sizes:
            each = ((1,),) * partitions
            record = TopicRecord(
                topic=topic,
                at=self._now,
                id=ID,
                leader=(1,) * partitions,
                replicas=each,
                isr=each,
                racks=(("a",),) * partitions,
            )
            messages.append(self._message(TOPICS.metadata, record))
        messages += [
            self._message(TOPICS.assignments, member) for member in member_assignments(self._load)
        ]
        return messages + self._commits(len(self._keys))

    def batch(self, samples: int, commits: int) -> list[Message]:
        """Commits in equal parts, a sample of each topic after each part."""
        messages: list[Message] = []
        for _ in range(max(samples, 1)):
            self._now += SAMPLE_MS
            messages += self._commits(commits // max(samples, 1))
            if samples:
                messages += self._samples()
        return messages

    def _commits(self, count: int) -> list[Message]:
        messages = []
        for _ in range(count):
            partition, key = self._keys[self._committed % len(self._keys)]
            value = commit_value(self._committed, self._now)
            messages.append(self._written_message(OFFSETS, partition, key, value))
            self._committed += 1
        return messages

    def _samples(self) -> list[Message]:
        end = 2 * FIRST_END if self._behind else self._committed
        cut = tuple(self._written[OFFSETS, number] for number in range(OFFSETS_PARTITIONS))
        return [
            self._message(
                TOPICS.metadata,
                OffsetsRecord(
                    topic=topic,
                    at=self._now,
                    id=ID,
                    begin=(0,) * partitions,
                    stable=(end,) * partitions,
                    high=(end,) * partitions,
                    offsets_topic_ends=cut,
                ),
            )
            for topic, partitions in self._load.topic_sizes
        ]

    def _message(
        self, topic: str, record: TopicRecord | OffsetsRecord | MemberAssignment
    ) -> Message:
        return self._written_message(topic, 0, *encode(record))

    def _written_message(self, topic: str, partition: int, key: bytes, value: bytes) -> Message:
        offset = self._written[topic, partition]
        self._written[topic, partition] += 1
        return Message(
            topic=topic, partition=partition, offset=offset, at=self._now, key=key, value=value
        )


class TimedPipeline:
    """The functions that Spark's workers call, with the CPU seconds of each."""

    def __init__(self) -> None:
        self._topics: dict[str, bytes] = {}
        self._buckets: dict[str, bytes] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what was measured."""
        self._cpu: dict[str, float] = defaultdict(float)
        self._bytes: Counter[str] = Counter()
        self._lags = self._singled_out = 0

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.process_time()
        yield
        self._cpu[name] += time.process_time() - begun

    def run(self, batch: list[Message]) -> None:
        """Process one batch."""
        numbers = {
            name: pa.array([getattr(m, field) for m in batch], pa.int64()).to_numpy()
            for name, field in (("partition", "partition"), ("offset", "offset"))
        }
        records = ingest.RecordColumns(
            topic=pa.array([m.topic for m in batch], pa.string()),
            timestamp=pa.array([m.at for m in batch], pa.int64()).to_numpy(),
            key=pa.array([m.key for m in batch], pa.binary()),
            value=pa.array([m.value for m in batch], pa.binary()),
            **numbers,
        )
        with self._timed("decoding"):
            packed = ingest.pack_batch(records, TOPICS)
        of_topics: list[tuple[str, int, bytes]] = []
        by_bucket: dict[str, list[tuple[str, int, bytes]]] = defaultdict(list)
        columns = (packed.state_key, packed.subject, packed.kind, packed.payload)
        for key, subject, kind, payload in zip(*columns, strict=True):
            if key.startswith(TOPIC_KEY_PREFIX):
                of_topics.append((subject, kind, payload))
            elif kind != Kind.SKIPPED:
                by_bucket[key].append((subject, kind, payload))
        with self._timed("topic: all"):
            batches = TopicBatch.by_topic(of_topics)
            rows = list(joint_update.advance_all(batches, self, LAG))
        for row in rows:
            self._bytes["between the operators"] += len(row.payload)
            by_bucket[row.state_key].append((row.subject, row.kind, row.payload))
        for key, events in by_bucket.items():
            if key.startswith(GROUP_KEY_PREFIX):
                self._of_bucket(key, events)

    def load_all(self, topics: Iterable[str]) -> list[bytes | None]:
        """The packed states of some topics before a batch."""
        return [self._topics.get(topic) for topic in topics]

    def names(self) -> list[str]:
        """The names of the topics that have a state."""
        return list(self._topics)

    def store_all(self, states: Mapping[str, bytes | None]) -> None:
        """Keep the packed states of some topics after a batch."""
        for topic, value in states.items():
            assert value is not None
            self._topics[topic] = value
            self._bytes["topics' state"] += len(value)

    def _of_bucket(self, key: str, events: list[tuple[str, int, bytes]]) -> None:
        with self._timed("bucket: all"):
            result = bucket_update.advance(
                lambda name: self._buckets.get(f"{key}/{name}"),
                events,
                SKEW,
                {TOPICS.assignments: "assignments"},
            )
        for name, value in result.values.items():
            self._buckets[f"{key}/{name}"] = value or b""
            self._bytes["buckets' state"] += len(value or b"")
        with self._timed("bucket: records"):
            published = list(output.bucket_records(result, OUTPUTS))
        self._lags += sum(row.key.startswith(b'["lag"') for row in published)
        self._bytes["published"] += sum(len(row.value or b"") for row in published)
        self._singled_out += len(result.groups)

    def show(self) -> None:
        """Print the figures, per batch and per lag record."""
        print(f"{self._lags / BATCHES:,.0f} lag records a batch, ", end="")
        print(f"{self._singled_out / BATCHES:,.0f} groups updated alone")
        for name, seconds in (*self._cpu.items(), ("all", sum(self._cpu.values()))):
            each = seconds / max(self._lags, 1) * 1e6
            print(f"{name:<24}{seconds / BATCHES * 1e3:>9.1f} ms{each:>9.1f} us a lag record")
        for name, count in self._bytes.items():
            print(f"{name:<24}{count / BATCHES:>12,.0f} bytes written")


if __name__ == "__main__":
    main()

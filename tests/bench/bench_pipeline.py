"""What the pipeline takes in, beside what Kafka's clients can read at all, and how soon a commit shows.

    python tests/bench/bench_pipeline.py [--commits 2000000] [--rate 200] [--load 20000] [--seconds 60] [--sweep]

One broker, one Spark session, one run: all figures are of the same minutes on the same machine, so that their ratios hold
where the figures themselves do not. The backlog is written straight into `__consumer_offsets`, as brokers write it; the
commits whose latency is taken are a real consumer's at the small rate; at the large one, which no single consumer reaches,
they are written as brokers write them, too.
"""

import argparse
import base64
import os
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from assignors.protocol.records import OffsetsRecord, TopicRecord, decode, encode
from assignors.protocol.topics import Topics
from deploy.cluster import Cluster
from deploy.jars import classpath
from streaming import offsets_topic, pipeline, session
from streaming.progress import Progress, Terminated
from streaming.settings import PipelineSettings

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
RAW_ID = bytes(15) + b"\x01"
OFFSETS_PARTITIONS = 4
COORDINATOR = "__admin_client"
"""The one client id from which brokers take records of their own topics."""
ENOUGH = 120.0
IDLE = 2.0


@dataclass(frozen=True, slots=True)
class Load:
    """The keys of the backlog: so many groups commit so many topics of so many partitions."""

    commits: int
    groups: int
    topics: int
    partitions: int

    @property
    def keys(self) -> int:
        return min(self.commits, self.groups * self.topics * self.partitions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rate", type=int, default=200, help="commits a second while latency is taken")
    parser.add_argument(
        "--load", type=int, default=20_000, help="commits a second over all keys; 0: not taken"
    )
    parser.add_argument("--sweep", action="store_true", help="the rate from 10,000 to 1,000,000 keys, too")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long latency is taken")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds of the same load before")
    parser.add_argument("--max-offsets", type=int, default=500_000, help="records a batch")
    options = parser.parse_args()
    load = Load(options.commits, options.groups, options.topics, options.partitions)
    with Cluster.start(1, settings={"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}) as cluster:
        # A fresh directory in memory, as the other figures of this project: ratios, not disks, are compared.
        memory = Path("/dev/shm")  # noqa: S108 - a fresh directory in it
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
            spark = session.create(classpath("spark"))
            bench = Bench(spark, cluster.bootstrap, Path(directory), options.max_offsets)
            bench.prepare(load)
            # First: a coordinator reloads what others wrote into its partition, and takes no commits meanwhile.
            bench.latency(
                options.rate, options.seconds, options.warm, lambda *a: bench.pace(options.rate, *a), ()
            )
            bench.throughput(load)
            if options.load:
                keys = tuple((f"topic-{topic}", load.partitions) for topic in range(load.topics))
                bench.latency(
                    options.load,
                    options.seconds,
                    options.warm,
                    lambda *a: bench.press(options.load, load, *a),
                    keys,
                )
            if options.sweep:
                bench.sweep(load)
            spark.stop()


class Bench:
    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path, max_offsets: int) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topics = Topics()
        self.ids: dict[str, str] = {}  # of the topics that exist; the backlog's do not
        self.settings = PipelineSettings(
            bootstrap=bootstrap, checkpoint=directory, max_offsets_per_trigger=max_offsets
        )
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": COORDINATOR,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    # -- what there is to read

    def prepare(self, load: Load) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = [
            NewTopic(self.topics.name(kind), 1, 1)
            for kind in ("metadata", "assignments", "dead_letters", "replays")
        ]
        new += [NewTopic(self.topics.name(kind), 4, 1) for kind in ("lag", "triggers")]
        new.append(NewTopic("paced", 10, 1))
        for future in admin.create_topics(new).values():
            future.result()
        described = wait_for(lambda: known_topic(admin, "paced"))
        self.ids["paced"] = str(described.topic_id).translate(str.maketrans("+/", "-_"))
        asked = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "asked"})
        asked.committed([TopicPartition("paced", 0)], timeout=30)  # brings the offsets topic into being
        asked.close()
        for topic in range(load.topics):
            self.layout(f"topic-{topic}", load.partitions)
            self.sample(f"topic-{topic}", load.partitions)
        with self.query():  # every code path once, before anything is timed
            self.backlog(Load(2_000, load.groups, load.topics, load.partitions))
            time.sleep(1)

    def layout(self, topic: str, partitions: int) -> None:
        each = (1,) * partitions
        record = TopicRecord(
            topic=topic,
            at=now(),
            id=self.ids.get(topic, ID),
            leader=each,
            replicas=((1,),) * partitions,
            isr=((1,),) * partitions,
            racks=(("a",),) * partitions,
        )
        self.publish(record)

    def sample(self, topic: str, partitions: int) -> None:
        ends = (10**9,) * partitions
        record = OffsetsRecord(
            topic=topic,
            at=now(),
            id=self.ids.get(topic, ID),
            begin=(0,) * partitions,
            stable=ends,
            high=ends,
        )
        self.publish(record)

    def publish(self, record: TopicRecord | OffsetsRecord) -> None:
        key, value = encode(record)
        self.producer.produce(self.topics.metadata, value, key)
        self.producer.flush()

    def backlog(self, load: Load) -> None:
        keys = commit_keys(load)
        at = now()
        for number in range(load.commits):
            place, key = keys[number % len(keys)]
            self.write(key, commit_value(number, at + number // 1000), place)
        self.producer.flush()

    def write(self, key: bytes, value: bytes, place: int, told: Callable[..., None] | None = None) -> None:
        while True:
            try:
                self.producer.produce(offsets_topic.TOPIC, value, key, place, on_delivery=told)
            except BufferError:
                self.producer.poll(0.1)
            else:
                return

    # -- throughput

    def throughput(self, load: Load) -> None:
        took = timed(lambda: self.backlog(load))
        print(f"backlog: {load.commits:,} commits over {load.keys:,} keys, written in {took:.1f} s")
        rows = [
            ("librdkafka's consumer", self.read_by_librdkafka),
            ("Spark's Kafka source into noop", self.read_by_spark),
            ("the pipeline, state and output", self.read_by_pipeline),
        ]
        print(f"{'records/s from the backlog':<34}{'rate':>12}{'seconds':>10}")
        for name, read in rows:
            count, seconds = read(load)
            print(f"{name:<34}{count / seconds:>12,.0f}{seconds:>10.1f}", flush=True)

    def read_by_librdkafka(self, load: Load) -> tuple[int, float]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "raw",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        places = [TopicPartition(offsets_topic.TOPIC, place, 0) for place in range(OFFSETS_PARTITIONS)]
        ends = sum(consumer.get_watermark_offsets(place)[1] for place in places)
        consumer.assign(places)
        begun, count = time.perf_counter(), 0
        while count < min(ends, load.commits):
            count += len(consumer.consume(10_000, timeout=10))
        seconds = time.perf_counter() - begun
        consumer.close()
        return count, seconds

    def read_by_spark(self, _load: Load) -> tuple[int, float]:
        stream = pipeline.source(self.spark, self.settings, {offsets_topic.TOPIC: OFFSETS_PARTITIONS})
        with tempfile.TemporaryDirectory() as directory:
            query = (
                stream.writeStream.format("noop")
                .option("checkpointLocation", directory)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            batches = [batch for batch in query.recentProgress if batch.numInputRows]
        return (
            sum(batch.numInputRows for batch in batches),
            sum(batch.durationMs["triggerExecution"] for batch in batches) / 1000,
        )

    def read_by_pipeline(self, load: Load) -> tuple[int, float]:
        with self.query() as told:
            batches = wait_for(lambda: told if sum(batch.rows for batch in told) >= load.commits else None)
        for batch in batches:
            phases = " ".join(f"{name} {took}" for name, took in sorted(batch.durations.items()) if took)
            print(f"    batch {batch.batch}: {batch.rows:,} records, ms: {phases}")
        if later := batches[1:]:
            rate = sum(batch.rows for batch in later) / sum(batch.batch_ms for batch in later) * 1000
            print(f"    without the first batch, in which the query starts: {rate:,.0f} records/s")
        return sum(batch.rows for batch in batches), sum(batch.batch_ms for batch in batches) / 1000

    def sweep(self, load: Load) -> None:
        """The same number of commits over ever more keys: what a record costs must not grow with them."""
        print(f"{'keys':>12}{'records/s':>12}")
        for groups in (load.groups // 10, load.groups, load.groups * 10):
            one = Load(load.commits // 2, max(groups, 1), load.topics, load.partitions)
            self.backlog(one)
            with self.query() as told:
                batches = wait_for(lambda: told if sum(batch.rows for batch in told) >= one.commits else None)  # noqa: B023 - asked at once
            later = batches[1:] or batches
            rate = sum(batch.rows for batch in later) / sum(batch.batch_ms for batch in later) * 1000
            print(f"{one.keys:>12,}{rate:>12,.0f}", flush=True)

    # -- latency

    def latency(
        self,
        rate: int,
        seconds: float,
        warm: float,
        pace: Callable[[dict[int, float], threading.Event], None],
        observed: tuple[tuple[str, int], ...],
    ) -> None:
        self.layout("paced", 10)
        self.sample("paced", 10)
        returned: dict[int, float] = {}  # by offset, when its commit was acknowledged
        shown: dict[int, float] = {}  # by offset, when a lag record first counted it
        over = threading.Event()
        with self.query() as told:
            wait_for(lambda: told)
            threads = [
                threading.Thread(target=pace, args=(returned, over)),
                threading.Thread(target=self.watch, args=(shown, over)),
                threading.Thread(target=self.observe, args=(over, observed)),
            ]
            for thread in threads:
                thread.start()
            time.sleep(warm)
            first, before, used = max(returned, default=0), len(told), usage()
            time.sleep(seconds)
            last, after = max(returned, default=0), usage()
            time.sleep(IDLE)
            over.set()
            for thread in threads:
                thread.join()
            batches = told[before:]
        delays = sorted(
            shown[offset] - returned[offset] for offset in range(first + 1, last) if offset in shown
        )
        print(f"commit to levelwind.lag at {rate} commits/s, {len(delays)} of {last - first - 1} seen")
        if delays:
            at = {
                name: delays[min(int(len(delays) * share), len(delays) - 1)]
                for name, share in QUANTILES.items()
            }
            print("    " + "  ".join(f"{name} {delay:.2f} s" for name, delay in at.items()))
        if batches:
            names = sorted({name for batch in batches for name in batch.durations})
            medians = {
                name: statistics.median(batch.durations.get(name, 0) for batch in batches) for name in names
            }
            print(
                f"    {len(batches)} batches, median ms: "
                + " ".join(f"{n} {ms:.0f}" for n, ms in medians.items() if ms)
            )
        for name, (cpu, memory) in sorted(after.items()):
            share = (cpu - used.get(name, (0.0, 0))[0]) / seconds
            print(f"    {name}: {share:.0%} of a core, {memory / 2**20:,.0f} MiB")
        print(f"    load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")

    def pace(self, rate: int, returned: dict[int, float], over: threading.Event) -> None:
        """Commit all ten partitions at once, so many times that each commit counts towards the rate."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "paced", "enable.auto.commit": False}
        )
        offset, due = 0, time.perf_counter()
        while not over.is_set():
            offset += 1
            places = [TopicPartition("paced", partition, offset) for partition in range(10)]
            try:
                consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                returned[offset] = time.perf_counter()
            due += 10 / rate
            time.sleep(max(due - time.perf_counter(), 0))
        consumer.close()

    def press(self, rate: int, load: Load, returned: dict[int, float], over: threading.Event) -> None:
        """Commits over all keys, written in steps of 20 ms; each step ends with one of which is told when it was taken."""
        keys, number, offset = commit_keys(load), 0, 10**6
        probes = [commit_key("paced", "paced", partition) for partition in range(10)]
        raw = base64.urlsafe_b64decode(self.ids["paced"] + "==")

        def taken(offset: int) -> Callable[[Any, Any], None]:
            return lambda error, _: returned.update({offset: time.perf_counter()}) if error is None else None

        due = time.perf_counter()
        while not over.is_set():
            at = now()
            for _ in range(rate // 50 - 1):
                place, key = keys[number % len(keys)]
                self.write(key, commit_value(number, at), place)
                number += 1
            offset += 1
            self.write(probes[offset % 10], commit_value(offset, at, raw), 0, taken(offset))
            self.producer.poll(0)
            due += 0.02
            time.sleep(max(due - time.perf_counter(), 0))
        self.producer.flush()

    def watch(self, shown: dict[int, float], over: threading.Event) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "watch", "enable.auto.commit": False}
        )
        places = [TopicPartition(self.topics.lag, partition) for partition in range(4)]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place)[1]
        consumer.assign(places)
        last = 0
        while not over.is_set():
            message = consumer.poll(0.05)
            if message is None or message.error() is not None or b'"paced"' not in message.key():
                continue
            record = decode("lag", message.key(), message.value())
            seen = time.perf_counter()
            if getattr(record, "topic", None) == "paced":
                newest = max(record.committed)
                shown.update(dict.fromkeys(range(last + 1, newest + 1), seen))
                last = max(last, newest)
        consumer.close()

    def observe(self, over: threading.Event, others: tuple[tuple[str, int], ...]) -> None:
        """The samples of a second's observer."""
        while not over.wait(1.0):
            for topic, partitions in (("paced", 10), *others):
                self.sample(topic, partitions)

    @contextmanager
    def query(self) -> Iterator[list[Progress]]:
        """The pipeline, from where it was, until the block ends; and its batches."""
        told: list[Progress] = []

        def tell(news: Progress | Terminated) -> None:
            if isinstance(news, Progress):
                told.append(news)
            elif news.error:
                print(news.error, file=sys.stderr)

        query = pipeline.start(self.spark, self.settings, tell)
        wait_for(lambda: told or not query.isActive or not query.status["isDataAvailable"])
        yield told
        wait_for(lambda: not query.isActive or not query.status["isTriggerActive"])
        query.stop()


QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def commit_key(group: str, topic: str, partition: int) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in (group, topic))
    return struct.pack(">h", 1) + names + struct.pack(">i", partition)


def commit_value(offset: int, at: int, topic_id: bytes = RAW_ID) -> bytes:
    return struct.pack(">hqiBqBBB", 4, offset, -1, 1, at, 1, 0, 16) + topic_id


def commit_keys(load: Load) -> list[tuple[int, bytes]]:
    return [
        (group % OFFSETS_PARTITIONS, commit_key(f"group-{group}", f"topic-{topic}", partition))
        for partition in range(load.partitions)
        for topic in range(load.topics)
        for group in range(load.groups)
    ]


def usage() -> dict[str, tuple[float, int]]:
    """CPU seconds and resident bytes of the JVM and of the Python workers below this process, by name."""
    parents: dict[int, tuple[int, str, float, int]] = {}  # by process: its parent, name, seconds and bytes
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            head, _, tail = (entry / "stat").read_text().rpartition(")")
        except OSError:  # it has just ended
            continue
        fields = tail.split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        parents[int(entry.name)] = (int(fields[1]), head.partition("(")[2], cpu, int(fields[21]) * 4096)
    used: dict[str, tuple[float, int]] = {}
    for pid, (parent, name, cpu, memory) in parents.items():
        lineage = [parent]
        while lineage[-1] in parents:
            lineage.append(parents[lineage[-1]][0])
        if os.getpid() not in lineage or any(
            "deploy/guard.py" in commandline(one) for one in (pid, *lineage)
        ):
            continue  # somebody else's, or a broker
        known = used.get(name, (0.0, 0))
        used[name] = (known[0] + cpu, known[1] + memory)
    return used


def commandline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def known_topic(admin: AdminClient, topic: str) -> Any:
    try:
        return admin.describe_topics(TopicCollection([topic]))[topic].result()
    except KafkaException:  # not yet
        return None


def wait_for(question: Callable[[], Any]) -> Any:
    until = time.monotonic() + ENOUGH
    while not (answer := question()):
        if time.monotonic() > until:
            sys.exit("the pipeline does not get on")
        time.sleep(0.02)
    return answer


def timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def now() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    main()

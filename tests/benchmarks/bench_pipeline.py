"""What the pipeline takes in, beside what Kafka's clients can read at all, and how soon a commit shows.

    python tests/benchmarks/bench_pipeline.py [--commits 2000000] [--rate 200] [--load 20000] [--seconds 60] [--sweep]

One broker, one Spark session, one run: all figures are of the same minutes on the same machine, so that their ratios hold
where the figures themselves do not. The backlog is written straight into `__consumer_offsets`, as brokers write it; the
commits whose latency is taken are a real consumer's at the small rate; at the large one, which no single consumer reaches,
they are written as brokers write them, too.
"""

import argparse
import base64
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from assignors.protocol.records import decode
from daemon.wall_clock import now_ms
from deploy.cluster import Cluster
from deploy.jars import classpath
from streaming.decoding import offsets_topic
from streaming.spark import query as pipeline
from streaming.spark import session
from streaming.spark.progress import (
    Progress,
    Terminated,
)
from streaming.spark.settings import PipelineSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes import processes
from levelwind_testing.processes.offsets_writer import (
    OFFSETS_PARTITIONS,
    Load,
    OffsetsWriter,
    commit_key,
    commit_keys,
    commit_value,
    wait_for,
)
from levelwind_testing.quantiles import quantiles

PACED = "paced"
"""The topic and the group whose commits are followed."""
PROBES = 10
IDLE = 2.0
# With one segment a partition the cleaner takes away nothing that is counted.
BROKER = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.segment.bytes": str(2**30),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument(
        "--rate",
        type=int,
        default=200,
        help="commits a second while latency is taken; 0: not taken",
    )
    parser.add_argument(
        "--load", type=int, default=20_000, help="commits a second over all keys; 0: not taken"
    )
    parser.add_argument(
        "--sweep", action="store_true", help="the rate from 10,000 to 1,000,000 keys, too"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long latency is taken")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds of the same load before")
    parser.add_argument(
        "--rounds", type=int, default=3, help="backlogs that are read; medians are printed"
    )
    parser.add_argument("--max-offsets", type=int, help="records a batch")
    parser.add_argument(
        "--spark", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )
    options = parser.parse_args()
    load = Load(options.commits, options.groups, options.topics, options.partitions)
    with Cluster.start(1, settings=BROKER) as cluster:
        # A fresh directory in memory, as the other figures of this project: ratios, not disks, are compared.
        memory = Path("/dev/shm")  # noqa: S108 - a fresh directory in it
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
            settings = (
                {"max_offsets_per_trigger": options.max_offsets} if options.max_offsets else {}
            )
            spark = session.create(
                classpath("spark"), spark=dict(pair.split("=", 1) for pair in options.spark)
            )
            bench = Bench(spark, cluster.bootstrap, Path(directory), settings)
            bench.prepare(load)
            # First: a coordinator reloads what others wrote into its partition, and takes no commits meanwhile.
            if options.rate:
                bench.latency(options.rate, None, options.seconds, options.warm)
            if options.commits:
                bench.throughput(load, options.rounds)
            if options.load:
                bench.latency(options.load, load, options.seconds, options.warm)
            if options.sweep:
                bench.sweep(load)
            spark.stop()


class Reading(NamedTuple):
    rows: int
    seconds: float


def per_second(readings: Sequence[Reading]) -> float:
    """Records a second."""
    return sum(reading.rows for reading in readings) / sum(reading.seconds for reading in readings)


def once_begun(readings: Sequence[Reading]) -> float:
    """Records a second without the first batch, in which a query starts, if there are more."""
    return per_second(readings[1:] or readings)


class Bench:
    def __init__(
        self, spark: SparkSession, bootstrap: str, directory: Path, settings: Mapping[str, Any]
    ) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.settings = PipelineSettings(bootstrap=bootstrap, checkpoint=directory, **settings)
        self.writer = OffsetsWriter(bootstrap)

    def prepare(self, load: Load) -> None:
        self.writer.create(PACED, PROBES)
        for topic, partitions in load.named:
            self.writer.layout(topic, partitions)
            self.writer.sample(topic, partitions)
        with self.query():  # every code path once, before anything is timed
            self.writer.backlog(Load(2_000, load.groups, load.topics, load.partitions))
            time.sleep(1)

    # -- throughput

    def throughput(self, load: Load, rounds: int) -> None:
        """Medians of some rounds, each with a backlog of its own: what is read first finds a virtual machine that is cold."""
        rows: dict[str, Callable[[Load], list[Reading]]] = {
            "librdkafka's consumer": self.read_by_librdkafka,
            "Spark's Kafka source into noop": self.read_by_spark,
            "the pipeline, state and output": self.read_by_pipeline,
        }
        figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rows}
        for _ in range(rounds):
            took = timed(lambda: self.writer.backlog(load))
            print(
                f"backlog: {load.commits:,} commits over {load.keys:,} keys, written in {took:.1f} s"
            )
            for name, read in rows.items():
                before = processes.usage()
                readings = read(load)
                cpu = processes.spent(before, processes.usage())
                each = cpu / sum(reading.rows for reading in readings) * 1e6
                figures[name].append((per_second(readings), once_begun(readings), each))
        # CPU beside it: it holds on a machine that others use, too.
        print(
            f"{f'records/s, medians of {rounds}':<34}{'whole':>12}{'once begun':>12}{'CPU us each':>13}"
        )
        for name, measured in figures.items():
            whole, later, each = map(statistics.median, zip(*measured, strict=True))
            print(f"{name:<34}{whole:>12,.0f}{later:>12,.0f}{each:>13.2f}", flush=True)

    def read_by_librdkafka(self, load: Load) -> list[Reading]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "raw",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        places = [
            TopicPartition(offsets_topic.TOPIC, place, 0) for place in range(OFFSETS_PARTITIONS)
        ]
        ends = sum(consumer.get_watermark_offsets(place)[1] for place in places)
        consumer.assign(places)
        begun, count = time.perf_counter(), 0
        while count < min(ends, load.commits) and (some := consumer.consume(10_000, timeout=10)):
            count += len(some)
        seconds = time.perf_counter() - begun
        consumer.close()
        return [Reading(count, seconds)]

    def read_by_spark(self, _load: Load) -> list[Reading]:
        stream = pipeline.source(
            self.spark, self.settings, {offsets_topic.TOPIC: OFFSETS_PARTITIONS}
        )
        with tempfile.TemporaryDirectory() as directory:
            query = (
                stream.writeStream.format("noop")
                .option("checkpointLocation", directory)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            batches = [batch for batch in query.recentProgress if batch.numInputRows]
        return [
            Reading(batch.numInputRows, batch.durationMs["triggerExecution"] / 1000)
            for batch in batches
        ]

    def read_by_pipeline(self, load: Load) -> list[Reading]:
        with self.query() as told:
            batches = wait_for(
                lambda: told if sum(batch.rows for batch in told) >= load.commits else None
            )
        for batch in batches:
            phases = " ".join(
                f"{name} {took}" for name, took in sorted(batch.durations.items()) if took
            )
            print(f"    batch {batch.batch}: {batch.rows:,} records, ms: {phases}")
        return [Reading(batch.rows, batch.batch_ms / 1000) for batch in batches]

    def sweep(self, load: Load) -> None:
        """The same number of commits over ever more keys: what a record costs must not grow with them."""
        print(f"{'keys':>12}{'records/s':>12}")
        for groups in (load.groups // 10, load.groups, load.groups * 10):
            one = Load(load.commits, max(groups, 1), load.topics, load.partitions)
            self.writer.backlog(one)
            readings = self.read_by_pipeline(one)
            print(f"{one.keys:>12,}{once_begun(readings):>12,.0f}", flush=True)

    # -- latency

    def latency(self, rate: int, load: Load | None, seconds: float, warm: float) -> None:
        """At so many commits a second, over all keys of a load or by one consumer alone."""
        self.writer.layout(PACED, PROBES)
        self.writer.sample(PACED, PROBES)
        returned: dict[int, float] = {}  # by offset, when its commit was acknowledged
        shown: dict[int, float] = {}  # by offset, when a lag record first counted it
        over = threading.Event()
        with self.query() as told:
            wait_for(lambda: told)
            write = (
                (self.press, (rate, load, returned, over))
                if load
                else (self.pace, (rate, returned, over))
            )
            observed = load.named if load else ()
            threads = [
                threading.Thread(target=work, args=arguments)
                for work, arguments in (
                    write,
                    (self.watch, (shown, over)),
                    (self.observe, (over, observed)),
                )
            ]
            for thread in threads:
                thread.start()
            time.sleep(warm)
            first, before, used = max(returned, default=0), len(told), processes.usage()
            time.sleep(seconds)
            last, after = max(returned, default=0), processes.usage()
            time.sleep(IDLE)
            over.set()
            for thread in threads:
                thread.join()
            batches = told[before:]
        delays = [
            shown[offset] - returned[offset] for offset in range(first + 1, last) if offset in shown
        ]
        print(
            f"commit to levelwind.lag at {rate} commits/s, {len(delays)} of {last - first - 1} seen"
        )
        if delays:
            print(f"    {quantiles(delays)}")
        if batches:
            names = sorted({name for batch in batches for name in batch.durations})
            medians = {
                name: statistics.median(batch.durations.get(name, 0) for batch in batches)
                for name in names
            }
            print(
                f"    {len(batches)} batches, median ms: "
                + " ".join(f"{n} {ms:.0f}" for n, ms in medians.items() if ms)
            )
        print(processes.shown(used, after, seconds))
        print(f"    load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")

    def pace(self, rate: int, returned: dict[int, float], over: threading.Event) -> None:
        """Commit all partitions at once, so many times that each commit counts towards the rate."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": PACED, "enable.auto.commit": False}
        )
        offset, due = 0, time.perf_counter()
        while not over.is_set():
            offset += 1
            places = [TopicPartition(PACED, partition, offset) for partition in range(PROBES)]
            try:
                consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                returned[offset] = time.perf_counter()
            due += PROBES / rate
            time.sleep(max(due - time.perf_counter(), 0))
        consumer.close()

    def press(
        self, rate: int, load: Load, returned: dict[int, float], over: threading.Event
    ) -> None:
        """Commits over all keys, written in steps of 20 ms; each step ends with one of which is told when it was taken."""
        keys, number, offset = commit_keys(load), 0, 10**6
        probes = [commit_key(PACED, PACED, partition) for partition in range(PROBES)]
        raw = base64.urlsafe_b64decode(self.writer.ids[PACED] + "==")

        def taken(offset: int) -> Callable[[Any, Any], None]:
            return lambda error, _: (
                returned.update({offset: time.perf_counter()}) if error is None else None
            )

        due = time.perf_counter()
        while not over.is_set():
            at = now_ms()
            for _ in range(rate // 50 - 1):
                place, key = keys[number % len(keys)]
                self.writer.write(key, commit_value(number, at), place)
                number += 1
            offset += 1
            self.writer.write(
                probes[offset % PROBES], commit_value(offset, at, raw), 0, taken(offset)
            )
            self.writer.producer.poll(0)
            due += 0.02
            time.sleep(max(due - time.perf_counter(), 0))
        self.writer.producer.flush()

    def watch(self, shown: dict[int, float], over: threading.Event) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "watch", "enable.auto.commit": False}
        )
        places = [TopicPartition(self.settings.topics.lag, partition) for partition in range(4)]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place)[1]
        consumer.assign(places)
        last = 0
        while not over.is_set():
            message = consumer.poll(0.05)
            if (
                message is None
                or message.error() is not None
                or f'"{PACED}"'.encode() not in message.key()
            ):
                continue
            record = decode("lag", message.key(), message.value())
            seen = time.perf_counter()
            if getattr(record, "topic", None) == PACED:
                newest = max(record.committed)
                shown.update(dict.fromkeys(range(last + 1, newest + 1), seen))
                last = max(last, newest)
        consumer.close()

    def observe(self, over: threading.Event, others: tuple[tuple[str, int], ...]) -> None:
        """The samples of a second's observer."""
        while not over.wait(1.0):
            for topic, partitions in ((PACED, PROBES), *others):
                self.writer.sample(topic, partitions)

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


def timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()

"""Throughput of the pipeline beside Kafka's own clients, and the time from a commit to its lag.

    python tests/benchmarks/bench_pipeline.py [--commits 2000000] [--rate 200] [--load 20000]
                                              [--seconds 60] [--sweep] [--shapes]
                                              [--scenario company,steady,burst,fleet]

One broker, one Spark session, one run: all figures are of the same minutes on the same machine, so
their ratios hold where the figures themselves do not. The backlog is written straight into
`__consumer_offsets`, as brokers write it. At the small rate, latency is that of a real consumer's
commits; at the large one, which no single consumer reaches, commits are written as brokers write
them, too, and groups keep pace: samples show what was committed since, and which commits they
count. With `--shapes` there is a broker and a process for each shape of `SHAPES`, without owners
and with five members a group: a backlog, and the large rate. With `--scenario` it is the traffic of
a kind of cluster of `SCENARIOS`, once all its keys have been committed, and the rest after it.
Memory is that of all processes of the pipeline with this script, the driver.
"""

import argparse
import base64
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from levelwind.assignors.protocol.records import decode
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.observer.settings import ObserverSettings
from levelwind.daemon.pipeline.process import class_data_options
from levelwind.daemon.wall_clock import now_ms
from levelwind.deploy.cluster import Cluster
from levelwind.deploy.jars import classpath
from levelwind.streaming.spark import query as spark_query
from levelwind.streaming.spark import session
from levelwind.streaming.spark.batches.progress import Progress, QueryNews, Terminated
from levelwind.streaming.spark.settings import SEVERAL_TASKS, PipelineSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes import processes
from levelwind_testing.processes.offsets_writer import (
    FIRST_END,
    Load,
    OffsetsWriter,
    commit_key,
    commit_keys,
    commit_value,
)
from levelwind_testing.quantiles import quantiles
from levelwind_testing.waiting import wait_until

SHAPES = ((20, 100, 50), (2_000, 1, 50), (2_000, 10, 5))
"""Numbers of groups, of topics, and of partitions of each topic; all have 100,000 keys."""
OWNERS = (0, 5)
"""Numbers of members of each group."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Commits over the keys of a load, as the groups of a kind of cluster make them."""

    load: Load
    rate: int
    """Commits a second, while there are any."""
    busy: float = 1.0
    """Seconds of each `every` in which there are commits."""
    every: float = 1.0
    """Seconds from the begin of a burst to that of the next."""
    hot_groups: float = 1.0
    """Share of the groups that make `hot_commits` of the commits, the first ones."""
    hot_commits: float = 1.0

    def is_busy(self, seconds: float) -> bool:
        """Whether there are commits at a time, counted from the begin of the first burst."""
        return seconds % self.every < self.busy

    def keys(self) -> Iterator[tuple[int, bytes]]:
        """Each commit's partition of the offsets topic and its key, without end."""
        hot = round(self.load.groups * self.hot_groups)
        kinds = [itertools.cycle(commit_keys(self.load, range(hot)))]
        if hot < self.load.groups:
            kinds.append(itertools.cycle(commit_keys(self.load, range(hot, self.load.groups))))
        share = 0.0
        while True:
            share += self.hot_commits
            if share >= 1.0:
                share -= 1.0
                yield next(kinds[0])
            else:
                yield next(kinds[-1])


SCENARIOS = {
    "company": Traffic(Load(0, groups=40, topics=3, partitions=12, owners=3), 200),
    "steady": Traffic(Load(0, groups=2_000, topics=1, partitions=50, owners=5), 20_000),
    "burst": Traffic(
        Load(0, groups=300, topics=30, partitions=20, owners=5),
        50_000,
        busy=2.0,
        every=5.0,
        hot_groups=0.1,
        hot_commits=0.9,
    ),
    "fleet": Traffic(
        Load(0, groups=10_000, topics=2_500, partitions=3, owners=1, topics_each=1), 20_000
    ),
}
"""Traffic by kind of cluster: an ordinary company's, a large one, bursts, and many small groups."""
SAMPLE_CPU_SECONDS = 60e-6
"""What a topic of three partitions costs the observer in a sample: `bench_observer.py`."""
PACED = "paced"
"""Name of the topic and of the group whose commits are timed."""
PROBES = 10
"""Partitions of that topic."""
FEW, FEW_BATCHES = 50, 40
"""Commits of a small batch, and number of such batches that are timed together."""
FEW_WARM_BATCHES = 300
"""Small batches between the first that are timed and the last: the JVM compiles meanwhile."""
BEHIND_SECONDS = 600.0
"""Time for a query that did not keep pace to read what is left."""
IDLE_SECONDS = 2.0
"""Time for the last commits to show, after a measurement."""
# With one segment a partition the cleaner removes nothing that is counted.
BROKER = {"offsets.topic.segment.bytes": str(2**30)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument(
        "--owners",
        type=int,
        help="members of each group; by default none, with --shapes none and then five",
    )
    parser.add_argument(
        "--shapes", action="store_true", help="measure each of several numbers of groups and topics"
    )
    parser.add_argument(
        "--scenario",
        metavar="NAME,NAME",
        help=f"measure the traffic of kinds of clusters: {', '.join(SCENARIOS)}",
    )
    parser.add_argument(
        "--rest",
        type=float,
        default=30.0,
        help="seconds without commits, after a scenario's traffic",
    )
    parser.add_argument(
        "--rate",
        type=int,
        default=200,
        help="commits a second of one consumer, for latency; 0: skip",
    )
    parser.add_argument(
        "--load",
        type=int,
        default=20_000,
        help="commits a second over all keys, for latency; 0: skip",
    )
    parser.add_argument(
        "--sweep", action="store_true", help="also measure throughput from 10,000 to 1,000,000 keys"
    )
    parser.add_argument(
        "--few", action="store_true", help=f"also time batches of {FEW} commits beside all groups"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="duration of a latency measurement"
    )
    parser.add_argument(
        "--warm", type=float, default=30.0, help="seconds of the same load before each"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="backlogs to read; medians are printed"
    )
    parser.add_argument("--max-offsets", type=int, help="records a batch")
    parser.add_argument(
        "--interval", type=int, help="shortest milliseconds between the starts of two batches"
    )
    parser.add_argument(
        "--calm", type=int, help="longest milliseconds; no more than the shortest: always those"
    )
    parser.add_argument(
        "--offsets-partitions",
        type=int,
        default=50,
        help="partitions of __consumer_offsets; 50 is Kafka's default",
    )
    parser.add_argument("--parallelism", type=int, help="tasks; by default as a user has it")
    parser.add_argument(
        "--spark", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )
    options = parser.parse_args()
    if options.scenario:
        names = options.scenario.split(",")
        if len(names) > 1:
            for name in names:
                run_apart("--scenario", name)
            return
        print(f"== {names[0]}: {SCENARIOS[names[0]]}", flush=True)
        measure_scenario(options, SCENARIOS[names[0]])
        return
    if not options.shapes:
        shape = (options.groups, options.topics, options.partitions, options.owners or 0)
        measure(options, Load(options.commits, *shape))
        return
    for owners in OWNERS if options.owners is None else (options.owners,):
        for shape in SHAPES:
            measure_apart(shape, owners)


def measure_apart(shape: tuple[int, int, int], owners: int) -> None:
    """Measure a shape in a process of its own, with a JVM that has seen no other one."""
    groups, topics, partitions = shape
    print(f"== {groups:,} groups, {topics} topics of {partitions} partitions, ", end="")
    print(f"{owners} members a group", flush=True)
    names = ("--groups", "--topics", "--partitions", "--owners", "--rate")
    values = map(str, (groups, topics, partitions, owners, 0))
    run_apart(*(word for option in zip(names, values, strict=True) for word in option))


def run_apart(*own: str) -> None:
    """Run this script in a process of its own, with these options besides those it was given."""
    given = [option for option in sys.argv[1:] if option != "--shapes"]
    # The last of two equal options counts.
    subprocess.run([sys.executable, __file__, *given, *own], check=True)


def measure(options: argparse.Namespace, load: Load) -> None:
    """Measure one load on a broker and a session of its own."""
    load = replace(load, offsets_partitions=options.offsets_partitions)
    with benchmark_of(options) as benchmark:
        benchmark.prepare(load)
        # First, since a coordinator reloads what others wrote into its partition, and accepts no
        # commits meanwhile.
        if options.rate:
            benchmark.latency(options.rate, None, options.seconds, options.warm)
        if options.commits:
            benchmark.throughput(load, options.rounds)
        if options.few:
            benchmark.few_commits(load)
        if options.load:
            traffic = Traffic(load, options.load)
            benchmark.latency(options.load, traffic, options.seconds, options.warm)
        if options.sweep:
            benchmark.sweep(load)


def measure_scenario(options: argparse.Namespace, traffic: Traffic) -> None:
    """Measure the traffic of a kind of cluster on a broker and a session of its own."""
    load = replace(traffic.load, offsets_partitions=options.offsets_partitions)
    traffic = replace(traffic, load=load)
    with benchmark_of(options) as benchmark:
        # As in an installation, the JVM has one query: Spark keeps the consumers of a former one.
        benchmark.create_topics(load)
        benchmark.write_every_key(load)
        if not options.parallelism:  # by the commits of every key, which are new, it would be two
            benchmark.settings = replace(benchmark.settings, parallelism=1)
        benchmark.latency(traffic.rate, traffic, options.seconds, options.warm, options.rest)


@contextmanager
def benchmark_of(options: argparse.Namespace) -> Iterator["PipelineBenchmark"]:
    """A broker and a session of Spark's of a measurement's own."""
    partitions = {"offsets.topic.num.partitions": str(options.offsets_partitions)}
    with Cluster.start(1, settings=BROKER | partitions) as cluster:
        # A directory in memory: ratios are compared, not disks.
        memory = Path("/dev/shm")  # noqa: S108 - only a temporary directory in it is used
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
            given = {
                "max_offsets_per_trigger": options.max_offsets,
                "trigger_interval": options.interval,
                "calm_interval": options.calm,
                "parallelism": options.parallelism,
            }
            settings = {name: value for name, value in given.items() if value is not None}
            jars = classpath("spark")
            spark = session.create(
                jars,
                parallelism=options.parallelism or SEVERAL_TASKS,
                spark=dict(pair.split("=", 1) for pair in options.spark),
                jvm_options=class_data_options(jars),
            )
            yield PipelineBenchmark(spark, cluster.bootstrap, Path(directory), settings)
            spark.stop()


class Reading(NamedTuple):
    """Records that were read together, as in one batch."""

    rows: int
    seconds: float


def per_second(readings: Sequence[Reading]) -> float:
    """Records a second, over all readings."""
    return sum(reading.rows for reading in readings) / sum(reading.seconds for reading in readings)


def after_first_batch(readings: Sequence[Reading]) -> float:
    """Records a second without the first batch, which pays for the start of the query."""
    return per_second(readings[1:] or readings)


def apart(cpu: Mapping[str, float]) -> tuple[float, float]:
    """CPU seconds of the JVM, and those of Python's workers."""
    return cpu.get("java", 0.0), sum(
        seconds for name, seconds in cpu.items() if name.startswith("python")
    )


class PipelineBenchmark:
    """The measurements, on one broker and one Spark session."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, directory: Path, settings: Mapping[str, Any]
    ) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.settings = PipelineSettings(bootstrap=bootstrap, checkpoint=directory, **settings)
        self.writer = OffsetsWriter(bootstrap)
        self.published = 0
        """Lag records that were seen."""
        self.committed = FIRST_END
        """Offset of the newest commit that was written under load."""
        self.step = threading.Lock()
        """Held while commits of one time are written."""

    def create_topics(self, load: Load) -> None:
        """Create the topics, with their layouts, samples and owners."""
        self.writer.create(PACED, PROBES)
        for topic, partitions in load.topic_sizes:
            self.writer.layout(topic, partitions)
            self.writer.sample(topic, partitions)
        self.writer.assign_owners(load)

    def prepare(self, load: Load) -> None:
        """Create the topics, and run every code path once before anything is timed."""
        self.create_topics(load)
        with self.query():
            self.writer.backlog(replace(load, commits=2_000))
            time.sleep(1)

    def write_every_key(self, load: Load) -> Load:
        """Write a commit of each key, and a sample of each topic; return the commits' load."""
        every_key = replace(load, commits=len(commit_keys(load)))
        self.writer.backlog(every_key)
        for topic, partitions in load.topic_sizes:
            self.writer.sample(topic, partitions)
        return every_key

    # -- throughput

    def throughput(self, load: Load, rounds: int) -> None:
        """Print medians over rounds with a backlog each: the first round runs on a cold JVM."""
        rows: dict[str, Callable[[Load], list[Reading]]] = {
            "librdkafka's consumer": self.read_by_librdkafka,
            "Spark's Kafka source into noop": self.read_by_spark,
            "the pipeline, state and output": self.read_by_pipeline,
        }
        figures: dict[str, list[tuple[float, ...]]] = {name: [] for name in rows}
        for _ in range(rounds):
            took = timed(lambda: self.writer.backlog(load))
            print(f"backlog: {load.commits:,} commits over {load.keys:,} keys in {took:.1f} s")
            for name, read in rows.items():
                before = processes.usage()
                readings = read(load)
                cpu = processes.spent_by_name(before, processes.usage())
                count = sum(reading.rows for reading in readings)
                each = [seconds / count * 1e6 for seconds in (sum(cpu.values()), *apart(cpu))]
                figures[name].append((per_second(readings), after_first_batch(readings), *each))
        # CPU time as well, since it holds on a machine that others use, too.
        head = f"records/s, medians of {rounds}"
        print(f"{head:<34}{'all':>12}{'after start':>12}{'CPU us each':>13}{'JVM':>8}{'Python':>8}")
        for name, measured in figures.items():
            overall, later, *each = map(statistics.median, zip(*measured, strict=True))
            cpu_each = f"{each[0]:>13.2f}{each[1]:>8.2f}{each[2]:>8.2f}"
            print(f"{name:<34}{overall:>12,.0f}{later:>12,.0f}{cpu_each}", flush=True)

    def read_by_librdkafka(self, load: Load) -> list[Reading]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "raw",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        partitions = [
            TopicPartition(OFFSETS_TOPIC, number, 0) for number in range(load.offsets_partitions)
        ]
        ends = sum(consumer.get_watermark_offsets(partition)[1] for partition in partitions)
        consumer.assign(partitions)
        begun, count = time.perf_counter(), 0
        while count < min(ends, load.commits) and (
            messages := consumer.consume(10_000, timeout=10)
        ):
            count += len(messages)
        seconds = time.perf_counter() - begun
        consumer.close()
        return [Reading(count, seconds)]

    def read_by_spark(self, load: Load) -> list[Reading]:
        partitions = {OFFSETS_TOPIC: load.offsets_partitions}
        stream = spark_query.source(self.spark, self.settings, partitions, SEVERAL_TASKS)
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
        with self.query() as batches:
            wait_until(
                "end of the backlog", lambda: sum(batch.rows for batch in batches) >= load.commits
            )
        for batch in batches:
            phases = " ".join(
                f"{name} {took}" for name, took in sorted(batch.durations.items()) if took
            )
            print(f"    batch {batch.batch}: {batch.rows:,} records, ms: {phases}")
        return [Reading(batch.rows, batch.batch_ms / 1000) for batch in batches]

    def sweep(self, load: Load) -> None:
        """Read equally many commits over more and more keys: a record's cost must not grow."""
        print(f"{'keys':>12}{'records/s':>12}")
        for groups in (load.groups // 10, load.groups, load.groups * 10):
            sized = replace(load, groups=max(groups, 1))
            self.writer.backlog(sized)
            readings = self.read_by_pipeline(sized)
            print(f"{sized.keys:>12,}{after_first_batch(readings):>12,.0f}", flush=True)

    # -- small batches

    def few_commits(self, load: Load) -> None:
        """Print what batches of a few commits take beside all groups, between two samples."""
        self.read_by_pipeline(self.write_every_key(load))
        keys = commit_keys(load)
        with self.query() as batches:
            numbers = itertools.count()

            def write(count: int) -> None:
                for number in itertools.islice(numbers, count):
                    before = len(batches)
                    for key in range(number * FEW, (number + 1) * FEW):
                        partition, name = keys[key * 37 % len(keys)]
                        self.writer.write(name, commit_value(self.committed, now_ms()), partition)
                    self.writer.producer.flush()
                    wait_until(
                        "batch", lambda known=before: sum(b.rows for b in batches[known:]) >= FEW
                    )

            for title, warm in (("at first", 0), (f"after {FEW_WARM_BATCHES}", FEW_WARM_BATCHES)):
                write(warm)
                used, done = processes.usage(), len(batches)
                write(FEW_BATCHES)
                spent = apart(processes.spent_by_name(used, processes.usage()))
                took = [batch.batch_ms / 1000 for batch in batches[done:]]
                jvm, python = (seconds / len(took) for seconds in spent)
                print(f"batches of {FEW} commits beside {load.groups:,} groups, {title}:")
                print(f"    {quantiles(took)}")
                print(f"    CPU of each of {len(took)}: JVM {jvm:.2f} s, Python {python:.2f} s")

    # -- latency

    def latency(
        self,
        rate: int,
        traffic: Traffic | None,
        seconds: float,
        warm: float,
        rest: float = 0.0,
    ) -> None:
        """Print delays at `rate` commits a second, those of a traffic or of one consumer.

        Then what the pipeline takes in seconds of rest.
        """
        self.writer.layout(PACED, PROBES)
        self.writer.sample(PACED, PROBES)
        # Times by committed offset: of the commit's acknowledgement, and of the first lag with it.
        returned: dict[int, float] = {}
        shown: dict[int, float] = {}
        over = threading.Event()
        with self.query() as all_batches:
            wait_until("batch", lambda: all_batches)
            write = (
                (self.press, (traffic, returned, over))
                if traffic
                else (self.pace, (rate, returned, over))
            )
            observed = traffic.load.topic_sizes if traffic else ()
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
            first, before, used = max(returned, default=0), len(all_batches), processes.usage()
            published = self.published
            time.sleep(seconds)
            last, after = max(returned, default=0), processes.usage()
            published = self.published - published
            time.sleep(IDLE_SECONDS)
            over.set()
            for thread in threads:
                thread.join()
            batches = all_batches[before:]
            if rest:
                time.sleep(IDLE_SECONDS)
                rested = processes.usage()
                time.sleep(rest)
                at_rest = processes.shown(rested, processes.usage(), rest)
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
            stakes = sum(batch.at_stake for batch in batches)
            print(
                f"    {len(batches)} batches, {stakes} with something at stake, median ms: "
                + " ".join(f"{n} {ms:.0f}" for n, ms in medians.items() if ms)
            )
        print(processes.shown(used, after, seconds))
        if published:
            spent = apart(processes.spent_by_name(used, after))
            jvm, python = (seconds / published * 1e6 for seconds in spent)
            print(f"    CPU of each of {published:,} lag records: ", end="")
            print(f"JVM {jvm:,.0f} us, Python {python:,.0f} us")
        if rest:
            print(f"at rest, {rest:.0f} s\n{at_rest}")
        print(f"    load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")

    def pace(self, rate: int, returned: dict[int, float], over: threading.Event) -> None:
        """Commit all partitions at once, as often as `rate` commits a second take."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": PACED, "enable.auto.commit": False}
        )
        offset, due = 0, time.perf_counter()
        while not over.is_set():
            offset += 1
            offsets = [TopicPartition(PACED, partition, offset) for partition in range(PROBES)]
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                returned[offset] = time.perf_counter()
            due += PROBES / rate
            time.sleep(max(due - time.perf_counter(), 0))
        consumer.close()

    def press(self, traffic: Traffic, returned: dict[int, float], over: threading.Event) -> None:
        """Write commits in steps of 20 ms; the last of each step is the one timed."""
        keys, offset = traffic.keys(), 10**6
        probes = [commit_key(PACED, PACED, partition) for partition in range(PROBES)]
        raw = base64.urlsafe_b64decode(self.writer.ids[PACED] + "==")

        def acknowledged(offset: int) -> Callable[[Any, Any], None]:
            return lambda error, _: (
                returned.update({offset: time.perf_counter()}) if error is None else None
            )

        begun = due = time.perf_counter()
        while not over.is_set():
            count = traffic.rate // 50 - 1 if traffic.is_busy(due - begun) else 0
            with self.step:
                at = now_ms()
                for partition, key in itertools.islice(keys, count):
                    self.committed += 1
                    self.writer.write(key, commit_value(self.committed, at), partition)
            offset += 1
            self.writer.write(
                probes[offset % PROBES], commit_value(offset, at, raw), 0, acknowledged(offset)
            )
            self.writer.producer.poll(0)
            due += 0.02
            time.sleep(max(due - time.perf_counter(), 0))
        self.writer.producer.flush()

    def watch(self, shown: dict[int, float], over: threading.Event) -> None:
        """Follow the lag topic; note when each committed offset is first part of a lag."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "watch", "enable.auto.commit": False}
        )
        partitions = [TopicPartition(self.settings.topics.lag, number) for number in range(4)]
        for partition in partitions:
            partition.offset = consumer.get_watermark_offsets(partition)[1]
        consumer.assign(partitions)
        last = 0
        while not over.is_set():
            message = consumer.poll(0.05)
            if message is None or message.error() is not None:
                continue
            self.published += 1
            if f'"{PACED}"'.encode() not in message.key():
                continue
            record = decode("lag", message.key(), message.value())
            seen = time.perf_counter()
            if getattr(record, "topic", None) == PACED:
                newest = max(record.committed)
                shown.update(dict.fromkeys(range(last + 1, newest + 1), seen))
                last = max(last, newest)
        consumer.close()

    def observe(self, over: threading.Event, others: tuple[tuple[str, int], ...]) -> None:
        """Publish a sample of each topic as often as the observer does within its share of CPU.

        As the observer's, all samples of a tick have one time.
        """
        observer = ObserverSettings()
        cost = len(others) * SAMPLE_CPU_SECONDS
        pause = max(observer.offsets_interval, cost / observer.max_cpu_share)
        asked = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "observe"})
        described = asked.list_topics(OFFSETS_TOPIC).topics[OFFSETS_TOPIC]
        logs = [
            TopicPartition(OFFSETS_TOPIC, number) for number in range(len(described.partitions))
        ]
        while not over.wait(pause):
            cut = tuple(asked.get_watermark_offsets(log)[1] for log in logs)
            with self.step:
                # As on a broker, a commit beyond the end is younger than the sample.
                end, at = self.committed, now_ms() - 1
            self.writer.sample(PACED, PROBES, cut=cut, at=at)
            for topic, partitions in others:
                self.writer.sample(topic, partitions, end, cut, at)
        asked.close()

    @contextmanager
    def query(self) -> Iterator[list[Progress]]:
        """Run the pipeline from its checkpoint until the block ends; yields its batches so far."""
        batches: list[Progress] = []

        def on_progress(news: QueryNews) -> None:
            if isinstance(news, Progress):
                batches.append(news)
            elif isinstance(news, Terminated) and news.error:
                print(news.error, file=sys.stderr)

        query = spark_query.start(self.spark, self.settings, on_progress)
        wait_until(
            "batch", lambda: batches or not query.isActive or not query.status["isDataAvailable"]
        )
        yield batches
        wait_until(
            "end of a batch",
            lambda: not query.isActive or not query.status["isTriggerActive"],
            within=BEHIND_SECONDS,
        )
        query.stop()


def timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()

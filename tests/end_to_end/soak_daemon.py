"""A daemon, its pipeline and a standby under traffic and churn: nothing of the tree grows.

    python tests/end_to_end/soak_daemon.py [--batches 7000]

Three real brokers, groups that commit all the time, so that the pipeline makes batches without a
pause, and two managed consumers. Meanwhile topics and groups are made, raised and deleted, a
consumer is killed every 200 batches, and a broker is restarted every 500. After each hundred
batches the whole tree of both daemons is looked at: open files, sockets, threads and memory of each
process, and what lies in the state directories and those for temporary files. In the end the
brokers are asked for the lag of every group.

It ends with 1 if files, sockets, threads or processes grew by more than one in a hundred batches,
beyond what pools of the JVM open once; if a lag differs from what the brokers say; or if a daemon
logged an error. What memory and disks do is printed.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind.deploy.cluster import Cluster
from levelwind.deploy.ports import free_ports
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.log_offsets import log_offsets
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.member_process import MemberProcess
from levelwind_testing.processes.tree_watch import LEAST_LOOKS, TreeWatch, bytes_below, held_by
from levelwind_testing.waiting import wait_until

HEAP = ("-Xms256m", "-Xmx1g", "-XX:+UseSerialGC")
GROUPS, TOPICS, PARTITIONS = 40, 10, 6
"""Groups that live all the time, each of which reads one topic, and topics with partitions."""
COMMIT_SECONDS = 0.05
"""Pause between the commits of two groups."""
RECORDS_A_TICK = 10
CHURN_SECONDS = 10.0
MOST_CHURNED = 8
"""Topics, each with a group of its own, that are there at a time for a while."""
BATCHES_A_LOOK, BATCHES_A_KILL, BATCHES_A_RESTART = 100, 200, 500
LOOK_SECONDS = 900.0
"""Longest wait for a hundred batches."""
WARM_UP = 300
"""Batches in which connections are opened, code is compiled and pools fill."""
LEAST_BATCHES = WARM_UP + LEAST_LOOKS * BATCHES_A_LOOK
FEW = 20
"""More of a kind that is no leak, however many batches there were."""
TRUTH_SECONDS = 180.0


class Traffic:
    """Records, commits and churn in the background; `lag_of` asks the brokers."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.drawn = cluster, random.Random(seed)
        client = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self.client, self.admin = client, AdminClient(client)
        self.sizes: dict[str, int] = {}
        self.reads: dict[str, str] = {}
        """Topic by group."""
        self.next: dict[tuple[str, int], int] = {}
        self.consumers: dict[str, Consumer] = {}
        for number in range(TOPICS):
            self.make(f"topic-{number}", PARTITIONS)
        for number in range(GROUPS):
            self.reads[f"group-{number}"] = f"topic-{number % TOPICS}"
        self.churned = 0
        self.failures: Counter[str] = Counter()
        self.lock, self.over = threading.Lock(), threading.Event()
        self.threads = [
            threading.Thread(target=self.repeat, args=each, daemon=True)
            for each in (
                (self.produce(), 0.1),
                (self.commit, COMMIT_SECONDS),
                (self.churn, CHURN_SECONDS),
            )
        ]
        for thread in self.threads:
            thread.start()

    def repeat(self, work, pause) -> None:
        while not self.over.wait(pause):
            try:
                work()
            except KafkaException as error:  # while a broker restarts, or a topic has just gone
                self.failures[str(error.args[0].code())] += 1
            except TimeoutError:  # beside other work a change of topics may take longer than that
                self.failures["no answer"] += 1

    def make(self, topic: str, partitions: int) -> None:
        create_topics({"bootstrap.servers": self.cluster.bootstrap}, NewTopic(topic, partitions, 3))
        self.sizes[topic] = partitions

    def produce(self):
        producer = Producer({**self.client, "linger.ms": 50})

        def tick() -> None:
            for _ in range(RECORDS_A_TICK):
                topic, partitions = self.drawn.choice([*self.sizes.items()])
                with suppress(BufferError):
                    producer.produce(topic, b"x" * 100, partition=self.drawn.randrange(partitions))
            producer.poll(0)

        return tick

    def commit(self) -> None:
        """Let one group commit, as far as its topic goes or a little less."""
        with self.lock:
            group, topic = self.drawn.choice([*self.reads.items()])
            partition = self.drawn.randrange(self.sizes[topic])
        consumer = self.consumers.setdefault(group, self.consumer(group))
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        offset = max(end - self.drawn.randrange(3), 0)
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)

    def consumer(self, group: str) -> Consumer:
        return Consumer({**self.client, "group.id": group, "enable.auto.commit": False})

    def churn(self) -> None:
        """Make a topic with a group, raise another topic, and delete the oldest of those made."""
        self.churned += 1
        name = f"passing-{self.churned}"
        self.make(name, self.drawn.randrange(1, PARTITIONS))
        with self.lock:
            self.reads[f"readers-of-{name}"] = name
            passing = [topic for topic in self.sizes if topic.startswith("passing-")]
        raised = self.drawn.choice(passing)
        more = self.sizes[raised] + 1
        self.admin.create_partitions([NewPartitions(raised, more)])[raised].result(30)
        self.sizes[raised] = more
        if len(passing) > MOST_CHURNED:
            self.delete(passing[0])

    def delete(self, topic: str) -> None:
        group = f"readers-of-{topic}"
        with self.lock:
            del self.sizes[topic], self.reads[group]
            consumer = self.consumers.pop(group, None)
        if consumer is not None:
            consumer.close()
        self.admin.delete_topics([topic])[topic].result(30)
        if self.drawn.random() < 0.5:  # else the group goes with its last commit
            self.admin.delete_consumer_groups([group])[group].result(30)

    def restart(self, broker: int) -> None:
        self.cluster.stop_broker(broker)
        self.cluster.start_broker(broker)

    def stop(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(60)

    def lag_of(self, group: str) -> dict[int, int]:
        """Lag by the brokers of each partition that a group has committed."""
        topic = self.reads[group]
        numbers = range(self.sizes[topic])
        ends = log_offsets(self.admin, topic, numbers)
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in numbers])
        answer = self.admin.list_consumer_group_offsets([asked])[group].result(30)
        return {
            each.partition: ends[each.partition] - each.offset
            for each in answer.topic_partitions
            if each.offset >= 0
        }


class Soak:
    """The daemons, and what is seen of them."""

    def __init__(self, cluster: Cluster, directory: Path, stack: ExitStack, seed: int) -> None:
        self.cluster, self.directory, self.stack = cluster, directory, stack
        self.port = next(free_ports())
        self.daemons = {"leader": self.daemon("leader", f"http.listen=127.0.0.1:{self.port}")}
        self.daemons["leader"].wait_for("lead", lambda: self.logged("daemon.leading"), 180)
        self.daemons["standby"] = self.daemon("standby")
        self.traffic = Traffic(cluster, seed)
        self.members = [self.member(f"m{number}") for number in range(2)]
        stack.callback(lambda: [member.kill() for member in self.members])
        stack.callback(self.traffic.stop)
        self.daemons["leader"].wait_for("lag", lambda: self.logged("pipeline.caught_up"), 300)
        self.watch = TreeWatch()
        self.disks: list[tuple[int, int]] = []

    def daemon(self, name: str, *settings: str) -> DaemonProcess:
        home = self.directory / name
        made = DaemonProcess(self.cluster.bootstrap, home, "pipeline.trigger_interval=0", *settings)
        self.stack.callback(made.stop)
        return made

    def logged(self, event: str) -> list:
        return self.daemons["leader"].logged(event)

    def member(self, instance: str) -> MemberProcess:
        bootstrap = self.cluster.bootstrap
        return MemberProcess(bootstrap, "levelwind.", "planned", "topic-0", instance, 1.0)

    def batches(self) -> int:
        """The number of the leader's last batch."""
        done = [
            int(file.name)
            for file in self.directory.glob("leader/checkpoint/**/commits/*")
            if file.name.isdecimal()
        ]
        return max(done, default=0)

    def run(self, batches: int) -> None:
        begun, first = time.monotonic(), self.batches()
        for done in range(BATCHES_A_LOOK, batches + 1, BATCHES_A_LOOK):
            wait_until(
                f"batch {done}",
                lambda done=done: self.batches() - first >= done,
                LOOK_SECONDS,
                pause=1.0,
                shown=self.daemons["leader"].tail,
            )
            if done > WARM_UP:
                self.look(done, time.monotonic() - begun)
            if done % BATCHES_A_KILL == 0:
                self.members.pop().kill()
                self.members.append(self.member("m1"))
            if done % BATCHES_A_RESTART == 0:
                self.traffic.restart(done // BATCHES_A_RESTART % 3 + 1)
        print(f"{batches} batches, {batches / (time.monotonic() - begun):.2f} a second", flush=True)

    def look(self, done: int, seconds: float) -> None:
        roots = {name: daemon.child.process.pid for name, daemon in self.daemons.items()}
        held = held_by(roots)
        self.watch.add(done, held)
        self.disks.append((done, bytes_below([self.directory])))
        if done // BATCHES_A_LOOK % 10 == 0:
            mib = sum(each.kib for each in held.values()) / 1024
            print(f"{seconds:6.0f} s, {done} batches: {mib:.0f} MiB, {self.disks[-1]}", flush=True)

    def untrue(self) -> dict[str, tuple[object, object]]:
        """Lag by the daemon and by the brokers where they differ, once nobody commits any more."""

        def differences() -> dict[str, tuple[object, object]]:
            both = {group: (self.shown(group), self.traffic.lag_of(group)) for group in self.groups}
            return {group: each for group, each in both.items() if each[0] != each[1]}

        with suppress(AssertionError):
            wait_until("the truth", lambda: not differences(), TRUTH_SECONDS, pause=5.0)
        return differences()

    @property
    def groups(self) -> list[str]:
        return [*self.traffic.reads]

    def shown(self, group: str) -> dict[int, int] | str:
        try:
            url = f"http://127.0.0.1:{self.port}/api/v1/offsets/{group}"
            with urlopen(url, timeout=30) as answer:
                rows = json.load(answer)["offsets"]
        except HTTPError as error:
            return {} if error.code == HTTPStatus.NOT_FOUND else str(error)  # never committed
        except URLError as error:
            return str(error)
        return {row["partition"]: row["lag"] for row in rows if row["current_offset"] is not None}

    def report(self) -> bool:
        """Print all; return whether nothing is wrong."""
        print(self.watch, flush=True)
        print(f"bytes below the directories, by batches: {self.disks[:: len(self.disks) // 8 + 1]}")
        print(f"topics made: {self.traffic.churned}; commits and the like that failed, by error:")
        print(f"  {dict(self.traffic.failures)}")
        logged = Counter(
            (name, str(entry["level"]), str(entry["event"]))
            for name, daemon in self.daemons.items()
            for entry in daemon.events
            if entry.get("level") in {"warning", "error"}
        )
        for (name, level, event), count in sorted(logged.items()):
            print(f"{name}: {count} x {level} {event}")
        leaks, untrue = self.watch.leaks(besides=FEW), self.untrue()
        print(f"leaks: {leaks or 'none'}")
        print(f"lag by the daemon and by the brokers, where they differ: {untrue or 'nowhere'}")
        # librdkafka calls it an error that a broker which restarts refuses connections.
        failed = [
            event for _, level, event in logged if level == "error" and event != "library.log"
        ]
        return not leaks and not untrue and not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=7_000, help="about two a second")
    options = parser.parse_args()
    if options.batches < LEAST_BATCHES:
        parser.error(f"--batches: at least {LEAST_BATCHES}, or there is nothing to compare")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        cluster = stack.enter_context(Cluster.start(3, jvm_options=HEAP))
        soak = Soak(cluster, directory, stack, drawn_seed())
        soak.run(options.batches)
        soak.traffic.stop()
        kept = soak.report()
    print("kept" if kept else "BROKEN")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

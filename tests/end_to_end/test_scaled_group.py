"""A group of consumer processes that is scaled by what it wants, through a short day of load."""

import threading
import time
import urllib.request

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.managed_consumers import committed
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.paced_consumer import PacedConsumer
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(600)]

PREFIX, GROUP, TOPIC, PARTITIONS = "scaled.", "scaled-orders", "scaled-placed", 9
SPEED = 50.0
"""Records a second of one consumer."""
NIGHT, NOON = 20.0, 200.0
"""Records that arrive per second: for one consumer, and for five with a fifth in reserve."""
NIGHT_SECONDS, NOON_SECONDS = 20.0, 60.0
FOLLOW_SECONDS = 300.0
"""The longest wait for the replicas to follow the load."""
LOOK_SECONDS = 2.0
"""Seconds between two looks of the autoscaler, as KEDA's `pollingInterval`."""
SETTINGS = (
    f"prefix={PREFIX}",
    "metrics.listen=127.0.0.1:0",
    "scaling.drain_within=20",
    "scaling.scale_down_after=15",
    "scaling.max_members=8",
)


class Load(threading.Thread):
    """Producer of a day: night, noon, night, until `stop`."""

    def __init__(self, bootstrap):
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self.produced = 0
        self.begun = time.monotonic()
        self.stopping = threading.Event()
        self.noon_is_over = threading.Event()
        self.start()

    def rate(self, second):
        if second >= NIGHT_SECONDS + NOON_SECONDS:
            self.noon_is_over.set()
        return NIGHT if second < NIGHT_SECONDS or self.noon_is_over.is_set() else NOON

    def run(self):
        due = 0.0
        former = time.monotonic()
        while not self.stopping.wait(0.1):
            now = time.monotonic()
            due += (now - former) * self.rate(now - self.begun)
            former = now
            while due >= 1:
                due -= 1
                # Uneven: the first partitions get more than the last ones.
                number = min(self.produced % PARTITIONS, self.produced % 7)
                self.producer.produce(TOPIC, partition=number, value=b"x" * 100)
                self.produced += 1
            self.producer.poll(0)
        assert self.producer.flush(30) == 0


class Autoscaler:
    """Follows the metric as KEDA does: as many replicas as it says, the last ones stop first."""

    def __init__(self, bootstrap, address):
        self.bootstrap, self.address = bootstrap, address
        self.running = []
        self.handled_before = 0
        self.wanted = []

    def scrape(self):
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    if (
                        sample.name == "levelwind_group_members_wanted"
                        and sample.labels["group"] == GROUP
                    ):
                        return int(sample.value)
        return None

    def look(self):
        wanted = self.scrape()
        if wanted is not None:
            self.wanted.append(wanted)
            self.scale(wanted)

    def scale(self, replicas):
        while len(self.running) < replicas:
            name = f"orders-{len(self.running)}"
            self.running.append(PacedConsumer(self.bootstrap, PREFIX, GROUP, TOPIC, name, SPEED))
        while len(self.running) > replicas:
            gone = self.running.pop()
            assert gone.stop() == 0, gone.noise
            self.handled_before += gone.handled

    @property
    def handled(self):
        return self.handled_before + sum(consumer.handled for consumer in self.running)


def test_a_group_follows_a_day_of_load_up_and_down_and_reads_everything(cluster, tmp_path):
    create_topics({"bootstrap.servers": cluster.bootstrap}, NewTopic(TOPIC, PARTITIONS, 1))
    daemon = DaemonProcess(cluster.bootstrap, tmp_path / "state", *SETTINGS, observed=TOPIC)
    scaler, load = None, None
    try:
        listening = daemon.wait_for("the metrics", lambda: daemon.logged("metrics.listening"))
        scaler = Autoscaler(cluster.bootstrap, listening[0]["address"])
        scaler.scale(1)
        daemon.wait_for("the pipeline", lambda: daemon.logged("pipeline.caught_up"), within=300)
        load = Load(cluster.bootstrap)

        def follow(what, holds):
            def looked():
                scaler.look()
                return holds()

            wait_until(
                what,
                looked,
                FOLLOW_SECONDS,
                pause=LOOK_SECONDS,
                shown=lambda: (scaler.wanted, daemon.tail()),
            )

        follow("more replicas", lambda: len(scaler.running) >= 4)
        follow("end of noon", load.noon_is_over.is_set)
        peak = max(scaler.wanted)
        follow("fewer replicas", lambda: len(scaler.running) <= 2)
        load.stopping.set()
        load.join(30)
        follow(
            "commit of everything",
            lambda: sum(committed(cluster, GROUP, TOPIC, PARTITIONS).values()) == load.produced,
        )
    finally:
        if load is not None:
            load.stopping.set()
        if scaler is not None:
            scaler.scale(0)
        daemon.stop()
    print(f"wanted {scaler.wanted}; {load.produced} records, {scaler.handled} handled")
    assert scaler.wanted[0] == 1
    assert 4 <= peak <= 8
    # At least once: a hand-over repeats no more than what was not committed yet.
    assert load.produced <= scaler.handled <= 1.05 * load.produced + 200

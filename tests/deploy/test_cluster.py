"""The embedded cluster, with real brokers."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.deploy import cluster as clusters
from levelwind.deploy.cluster import Cluster, ClusterError
from levelwind.deploy.ports import is_free
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

QUIET = {"log_level": 0}


def racks_of(cluster):
    """Racks of the brokers that the cluster lists.

    Each attempt has a client of its own: an old one may wait for a lost broker.
    """

    def described():
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap} | QUIET)
        with contextlib.suppress(KafkaException):
            return {
                node.id: node.rack
                for node in admin.describe_cluster(request_timeout=5).result().nodes
            }

    return wait_until("description of the cluster", described)


def brokers_in(directory):
    """The brokers' processes of a cluster's directory, whoever started them."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if "kafka.Kafka" in process.cmdline() and any(
                str(directory) in word for word in process.cmdline()
            ):
                found.append(process)
    return found


def write(cluster, topic, values):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"} | QUIET)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def read(cluster, topic, count):
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # the next life reads all again
        }
        | QUIET
    )
    consumer.subscribe([topic])
    values = set()
    wait_until(
        f"{count} records",
        lambda: (
            values.update(m.value() for m in consumer.consume(100, 1.0)) or len(values) >= count
        ),
    )
    consumer.close()
    return values


def create(cluster, topic, **settings):
    create_topics({"bootstrap.servers": cluster.bootstrap}, NewTopic(topic, **settings))


def test_every_broker_has_its_rack(cluster):
    assert racks_of(cluster) == {1: "a", 2: "b", 3: "c"}


def test_a_topics_replicas_show_their_racks(cluster, fresh):
    topic = fresh("racks")
    create(cluster, topic, num_partitions=3, replication_factor=3)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def racks():
        # A broker may not have heard of the topic yet: it knows none, or none of its replicas.
        with contextlib.suppress(KafkaException):
            (answer,) = admin.describe_topics(TopicCollection([topic])).values()
            return [{node.rack for node in part.replicas} for part in answer.result().partitions]

    wait_until("racks of all replicas", lambda: racks() == [{"a", "b", "c"}] * 3)


def test_no_topic_is_made_by_asking_for_it(cluster, fresh):
    topic = fresh("nobody-made-this")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    assert admin.list_topics(topic, timeout=30).topics[topic].error is not None
    assert topic not in admin.list_topics(timeout=30).topics


def test_every_broker_writes_a_log(cluster):
    for node in cluster.nodes:
        assert "started" in cluster.log(node.id).read_text()


VALUES = {str(number).encode() for number in range(1000)}


@dataclass(frozen=True)
class Lives:
    """One directory's cluster in three lives: its parent is killed, then it is stopped twice."""

    brokers: list
    """Processes of the first life while its parent ran."""
    ports: list
    """The broker's port in each life; another program has the first one in the second life."""
    running: frozenset
    """The brokers of the second life."""
    found: list
    """The records that the second and the third life found."""
    refusal: str
    """The error of a further start during the second life."""
    left: list
    """Processes that the second and the third life left behind."""
    racks: dict
    """The brokers' racks in the third life."""


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lives")
    found, left = [], []
    with parent_of_a_cluster(directory) as parent:
        port = int(parent.stdout.readline())
        first = SimpleNamespace(bootstrap=f"127.0.0.1:{port}")
        create(first, "kept", num_partitions=4, replication_factor=1)
        write(first, "kept", VALUES)
        brokers = brokers_in(directory)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        with squatting(port):
            with Cluster.start(
                1, directory=directory
            ) as second:  # waits for the first one's guards
                found.append(read(second, "kept", len(VALUES)))
                running, refusal = second.running, refusal_of(directory)
            left.append(brokers_in(directory))
        with Cluster.start(1, directory=directory, racks=["x"]) as third:
            racks = racks_of(third)
            found.append(read(third, "kept", len(VALUES)))
        left.append(brokers_in(directory))
    ports = [port, second.nodes[0].port, third.nodes[0].port]
    return Lives(brokers, ports, running, found, refusal, left, racks)


@contextlib.contextmanager
def parent_of_a_cluster(directory):
    """A process that starts a cluster and prints its broker's port."""
    source = f"""
        import time
        from pathlib import Path
        from levelwind.deploy.cluster import Cluster
        cluster = Cluster.start(1, directory=Path({str(directory)!r}))
        print(cluster.nodes[0].port, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE
    ) as parent:
        try:
            yield parent
        finally:
            parent.kill()


@contextlib.contextmanager
def squatting(port):
    """Another program at a port, once that is free."""
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def bound():
            with contextlib.suppress(OSError):
                squatter.bind(("127.0.0.1", port))
                return True

        wait_until(f"end of the broker at {port}", bound)
        squatter.listen()
        yield


def refusal_of(directory):
    """What a start in a directory whose cluster runs says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters.guard, "GRACE_SECONDS", 0.1)
        with pytest.raises(ClusterError) as refused:
            Cluster.start(1, directory=directory)
    return str(refused.value)


def test_a_second_start_finds_what_the_first_one_kept(lives):
    assert lives.left[0] == []
    assert lives.ports[2] == lives.ports[1]
    assert lives.racks == {1: "x"}
    assert lives.found[1] == VALUES


def test_a_start_after_a_crash_finds_what_was_acknowledged_and_moves_to_ports_that_are_free(lives):
    assert lives.ports[1] != lives.ports[0]
    assert lives.found[0] == VALUES


def test_a_lost_broker_is_missed_and_comes_back_in_another_rack(tmp_path):
    with Cluster.start(directory=tmp_path) as cluster:
        cluster.kill(2)
        assert cluster.running == {1, 3}
        wait_until("loss of a broker", lambda: racks_of(cluster) == {1: "a", 3: "c"})
        cluster.start_broker(2, rack="d")
        assert racks_of(cluster) == {1: "a", 2: "d", 3: "c"}
        cluster.stop_broker(1)
        wait_until("stop of a broker", lambda: racks_of(cluster) == {2: "d", 3: "c"})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap} | QUIET)
        admin.create_topics([NewTopic("after", 1, 2)])["after"].result(60)
        with pytest.raises(ValueError, match="broker 3 runs already"):
            cluster.start_broker(3)


def test_nothing_is_left_when_the_parent_is_killed_and_its_directory_can_be_used_again(lives):
    assert len(lives.brokers) == 2  # the broker and its guard
    assert not any(process.is_running() for process in lives.brokers)
    assert lives.running == {1}
    assert lives.left == [[], []]


def test_one_directory_holds_one_cluster_at_a_time(lives):
    assert lives.refusal.startswith("a cluster already runs in ")


def test_a_directory_is_not_made_into_a_cluster_of_another_size(tmp_path):
    (tmp_path / "cluster.json").write_text(
        json.dumps([{"id": 1, "rack": "a", "port": 20001, "controller_port": 20002}])
    )
    with pytest.raises(ClusterError, match="holds a cluster of 1 brokers, not of 3"):
        Cluster.start(3, directory=tmp_path)


def test_a_setting_that_kafka_refuses_is_quoted(tmp_path):
    with pytest.raises(
        ClusterError, match=r"Invalid value many for configuration num\.io\.threads"
    ):
        Cluster.start(1, directory=tmp_path, settings={"num.io.threads": "many"})


def test_a_broker_that_fails_is_quoted(tmp_path):
    # The storage tool does not care for it, the broker does.
    settings = {"authorizer.class.name": "no.such.Authorizer"}
    with pytest.raises(
        ClusterError, match=r"(?s)broker 1 ended while starting.*no\.such\.Authorizer"
    ):
        Cluster.start(1, directory=tmp_path, settings=settings)
    assert not brokers_in(tmp_path)


@dataclass(frozen=True)
class Crowded:
    """A temporary cluster at whose port others were faster, while it ran and after its end."""

    taken: int
    """The port at which others were faster."""
    port: int
    racks: dict
    directory: Path
    existed: bool
    """Whether the directory existed while the cluster ran."""
    exists: bool
    left: list
    """Processes after the end."""
    free: bool
    """Whether the port is free after the end."""


@pytest.fixture(scope="module")
def crowded():
    with socket.socket() as squatter, pytest.MonkeyPatch.context() as patch:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        taken = squatter.getsockname()[1]
        good = clusters.free_ports()
        offers = iter([taken])
        patch.setattr(clusters, "free_ports", lambda: iter([*offers, next(good), next(good)]))
        with Cluster.start(1) as cluster:
            port, directory, racks = cluster.nodes[0].port, cluster.directory, racks_of(cluster)
            existed = directory.exists()
        return Crowded(
            taken,
            port,
            racks,
            directory,
            existed=existed,
            exists=directory.exists(),
            left=brokers_in(directory),
            free=is_free(port),
        )


def test_when_others_are_faster_at_a_port_the_start_takes_another(crowded):
    assert crowded.port != crowded.taken
    assert crowded.racks == {1: "a"}


def test_a_temporary_cluster_leaves_nothing_behind(crowded):
    assert crowded.existed
    assert not crowded.exists
    assert not crowded.left
    assert crowded.free

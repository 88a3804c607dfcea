"""The embedded cluster, with real brokers."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from deploy import cluster as clusters
from deploy.cluster import Cluster, ClusterError
from deploy.ports import is_free

pytestmark = pytest.mark.integration

QUIET = {"log_level": 0}


def eventually(condition, within=60.0):
    until = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < until, "not in time"
        time.sleep(0.05)
    return value


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

    return eventually(described)


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
        }
        | QUIET
    )
    consumer.subscribe([topic])
    values = set()
    eventually(
        lambda: values.update(m.value() for m in consumer.consume(100, 1.0)) or len(values) >= count
    )
    consumer.close()
    return values


def create(cluster, topic, **settings):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap} | QUIET)
    for done in admin.create_topics([NewTopic(topic, **settings)]).values():
        done.result()


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

    eventually(lambda: racks() == [{"a", "b", "c"}] * 3)


def test_no_topic_is_made_by_asking_for_it(cluster, fresh):
    topic = fresh("nobody-made-this")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    assert admin.list_topics(topic, timeout=30).topics[topic].error is not None
    assert topic not in admin.list_topics(timeout=30).topics


def test_every_broker_writes_a_log(cluster):
    for node in cluster.nodes:
        assert "started" in cluster.log(node.id).read_text()


def test_a_second_start_finds_what_the_first_one_kept(tmp_path):
    values = {str(i).encode() for i in range(1000)}
    with Cluster.start(1, directory=tmp_path) as first:
        create(first, "kept", num_partitions=4, replication_factor=1)
        write(first, "kept", values)
        bootstrap = first.bootstrap
    assert not brokers_in(tmp_path)
    with Cluster.start(1, directory=tmp_path, racks=["x"]) as second:
        assert second.bootstrap == bootstrap
        assert racks_of(second) == {1: "x"}
        assert read(second, "kept", len(values)) == values


def test_a_start_after_a_crash_finds_what_was_acknowledged_and_moves_to_ports_that_are_free(
    tmp_path,
):
    values = {str(i).encode() for i in range(1000)}
    first = Cluster.start(1, directory=tmp_path)
    create(first, "kept", num_partitions=4, replication_factor=1)
    write(first, "kept", values)
    first.kill(1)
    first.stop()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", first.nodes[0].port))
        squatter.listen()
        with Cluster.start(1, directory=tmp_path) as second:
            assert first.nodes[0].port != second.nodes[0].port
            assert read(second, "kept", len(values)) == values


def test_a_lost_broker_is_missed_and_comes_back_in_another_rack(tmp_path):
    with Cluster.start(directory=tmp_path) as cluster:
        cluster.kill(2)
        assert cluster.running == {1, 3}
        eventually(lambda: racks_of(cluster) == {1: "a", 3: "c"})
        cluster.start_broker(2, rack="d")
        assert racks_of(cluster) == {1: "a", 2: "d", 3: "c"}
        cluster.stop_broker(1)
        eventually(lambda: racks_of(cluster) == {2: "d", 3: "c"})
        create(cluster, "after", num_partitions=1, replication_factor=2)
        with pytest.raises(ValueError, match="broker 3 runs already"):
            cluster.start_broker(3)


def test_nothing_is_left_when_the_parent_is_killed_and_its_directory_can_be_used_again(tmp_path):
    source = f"""
        import time
        from pathlib import Path
        from deploy.cluster import Cluster
        cluster = Cluster.start(1, directory=Path({str(tmp_path)!r}))
        print("ready", flush=True)
        time.sleep(600)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE
    )
    try:
        assert parent.stdout.readline() == b"ready\n"
        assert len(brokers_in(tmp_path)) == 2  # the broker and its guard
        parent.send_signal(signal.SIGKILL)
        with Cluster.start(
            1, directory=tmp_path
        ) as cluster:  # waits for the guards of the other to be gone
            assert cluster.running == {1}
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    assert not brokers_in(tmp_path)


def test_one_directory_holds_one_cluster_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters.guard, "GRACE_SECONDS", 0.1)
    with (
        Cluster.start(1, directory=tmp_path),
        pytest.raises(ClusterError, match=r"a cluster already runs in "),
    ):
        Cluster.start(1, directory=tmp_path)


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


def test_when_others_are_faster_at_a_port_the_start_takes_another(tmp_path, monkeypatch):
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        taken = squatter.getsockname()[1]
        good = clusters.free_ports()
        offers = iter([taken])
        monkeypatch.setattr(clusters, "free_ports", lambda: iter([*offers, next(good), next(good)]))
        with Cluster.start(1, directory=tmp_path) as cluster:
            assert cluster.nodes[0].port != taken
            assert racks_of(cluster) == {1: "a"}


def test_a_temporary_cluster_leaves_nothing_behind():
    with Cluster.start(1) as cluster:
        directory, port = cluster.directory, cluster.nodes[0].port
        assert directory.exists()
    assert not Path(directory).exists()
    assert not brokers_in(directory)
    assert is_free(port)

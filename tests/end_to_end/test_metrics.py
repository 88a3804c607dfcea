"""A daemon's metrics while it works: observer, pipeline and control in one scrape."""

import urllib.request

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from deploy.cluster import Cluster
from levelwind_testing.processes.daemon_process import DaemonProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_one_scrape_tells_of_observer_pipeline_and_control_and_forgets_a_group_that_is_gone(
    tmp_path,
):
    with Cluster.start(1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
        daemon = DaemonProcess(cluster.bootstrap, tmp_path, "metrics.listen=127.0.0.1:0")
        try:
            address = daemon.wait_for("the metrics", lambda: daemon.logged("metrics.listening"))[0][
                "address"
            ]
            reader = Consumer(
                {"bootstrap.servers": cluster.bootstrap, "group.id": "watched", "log_level": 0}
            )
            reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
            reader.close()
            lag = ("levelwind_group_lag_records", "watched")
            daemon.wait_for("the group's lag", lambda: lag in scrape(address), within=240)
            # A batch is counted when it is over; its records may be read before.
            counted = ("levelwind_pipeline_records_total",)
            daemon.wait_for("the batch", lambda: scrape(address)[counted] >= 1)
            found = scrape(address)
            assert found["levelwind_leading",] == found["levelwind_pipeline_up",] == 1
            assert found[lag] == 0
            assert found["levelwind_pipeline_batch_seconds_count",] >= 1
            assert found["levelwind_observer_tick_seconds_count", "offsets"] >= 1
            assert found["levelwind_observer_tick_seconds_count", "metadata"] >= 1
            admin.delete_consumer_groups(["watched"])["watched"].result(30)
            daemon.wait_for("the group to go", lambda: lag not in scrape(address), within=240)
        finally:
            daemon.stop()

"""Client quotas, as brokers hold clients to them: said, and nothing is lost."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from levelwind.daemon.kafka import clients
from levelwind.daemon.telemetry.throttle import Throttle
from levelwind_testing.kafka.kafka_tool import kafka_tool
from levelwind_testing.kafka.managed_consumers import poll_until, produce, spread
from levelwind_testing.waiting import wait_until

CONFIG_TOOL = "kafka.admin.ConfigCommand"
RECORDS = [f"{number:02d}" * 5_000 for number in range(48)]
"""48 records of 10 kB: 160 kB on each of three brokers."""
BYTE_RATE = 14_000
"""Bytes a second; brokers count them in a window of eleven seconds, so that 150 kB are free."""
THROTTLED = "kafka.throttled"


def limit(bootstrap: str, client_id: str) -> None:
    """Hold the fetches of a client id to a rate of bytes."""
    done = subprocess.run(
        kafka_tool(
            CONFIG_TOOL,
            bootstrap,
            *("--alter", "--add-config", f"consumer_byte_rate={BYTE_RATE}"),
            *("--entity-type", "clients", "--entity-name", client_id),
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.integration
def test_a_member_that_is_throttled_says_so_keeps_its_partitions_and_reads_all(
    cluster, topic, plan, make_consumer, caplog, fresh
):
    client_id = fresh("slow")
    limit(cluster.bootstrap, client_id)
    planner = plan(spread(topic))
    produce(cluster, topic, [(number % 6, record) for number, record in enumerate(RECORDS)])
    heard = []
    own = {"client.id": client_id, "fetch.message.max.bytes": 20_000, "throttle_cb": heard.append}
    consumer = make_consumer(planner, "i0", config=own)
    seen = poll_until(consumer, lambda seen: len(seen) == len(RECORDS))
    assert sorted(seen) == sorted(RECORDS)
    wait_until("delay", lambda: [consumer.poll(0.1), "member.throttled" in caplog.text][1])
    assert "member.lost" not in caplog.text
    assert heard, "the application's own callback is called as well"


@pytest.mark.integration
def test_a_throttled_client_of_the_daemon_names_the_broker(cluster, topic, fresh, monkeypatch):
    client_id = fresh("slow")
    limit(cluster.bootstrap, client_id)
    monkeypatch.setattr(clients, "_throttled", Throttle(interval=600))
    produce(cluster, topic, [(number % 6, record) for number, record in enumerate(RECORDS)])
    config = {"bootstrap.servers": cluster.bootstrap, "client.id": client_id}
    reader = clients.consumer(
        config | {"fetch.message.max.bytes": 20_000},
        {"group.id": fresh("g"), "auto.offset.reset": "earliest", "enable.auto.commit": False},
    )
    reader.subscribe([topic])
    with capture_logs() as logs:
        wait_until(
            "delay",
            lambda: [reader.poll(0.1), [line for line in logs if line["event"] == THROTTLED]][1],
        )
    reader.close()
    line = next(line for line in logs if line["event"] == THROTTLED)
    assert line["log_level"] == "warning"
    assert line["seconds"] > 0
    assert line["broker"] in {1, 2, 3}


@pytest.mark.parametrize(
    ("delays", "lines"),
    [([(1, 0.0)], 0), ([(1, 0.5), (1, 0.7)], 1), ([(1, 0.5), (1, 0.0), (2, 0.5)], 2)],
)
def test_each_broker_is_named_once_in_ten_minutes_and_the_end_of_a_delay_is_none(
    delays, lines, monkeypatch
):
    monkeypatch.setattr(clients, "_throttled", Throttle(interval=600))
    with capture_logs() as logs:
        for broker, seconds in delays:
            clients.log_throttled(SimpleNamespace(broker_id=broker, throttle_time=seconds))
    assert len(logs) == lines

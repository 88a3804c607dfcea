"""`levelwind record`, and that `levelwind simulate` takes what it writes."""

import json
import threading

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from levelwind.assignors.protocol.records import encode, encode_key
from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import load
from levelwind.daemon.inspection.record_lag import Recording, record_lag, trace_line
from levelwind.daemon.simulation.trace import read_trace
from levelwind_testing import records


def lag(at, *ends, group="orders", topic="placed"):
    racks = (("a",),) * len(ends)
    return records.lag(*(0,) * len(ends), group=group, topic=topic, at=at, ends=ends, racks=racks)


def test_a_line_is_what_the_simulation_reads():
    trace = read_trace(map(trace_line, [lag(1_000, 10, 0), lag(6_000, 30, 0)]))
    assert trace.ends == {"placed": {0: [(1_000, 0), (6_000, 20)], 1: [(1_000, 0), (6_000, 0)]}}
    assert trace.racks == {"placed": [(1_000, (("a",), ("a",)))]}


def test_a_recording_says_what_it_is():
    recording = Recording()
    assert recording.text == "no sample of lag"
    recording.note(lag(60_000, 1, group="paid"))
    assert recording.text == "1 sample of lag over 0.0 min, of paid"
    recording.note(lag(0, 1))
    assert recording.text == "2 samples of lag over 1.0 min, of orders, paid"


@pytest.fixture
def settings(topics, client_config):
    return load(
        overrides={"bootstrap": client_config["bootstrap.servers"], "prefix": topics.prefix}
    )


@pytest.fixture
def publish(topics, client_config):
    def publish(*records):
        producer = Producer(client_config)
        for key, value in records:
            producer.produce(topics.lag, value, key, partition=0)
        assert producer.flush(20) == 0

    return publish


@pytest.mark.integration
def test_what_stands_in_the_topic_is_recorded_and_simulated(settings, publish, tmp_path):
    publish(
        encode(lag(1_000, 10)),
        encode(lag(2_000, 10, group="other")),
        (encode_key(("lag", "orders", "gone")), None),
        (b"no key of ours", b"{}"),
        encode(lag(601_000, 6_010)),
    )
    file = tmp_path / "orders.jsonl"
    options = (
        "--bootstrap",
        settings.bootstrap,
        "--set",
        f"prefix={settings.prefix}",
        "--seconds",
        "0",
    )
    result = CliRunner().invoke(main, ["record", *options, "--group", "orders", str(file)])
    assert result.exit_code == 0, result.output
    assert "2 samples of lag over 10.0 min, of orders" in result.output
    assert [json.loads(line)["value"]["end"] for line in file.read_text().splitlines()] == [
        [10],
        [6_010],
    ]
    result = CliRunner().invoke(
        main,
        [
            "simulate",
            "--trace",
            str(file),
            "--members",
            "2",
            "--strategy",
            "range",
            "--format",
            "json",
        ],
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["strategies"][0]["arrived"] == 6_000
    result = CliRunner().invoke(
        main, ["record", *options, "--group", "ordres", str(tmp_path / "none")]
    )
    assert result.exit_code == 6
    assert "no lag of group 'ordres'" in result.output


@pytest.mark.integration
def test_what_is_published_meanwhile_is_recorded_until_it_is_stopped(settings, publish, tmp_path):
    publish(encode(lag(1_000, 10)))
    stop, first_sample = threading.Event(), threading.Event()
    path = tmp_path / "all.jsonl"
    recordings = []

    def on_progress(recording):
        if recording.samples["orders"] == 1:
            first_sample.set()
        if recording.samples["orders"] == 2:
            stop.set()

    def run():
        with path.open("wb") as file:
            recordings.append(
                record_lag(settings, None, file, seconds=None, stop=stop, on_progress=on_progress)
            )

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert first_sample.wait(30)
        assert len(path.read_bytes().splitlines()) == 1  # written at once
        publish(encode(lag(5_000, 20)))
        assert stop.wait(30)
    finally:
        stop.set()
        thread.join(30)
    assert recordings[0].samples == {"orders": 2}
    assert len(path.read_bytes().splitlines()) == 2

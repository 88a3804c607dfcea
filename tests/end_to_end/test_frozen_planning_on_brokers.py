"""Planning freezes on real brokers that go away, on old lag, and when the clock jumps."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from assignors.protocol.topics import Topics
from daemon.kafka.record_writer import outgoing, write
from deploy.cluster import Cluster
from levelwind_testing.processes import shifted_clock
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.records import lag

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

LAG_MAX_AGE_SECONDS = 6
LAYOUT_MAX_AGE_SECONDS = 4


class Observed:
    """A daemon on brokers and a clock of its own."""

    def __init__(self, cluster, directory):
        self.cluster = cluster
        self.offsets = directory / "offset"
        self.awaited = Counter()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result(30)
        self.daemon = DaemonProcess(
            cluster.bootstrap,
            directory / "state",
            "pipeline.run=elsewhere",
            "metrics.listen=127.0.0.1:0",
            f"control.lag_max_age={LAG_MAX_AGE_SECONDS}",
            f"control.freeze.metadata_max_age={LAYOUT_MAX_AGE_SECONDS}",
            "control.freeze.clock_rest=3",
            program=(shifted_clock.__file__, str(self.offsets)),
        )

    def wait(self, event, reason, within=40.0):
        """Wait for the next of these events, logged already or not; print how long that took."""
        begun, before = time.monotonic(), self.awaited[event, reason]
        found = self.daemon.wait_for(
            f"{event} {reason}",
            lambda: self.daemon.logged(event, reason=reason)[before:],
            within,
        )[0]
        self.awaited[event, reason] += 1
        print(f"{event} {reason} after {time.monotonic() - begun:.1f} s: {found}")
        return found

    def metric(self, reason):
        address = self.daemon.logged("metrics.listening")[0]["address"]
        text = urlopen(f"http://{address}/metrics", timeout=5).read().decode()
        series = f'levelwind_frozen{{reason="{reason}"}}'
        [line] = [line for line in text.splitlines() if line.startswith(series)]
        return float(line.rpartition(" ")[2])

    def publish_lag(self):
        record = lag(*[0] * 6, group="g", topic="orders", at=round(time.time() * 1000))
        records = outgoing(Topics(), "lag", record, partitions=4)
        write({"bootstrap.servers": self.cluster.bootstrap}, records, timeout=10)


@pytest.fixture
def observed(tmp_path):
    with Cluster.start() as cluster:
        observed = Observed(cluster, tmp_path)
        try:
            observed.daemon.wait_for("leader", lambda: observed.daemon.logged("daemon.leading"))
            yield observed
        finally:
            observed.daemon.stop()


def test_each_reason_freezes_and_thaws_with_the_same_leader(observed):
    daemon = observed.daemon
    observed.publish_lag()
    time.sleep(2)
    assert daemon.logged("planning.frozen") == []

    observed.wait("planning.frozen", "lag")
    assert observed.metric("lag") == 1
    observed.publish_lag()
    observed.wait("planning.thawed", "lag")
    assert observed.metric("lag") == 0

    observed.offsets.write_text("3600")
    assert "3600" in observed.wait("planning.frozen", "clock")["detail"]
    observed.wait("planning.thawed", "clock")

    numbers = [node.id for node in observed.cluster.nodes]
    for number in numbers[:2]:
        observed.cluster.kill(number)
    detail = observed.wait("planning.frozen", "brokers")["detail"]
    assert detail == "2 of 3 brokers do not answer"
    assert observed.metric("brokers") == 1
    observed.cluster.kill(numbers[2])
    observed.wait("planning.frozen", "metadata")
    with ThreadPoolExecutor(3) as starters:  # none of them is ready before two run
        list(starters.map(observed.cluster.start_broker, numbers))
    observed.wait("planning.thawed", "metadata", 90)
    observed.wait("planning.thawed", "brokers", 60)
    time.sleep(8)
    assert daemon.logged("daemon.failed") == []
    leading = len(daemon.logged("daemon.leading"))
    print(f"terms: {leading}, deposed: {[e['reason'] for e in daemon.logged('daemon.deposed')]}")

"""Planning freezes on real brokers that go away, on old lag, and when the clock jumps."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import NewTopic

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.kafka.record_writer import outgoing, write
from levelwind.daemon.wall_clock import now_ms
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.processes import shifted_clock
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.records import lag

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

LAG_MAX_AGE_SECONDS = 6
REQUEST_SECONDS = 4
LAYOUT_MAX_AGE_SECONDS = 7
"""Brokers that stand still for three seconds freeze nothing."""
JUMP_SECONDS = 3600


class Observed:
    """A daemon on brokers and a clock of its own."""

    def __init__(self, cluster, directory):
        self.cluster = cluster
        self.offsets = directory / "offset"
        self.awaited = Counter()
        create_topics({"bootstrap.servers": cluster.bootstrap}, NewTopic("orders", 6, 3))
        self.daemon = DaemonProcess(
            cluster.bootstrap,
            directory / "state",
            "pipeline.run=elsewhere",
            "metrics.listen=127.0.0.1:0",
            f"observer.timeout={REQUEST_SECONDS}",
            f"control.lag_max_age={LAG_MAX_AGE_SECONDS}",
            f"control.freeze.metadata_max_age={LAYOUT_MAX_AGE_SECONDS}",
            "control.freeze.clock_rest=3",
            program=(shifted_clock.__file__, str(self.offsets)),
        )

    def wait(self, event, reason):
        """Wait for the next of these events, logged already or not."""
        before = self.awaited[event, reason]
        found = self.daemon.wait_for(
            f"{event} {reason}", lambda: self.daemon.logged(event, reason=reason)[before:]
        )[0]
        self.awaited[event, reason] += 1
        return found

    def metric(self, reason):
        """What the metrics say of a reason."""
        return self.metrics()[reason]

    def metrics(self):
        """The value of each reason."""
        address = self.daemon.logged("metrics.listening")[0]["address"]
        text = urlopen(f"http://{address}/metrics", timeout=5).read().decode()
        found = re.findall(r'^levelwind_frozen{reason="(\w+)"} (\S+)$', text, re.MULTILINE)
        return {reason: float(value) for reason, value in found}

    def publish_lag(self, ahead=0):
        """Publish a sample of lag, by a clock so many seconds ahead; return its time."""
        at = now_ms() + 1000 * ahead
        record = lag(*[0] * 6, group="g", topic="orders", at=at)
        records = outgoing(Topics(), "lag", record, partitions=4)
        write({"bootstrap.servers": self.cluster.bootstrap}, records, timeout=30)
        return at


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
    published_at = observed.publish_lag()
    frozen = observed.wait("planning.frozen", "lag")
    assert daemon.logged("planning.frozen", reason="lag") == [frozen]
    daemon.wait_for("no other reason", lambda: sum(observed.metrics().values()) == 1)
    age_ms = 1000 * datetime.fromisoformat(frozen["time"]).timestamp() - published_at
    assert age_ms > 1000 * LAG_MAX_AGE_SECONDS
    assert observed.metric("lag") == 1
    observed.publish_lag()
    observed.wait("planning.thawed", "lag")
    assert observed.metric("lag") == 0

    observed.offsets.write_text(str(JUMP_SECONDS))
    assert str(JUMP_SECONDS) in observed.wait("planning.frozen", "clock")["detail"]
    observed.wait("planning.thawed", "clock")
    observed.wait("planning.frozen", "lag")

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
    observed.wait("planning.thawed", "metadata")
    observed.wait("planning.thawed", "brokers")

    # It goes on as before: lag thaws, and freezes once it is old.
    thawed = len(daemon.logged("planning.thawed", reason="lag"))
    frozen = len(daemon.logged("planning.frozen", reason="lag"))
    observed.publish_lag(ahead=JUMP_SECONDS)
    daemon.wait_for("thaw", lambda: daemon.logged("planning.thawed", reason="lag")[thawed:])
    daemon.wait_for("freeze", lambda: daemon.logged("planning.frozen", reason="lag")[frozen:])
    assert daemon.logged("daemon.failed") == []
    assert daemon.child.poll() is None

"""The units' own command lines, confined as the units and the images confine them."""

import urllib.error
import urllib.request
from contextlib import closing, suppress

import pytest
from confluent_kafka.admin import NewTopic

from levelwind.deploy.ports import free_ports
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.manifests import SYSTEMD, unit_options, words_of
from levelwind_testing.processes.confined import ROOT, ConfinedProcess, missing
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.rare,
    pytest.mark.timeout(900),
    pytest.mark.skipif(missing() is not None, reason=f"a confined process needs {missing()}"),
]

BATCH_SECONDS = 400.0
"""How long the test waits for the first batch, before which Spark starts and compiles."""
PARTITIONS = 4


def wait_for(what, found, processes, within=GENEROUS_SECONDS):
    """Wait while all processes run."""

    def question():
        value = found()
        for process in processes:
            assert value or process.child.poll() is None, process.output()[-4000:]
        return value

    return wait_until(
        what,
        question,
        within,
        shown=lambda: "\n--\n".join(process.output()[-3000:] for process in processes),
    )


def status(url):
    """The status code of a probe; None while nobody answers."""
    with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
        try:
            with closing(urllib.request.urlopen(url, timeout=5)) as answer:  # noqa: S310 - loopback
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
    return None


@pytest.fixture
def confined(tmp_path, cluster, fresh):
    """Starts processes that are confined, with the settings beside the units."""
    started = []
    prefix = f"{fresh('lw')}."

    def start(command, **variables):
        scratch = tmp_path / f"scratch-{len(started)}"
        scratch.mkdir()
        process = ConfinedProcess(
            command,
            settings=SYSTEMD / "levelwind.toml",
            scratch=scratch,
            variables={"LEVELWIND_BOOTSTRAP": cluster.bootstrap, "LEVELWIND_PREFIX": prefix}
            | variables,
        )
        started.append(process)
        return process

    start.prefix = prefix
    yield start
    for process in reversed(started):
        process.child.kill()


def unit(name):
    """The command line of a unit, and its environment."""
    options = unit_options((SYSTEMD / name).read_text())
    variables = dict(word.split("=", 1) for line in options["Environment"] for word in line.split())
    return words_of(options["ExecStart"][0]), variables


def test_daemon_pipeline_and_consumer_work_as_another_user_on_a_read_only_root(
    confined, cluster, fresh
):
    topic, group = fresh("orders"), fresh("group")
    create_topics({"bootstrap.servers": cluster.bootstrap}, NewTopic(topic, PARTITIONS, 3))
    port = next(free_ports())
    command, variables = unit("levelwind.service")
    own = {"LEVELWIND_PIPELINE__RUN": "elsewhere", "LEVELWIND_HTTP__LISTEN": f"127.0.0.1:{port}"}
    daemon = confined(command, **variables, **own)
    command, variables = unit("levelwind-pipeline.service")
    pipeline = confined(command, **variables, LEVELWIND_LOG__FORMAT="json")
    consumer = confined(
        ["/opt/levelwind/bin/python", str(ROOT / "examples" / "consumer.py")],
        BOOTSTRAP=cluster.bootstrap,
        GROUP=group,
        TOPICS=topic,
        INSTANCE="one",
        RACK="a",
        PREFIX=confined.prefix,
    )
    processes = [daemon, pipeline, consumer]
    base = f"http://127.0.0.1:{port}"
    wait_for("life", lambda: status(f"{base}/healthz") == 200, processes)
    wait_for("readiness", lambda: status(f"{base}/readyz") == 200, processes)
    wait_for("leader", lambda: daemon.logged("daemon.leading"), processes)
    wait_for(
        "partitions of the consumer",
        lambda: (
            {f"{topic}/{n}" for n in range(PARTITIONS)}
            <= {word.strip(",") for line in consumer.noise for word in line.split()}
        ),
        processes,
    )
    wait_for("first batch", lambda: pipeline.logged("pipeline.caught_up"), processes, BATCH_SECONDS)
    with closing(urllib.request.urlopen(f"{base}/metrics", timeout=30)) as answer:  # noqa: S310 - loopback
        assert b"process_start_time_seconds" in answer.read()
    for process in processes:
        assert "Read-only file system" not in process.output(), process.output()
        assert "Permission denied" not in process.output(), process.output()
    for process in (consumer, daemon):
        process.child.ask_to_stop()
        assert process.child.process.wait(GENEROUS_SECONDS) == 0, process.output()[-3000:]

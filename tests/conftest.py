"""Fixtures of all tests: real brokers, one cluster for a whole run, also where processes share it.

The integration tests run in parallel processes (`make test`), of which one has the Spark session
and all tests that use it. The run's own process starts the brokers then, and the others connect.
"""

import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from levelwind.assignors.optimal.model import work_budget
from levelwind.deploy.broker_config import JVM_OPTIONS, QUICK_COMPILER, Node
from levelwind.deploy.cluster import Cluster
from levelwind.streaming.spark.settings import LATE_OPTIMIZATION
from levelwind_testing.examples import FULL, QUICK, TEST
from levelwind_testing.kafka import reassignment
from levelwind_testing.kafka.deleted_topics import delete_topics
from levelwind_testing.kafka.hung_brokers import hung_brokers
from levelwind_testing.kafka.kafka_oracle import Kafka
from levelwind_testing.kafka.patient_brokers import PATIENT

pytest_plugins = ["levelwind_testing.run_times"]

# No deadline: a test must not fail because the machine is busy. The examples are the same in each
# run, but those of `make soak`, which draws others and prints its seed.
for name, number, same in (("test", TEST, True), ("quick", QUICK, True), ("fresh", FULL, False)):
    settings.register_profile(
        name,
        max_examples=number,
        derandomize=same,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("test")

# A busy machine must not cut the search for a plan: then the plan would be another one.
work_budget.WALL_CLOCK_FACTOR = 1_000_000

# Commits that are to expire do so at once; those of the tests' clients live for a week.
PROMPT = {"offsets.retention.check.interval.ms": "1000"}

ROOMY = (
    *(option for option in JVM_OPTIONS if option != QUICK_COMPILER),
    *LATE_OPTIMIZATION,
    "-Xmx1g",
    "-Xmn192m",
)
"""JVM options of the brokers of a whole run.

The quick compiler alone makes slow code, and with Java's own thresholds the optimizing one took a
third of their CPU. At the end they have 3,400 partitions and more: a heap of 256 MB was too small.
In the young generation that Java begins with, each broker collected for 23 s of a run.
"""

CLUSTER = pytest.StashKey[Cluster]()
IN_USE = pytest.StashKey["Cluster | SharedBrokers"]()
"""The brokers that the tests of this process use."""
BROKERS = "brokers"
"""Key of the shared brokers in what the run's own process gives to each of its others."""

SPARK = "spark"
"""The fixture of the one Spark session, and the group of its tests: they stay in one process."""
SPARK_TESTS = (
    "tests/streaming/spark/test_query",
    "tests/streaming/spark/store/",
    "tests/streaming/test_against_consumers.py",
)
LONG = (
    "tests/end_to_end/",
    "tests/streaming/spark/test_faults.py",
    "tests/daemon/pipeline/test_process_death.py",
    "tests/daemon/proxy/test_proxied_faults.py",
)
"""Files of several minutes; the first are whole runs of daemon, pipeline and members."""


@dataclass(frozen=True, slots=True)
class SharedBrokers:
    """Brokers that another process started and will stop."""

    nodes: tuple[Node, ...]
    directory: Path

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` of the cluster."""
        return ",".join(node.address for node in self.nodes)

    def log(self, broker: int) -> Path:
        """Log file of a broker."""
        return self.directory / f"broker-{broker}" / "broker.log"


def process_group(nodeid: str) -> str:
    """The name of the tests that stay in one process with this one: its file, or the session's."""
    return SPARK if nodeid.startswith(SPARK_TESTS) else nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, the tests of the session and then the long files.

    Raises:
        pytest.UsageError: a test elsewhere would start a session of its own.
    """
    for item in items:
        needs = SPARK in getattr(item, "fixturenames", ()) and "tests/streaming/" in item.nodeid
        if needs and process_group(item.nodeid) != SPARK:
            raise pytest.UsageError(f"{item.nodeid} uses the Spark session: name it in SPARK_TESTS")
    items.sort(
        key=lambda item: (
            process_group(item.nodeid) != SPARK,
            not item.nodeid.startswith(LONG),
        )
    )


INTEGRATION = "mark.integration"
"""In the text of each file with integration tests."""
ALL_INTEGRATION = re.compile(rf"^pytestmark = .*{re.escape(INTEGRATION)}", re.MULTILINE)


def pytest_runtest_setup() -> None:
    """Undo what an earlier test's command has set in structlog: its level would hide events."""
    structlog = sys.modules.get("structlog")
    if structlog is not None:
        structlog.reset_defaults()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file that has no test for this run: its imports would cost each process time."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text()
    if is_integration_run(config):
        without = INTEGRATION not in text
    else:
        without = "not integration" in wanted(config) and bool(ALL_INTEGRATION.search(text))
    return without or None


class OneProcessForSpark(LoadScopeScheduling):
    """Gives each process the next file, and all tests of the Spark session to one."""

    def _split_scope(self, nodeid: str) -> str:
        return process_group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Schedule a parallel integration run; any other one is scheduled as usual."""
    return OneProcessForSpark(config, log) if is_integration_run(config) else None


def is_integration_run(config: pytest.Config) -> bool:
    """Whether only integration tests run, all or some of them."""
    return "integration" in wanted(config)


def wanted(config: pytest.Config) -> list[str]:
    """The markers that the run's tests have, and have not."""
    markers: list[str] = config.option.markexpr.split(" and ")
    return markers


def pytest_configure_node(node: Any) -> None:
    """Start the brokers before the first process of a parallel integration run, for all of them."""
    config = node.config
    if not is_integration_run(config):
        return
    if CLUSTER not in config.stash:
        cluster = Cluster.start(settings=PATIENT | PROMPT, jvm_options=ROOMY)
        config.stash[CLUSTER] = cluster
        config.add_cleanup(cluster.stop)
    cluster = config.stash[CLUSTER]
    node.workerinput[BROKERS] = {
        "nodes": [asdict(broker) for broker in cluster.nodes],
        "directory": str(cluster.directory),
    }


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster | SharedBrokers]:
    """Three brokers in racks a, b and c, for all tests of the run.

    Tests leave the brokers as they are and use names of their own.
    """
    shared = getattr(request.config, "workerinput", {}).get(BROKERS)
    brokers: AbstractContextManager[Cluster | SharedBrokers]
    if shared is None:
        brokers = Cluster.start(settings=PATIENT | PROMPT, jvm_options=ROOMY)
    else:
        nodes = tuple(Node(**broker) for broker in shared["nodes"])
        brokers = nullcontext(SharedBrokers(nodes, Path(shared["directory"])))
    with brokers as cluster:
        request.config.stash[IN_USE] = cluster
        yield cluster
        del request.config.stash[IN_USE]


@pytest.fixture(scope="session")
def java() -> Iterator[Kafka]:
    """Kafka's own classes, in one Java process for all tests of the session."""
    oracle = Kafka()
    yield oracle
    oracle.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport]:
    """Say of a failed test what hung brokers were doing then."""
    report = yield
    cluster = item.config.stash.get(IN_USE, None)
    if report.failed and cluster is not None:
        hung = hung_brokers(cluster.nodes, cluster.directory)
        report.sections.append(("hung brokers", hung or "none"))
    return report


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A unique name for a topic, group or instance: `fresh("orders")`.

    The names of a test are the same in each run, since they decide partitions and coordinators. Its
    topics are deleted after it.
    """
    mark, numbers = mark_of(request.node), count()
    return lambda stem: f"{stem}{mark}{next(numbers)}"


def mark_of(item: pytest.Item) -> str:
    """What all names of a test contain, and no others."""
    return f"-{crc32(item.nodeid.encode()):08x}-"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Delete a test's topics from the shared brokers once all of the test has ended.

    Each daemon of a later test observes all topics that there are: beside a thousand of them, it
    and the brokers take twice the CPU.
    """
    yield
    names = getattr(item, "fixturenames", ())
    cluster = item.config.stash.get(IN_USE, None)
    if cluster is not None and {"fresh", "cluster"} <= {*names}:
        delete_topics(cluster.bootstrap, mark_of(item))


@pytest.fixture
def reassign(
    cluster: Cluster | SharedBrokers,
) -> Callable[[str, Mapping[int, Sequence[int]]], None]:
    """Moves partitions to other brokers, and waits for it: `reassign("orders", {0: [2, 3]})`."""
    return lambda topic, placement: reassignment.reassign(cluster.bootstrap, topic, placement)

"""An embedded Kafka cluster on loopback: real brokers, in KRaft's combined mode, as children of this process.

Everything of a cluster is in one directory; a later start in the same directory finds its topics again. The brokers never
outlive this process (see `guard`).
"""

import contextlib
import fcntl
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy import guard
from deploy.broker import HOST, JVM_OPTIONS, Node, java_command, meta_properties, new_id, properties
from deploy.errors import SetupError
from deploy.jars import classpath
from deploy.java import java

RACKS = ("a", "b", "c")

# Below the range from which Linux and macOS take ports for outgoing connections: nobody else takes one of these while its
# broker is down for a moment.
_PORTS = range(20_000, 32_000)
_ATTEMPTS = 3
_READY_WITHIN = 90.0
_POLL = 0.05
_TAIL = 25


class ClusterError(SetupError):
    """The brokers did not start, or not in time; the message quotes their log."""


class _PortTakenError(ClusterError):
    """Somebody else was faster at one of the ports."""


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Brokers that run until `stop`, or the end of the `with` block. Made by `start`."""

    directory: Path
    nodes: tuple[Node, ...]
    settings: Mapping[str, str]
    jvm_options: Sequence[str]
    _java: Path
    _jars: tuple[Path, ...]
    _lock: int
    _temporary: bool
    _running: dict[int, guard.Guarded] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        brokers: int = 3,
        *,
        racks: Sequence[str] | None = RACKS,
        directory: Path | None = None,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = JVM_OPTIONS,
        ready_within: float = _READY_WITHIN,
        say: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Start brokers 1 to `brokers` and wait until all serve.

        Args:
            brokers: how many; kept when the directory holds a cluster already.
            racks: `broker.rack` of each, over again when there are fewer; None for none.
            directory: where all is kept; without one, a temporary directory that goes with the cluster.
            settings: Kafka's own settings for all brokers, above ours.
            jvm_options: the brokers' JVM options.
            ready_within: seconds until a start has failed.
            say: hears in a few words what the start is at.

        Raises:
            SetupError: where Java, a jar or a port is missing, or a broker fails; it says which.
        """
        runtime, jars = java(), classpath("brokers", say)
        temporary = directory is None
        home = (
            Path(tempfile.mkdtemp(prefix="levelwind-cluster-")) if directory is None else directory.absolute()
        )
        home.mkdir(parents=True, exist_ok=True)
        cluster = cls(
            directory=home,
            nodes=(),
            settings=settings or {},
            jvm_options=jvm_options,
            _java=runtime,
            _jars=jars,
            _lock=_locked(home),
            _temporary=temporary,
        )
        try:
            cluster._start(brokers, racks, time.monotonic() + ready_within, say)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` of this cluster: all its brokers."""
        return ",".join(node.address for node in self.nodes)

    @property
    def running(self) -> frozenset[int]:
        """The ids of the brokers whose process lives."""
        return frozenset(number for number, process in self._running.items() if process.poll() is None)

    def log(self, broker: int) -> Path:
        """A broker's log file."""
        return self.directory / f"broker-{broker}" / "broker.log"

    def stop(self) -> None:
        """End all brokers; those that take longer than the grace are killed, which costs them no data."""
        for process in self._running.values():
            if self._temporary:
                process.kill()
            else:
                process.ask_to_stop()
        for process in self._running.values():
            process.stop()
        self._running.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, broker: int) -> None:
        """End a broker as if its machine had been lost."""
        self._running.pop(broker).kill()

    def stop_broker(self, broker: int) -> None:
        """End a broker in order: it hands its leaderships over first."""
        self._running.pop(broker).stop()

    def start_broker(self, broker: int, *, ready_within: float = _READY_WITHIN) -> None:
        """Start a broker that was stopped or killed, and wait until the cluster counts it in again."""
        if broker in self.running:
            raise ValueError(f"broker {broker} runs")
        self._launch(next(node for node in self.nodes if node.id == broker))
        self._await_ready(time.monotonic() + ready_within)

    def _start(
        self, brokers: int, racks: Sequence[str] | None, until: float, say: Callable[[str], None]
    ) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            self.nodes = self._placed(brokers, racks)
            if not (self.directory / "broker-1" / "data" / "meta.properties").exists():
                say("formatting the brokers' storage")
                self._format()
            say(f"starting {len(self.nodes)} brokers")
            try:
                for node in self.nodes:
                    self._launch(node)
                self._await_ready(until)
            except _PortTakenError:
                for process in self._running.values():
                    process.kill()
                self._running.clear()
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _placed(self, brokers: int, racks: Sequence[str] | None) -> tuple[Node, ...]:
        """The nodes, at the ports of the last start where these are still free."""
        record = self.directory / "cluster.json"
        if record.exists():
            known = tuple(Node(**node) for node in json.loads(record.read_text()))
            if all(_is_free(port) for node in known for port in (node.port, node.controller_port)):
                return known
            ids_and_racks = [(node.id, node.rack) for node in known]
        else:
            ids_and_racks = [(i + 1, racks[i % len(racks)] if racks else None) for i in range(brokers)]
        ports = _free_ports()
        nodes = tuple(
            Node(id=number, rack=rack, port=next(ports), controller_port=next(ports))
            for number, rack in ids_and_racks
        )
        record.write_text(json.dumps([asdict(node) for node in nodes]))
        return nodes

    def _data(self, node: Node) -> Path:
        return self.directory / f"broker-{node.id}" / "data"

    def _configure(self, node: Node) -> Path:
        file = self.directory / f"broker-{node.id}" / "server.properties"
        file.parent.mkdir(exist_ok=True)
        file.write_text(properties(node, self.nodes, self._data(node), self.settings))
        return file

    def _format(self) -> None:
        """Format the first broker's storage with Kafka's tool; the others' differs in its ids alone, and is copied."""
        first, *others = self.nodes
        cluster_id = new_id()
        command = java_command(
            self._java, self._jars, self.jvm_options, "kafka.tools.StorageTool",
            "format", "--cluster-id", cluster_id, "--config", str(self._configure(first)),
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if done.returncode:
            raise ClusterError(f"the brokers' storage cannot be formatted:\n{done.stdout}{done.stderr}")
        for node in others:
            shutil.copytree(self._data(first), self._data(node), dirs_exist_ok=True)
            meta = meta_properties(node, cluster_id, directory_id=new_id())
            (self._data(node) / "meta.properties").write_text(meta)

    def _launch(self, node: Node) -> None:
        command = java_command(
            self._java, self._jars, self.jvm_options, "kafka.Kafka", str(self._configure(node))
        )
        with self.log(node.id).open("ab") as output:
            self._running[node.id] = guard.start(
                command, output=output, directory=self.directory, keep_open=[self._lock]
            )

    def _await_ready(self, until: float) -> None:
        """Wait until the cluster itself names all brokers that run."""
        admin: AdminClient | None = None
        while True:
            self._check_alive()
            if admin is None and all(_answers(node.port) for node in self.nodes if node.id in self._running):
                admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            if admin is not None and self._registered(admin) >= set(self._running):
                return
            if time.monotonic() > until:
                raise ClusterError(f"the brokers are not ready in time\n{self._tails(self._running)}")
            time.sleep(_POLL)

    def _registered(self, admin: AdminClient) -> set[int]:
        with contextlib.suppress(KafkaException):
            return {node.id for node in admin.describe_cluster(request_timeout=2).result().nodes}
        return set()

    def _check_alive(self) -> None:
        ended = [number for number, process in self._running.items() if process.poll() is not None]
        if not ended:
            return
        tails = self._tails(ended)
        kind = _PortTakenError if "Address already in use" in tails else ClusterError
        raise kind(f"broker {', '.join(map(str, ended))} ended while starting\n{tails}")

    def _tails(self, brokers: Sequence[int] | Mapping[int, object]) -> str:
        return "\n".join(
            f"--- the end of {self.log(number)}\n"
            + "\n".join(self.log(number).read_text(errors="replace").splitlines()[-_TAIL:])
            for number in brokers
        )


def _locked(directory: Path) -> int:
    """Take the directory for this process and its guards. Of one just killed, the guards need a moment to go."""
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    until = time.monotonic() + 2 * guard.GRACE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(file)
                raise ClusterError(
                    f"a cluster runs in {directory} already: stop it, or use another directory"
                ) from None
            time.sleep(_POLL)
        else:
            return file


def _free_ports() -> Iterator[int]:
    candidates = random.SystemRandom().sample(_PORTS, len(_PORTS))
    return (port for port in candidates if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the brokers do
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0

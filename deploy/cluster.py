"""An embedded Kafka cluster on loopback: real brokers, in KRaft's combined mode, as children of this process.

Everything of a cluster is in one directory; a later start in the same directory finds its topics again. The brokers never
outlive this process (see `guard`). Each is a controller, too, so that the cluster survives the loss of any minority.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy import guard
from deploy.broker_config import (
    JVM_OPTIONS,
    Node,
    java_command,
    meta_properties,
    new_id,
    properties,
)
from deploy.errors import SetupError
from deploy.jars import classpath
from deploy.java import java
from deploy.ports import answers, free_ports, is_free

RACKS = ("a", "b", "c")

_ATTEMPTS = 3
_READY_WITHIN = 120.0
_POLL = 0.05
_LAST_WORDS = 1.0
_QUOTED = 20
_TROUBLE = re.compile(r"\b(ERROR|FATAL)\b|^Error|^Exception")


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
    _processes: dict[int, guard.Guarded] = field(default_factory=dict)

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
        """Start brokers 1 to `brokers` and wait until the cluster names them all.

        Args:
            brokers: how many; a directory that holds a cluster must hold as many.
            racks: `broker.rack` of each, over again when there are fewer; None for none.
            directory: where all is kept; without one, a temporary directory that goes with the cluster.
            settings: Kafka's own settings for all brokers, above ours.
            jvm_options: the brokers' JVM options.
            ready_within: seconds until a start has failed.
            say: hears in a few words what the start is at.

        Raises:
            SetupError: where Java, a jar or a port is missing, or a broker fails; it says which.
        """
        runtime, jars = java(say), classpath("brokers", say)
        home = (
            Path(tempfile.mkdtemp(prefix="levelwind-cluster-"))
            if directory is None
            else directory.absolute()
        )
        home.mkdir(parents=True, exist_ok=True)
        cluster = cls(
            directory=home,
            nodes=(),
            settings=settings or {},
            jvm_options=jvm_options,
            _java=runtime,
            _jars=jars,
            _lock=_lock(home),
            _temporary=directory is None,
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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` of this cluster: all its brokers, running or not."""
        return ",".join(node.address for node in self.nodes)

    @property
    def running(self) -> frozenset[int]:
        """The ids of the brokers whose process lives."""
        return frozenset(
            number for number, process in self._processes.items() if process.poll() is None
        )

    def log(self, broker: int) -> Path:
        """A broker's log file."""
        return self._home(broker) / "broker.log"

    def stop(self) -> None:
        """End all brokers, in order where the directory stays; may be called again."""
        if not self._temporary:
            self._stop_in_order()
        self._kill_all()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, broker: int) -> None:
        """End a broker as if its machine had been lost."""
        self._processes.pop(broker).kill()

    def stop_broker(self, broker: int) -> None:
        """End a broker in order: it hands its leaderships over first."""
        self._processes.pop(broker).stop()

    def start_broker(
        self, broker: int, *, rack: str | None = None, ready_within: float = _READY_WITHIN
    ) -> None:
        """Start a broker that was stopped or killed, in another rack if told so; back when the cluster counts it in."""
        if broker in self.running:
            raise ValueError(f"broker {broker} runs already")
        if rack is not None:
            self.nodes = tuple(
                replace(node, rack=rack) if node.id == broker else node for node in self.nodes
            )
        self._launch(next(node for node in self.nodes if node.id == broker))
        self._await_ready(time.monotonic() + ready_within)

    # Starting.

    def _start(
        self, brokers: int, racks: Sequence[str] | None, until: float, say: Callable[[str], None]
    ) -> None:
        named = {i + 1: racks[i % len(racks)] if racks else None for i in range(brokers)}
        for attempt in range(1, _ATTEMPTS + 1):
            self.nodes = self._placed(named, say)
            say(f"starting {brokers} brokers")
            try:
                for node in self.nodes:
                    self._launch(node)
                self._await_ready(until)
            except _PortTakenError:
                self._kill_all()
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _placed(
        self, named: Mapping[int, str | None], say: Callable[[str], None]
    ) -> tuple[Node, ...]:
        """The nodes with formatted storage, at the ports of the last start where these are still free."""
        record = self.directory / "cluster.json"
        known = [Node(**node) for node in json.loads(record.read_text())] if record.exists() else []
        if known and len(known) != len(named):
            raise ClusterError(
                f"{self.directory} holds a cluster of {len(known)} brokers, not of {len(named)}"
            )
        if known and all(
            is_free(port) for node in known for port in (node.port, node.controller_port)
        ):
            nodes = tuple(replace(node, rack=named[node.id]) for node in known)
        else:
            ports = free_ports()
            nodes = tuple(
                Node(id=number, rack=rack, port=next(ports), controller_port=next(ports))
                for number, rack in named.items()
            )
        if not known:
            say("formatting the brokers' storage")
            self._format(nodes)
        # Written last: a directory without it was never formatted as a whole.
        record.write_text(json.dumps([asdict(node) for node in nodes]))
        return nodes

    def _format(self, nodes: Sequence[Node]) -> None:
        """Format storage by Kafka's tool, once: the brokers' storages differ in their ids alone, one for each start of Java."""
        cluster_id = new_id()
        first = nodes[0]
        for node in nodes:
            shutil.rmtree(self._data(node), ignore_errors=True)
        command = java_command(
            self._java, self._jars, self.jvm_options, "kafka.tools.StorageTool",
            "format", "--cluster-id", cluster_id, "--config", str(self._configured(first, nodes)),
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if done.returncode:
            raise ClusterError(
                f"the brokers' storage cannot be formatted:\n{done.stdout}{done.stderr}"
            )
        for node in nodes[1:]:
            shutil.copytree(self._data(first), self._data(node))
            meta = meta_properties(node, cluster_id, directory_id=new_id())
            (self._data(node) / "meta.properties").write_text(meta)

    def _launch(self, node: Node) -> None:
        configuration = self._configured(node, self.nodes)
        command = java_command(
            self._java, self._jars, self.jvm_options, "kafka.Kafka", str(configuration)
        )
        log = self.log(node.id)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        with log.open("wb") as output:
            self._processes[node.id] = guard.start(
                command, output=output, directory=self.directory, keep_open=[self._lock]
            )

    def _configured(self, node: Node, nodes: Sequence[Node]) -> Path:
        file = self._home(node.id) / "server.properties"
        file.parent.mkdir(exist_ok=True)
        file.write_text(properties(node, nodes, self._data(node), self.settings))
        return file

    def _home(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}"

    def _data(self, node: Node) -> Path:
        return self._home(node.id) / "data"

    def _await_ready(self, until: float) -> None:
        """Wait until the cluster itself names all brokers that were started."""
        wanted = set(self._processes)
        admin: AdminClient | None = None
        while True:
            self._check_alive()
            # Not sooner, for librdkafka writes about each refused connection to the terminal.
            if admin is None and all(
                answers(node.port) for node in self.nodes if node.id in wanted
            ):
                admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            if admin is not None and _registered(admin) >= wanted:
                return
            if time.monotonic() > until:
                raise ClusterError(f"the brokers are not ready in time\n{self._quotations(wanted)}")
            time.sleep(_POLL)

    def _check_alive(self) -> None:
        ended = set(self._processes) - self.running
        if not ended:
            return
        taken = any(
            "Address already in use" in self.log(broker).read_text(errors="replace")
            for broker in ended
        )
        kind = _PortTakenError if taken else ClusterError
        raise kind(
            f"broker {', '.join(map(str, sorted(ended)))} ended while starting\n{self._quotations(ended)}"
        )

    def _quotations(self, brokers: Collection[int]) -> str:
        return "\n".join(
            f"--- from {self.log(broker)}\n{_quoted(self.log(broker))}"
            for broker in sorted(brokers)
        )

    # Stopping.

    def _stop_in_order(self) -> None:
        """Ask all to stop. The last minority cannot, having no majority to ask for leave: it gets a moment."""
        majority = len(self.nodes) // 2 + 1
        for process in self._processes.values():
            process.ask_to_stop()
        self._wait_while(lambda: len(self.running) >= majority, guard.GRACE)
        self._wait_while(lambda: bool(self.running), _LAST_WORDS)

    def _wait_while(self, condition: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while condition() and time.monotonic() < until:
            time.sleep(_POLL)

    def _kill_all(self) -> None:
        """What they wrote is in the kernel's hands and not lost: a broker recovers its log at the next start."""
        for process in self._processes.values():
            process.ask_to_kill()
        for process in self._processes.values():
            process.stop()
        self._processes.clear()


def _lock(directory: Path) -> int:
    """Take the directory for this process and its guards; those of a process just killed need a moment to go."""
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


def _registered(admin: AdminClient) -> set[int]:
    # Not describe_cluster, which waits for a broker named controller at random, be it the one that was lost.
    with contextlib.suppress(KafkaException):
        return set(admin.list_topics(timeout=2).brokers)
    return set()


def _quoted(log: Path) -> str:
    """What a log says of a failure: from the first error on, else its end."""
    lines = log.read_text(errors="replace").splitlines()
    first = next(
        (i for i, line in enumerate(lines) if _TROUBLE.search(line)), max(0, len(lines) - _QUOTED)
    )
    return "\n".join(lines[first : first + _QUOTED])

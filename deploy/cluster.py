"""Embedded Kafka cluster on loopback: real brokers in KRaft's combined mode, as child processes.

A cluster keeps everything in one directory; a later start in the same directory finds its topics
again. The brokers never outlive this process (see `guard`). Every broker is a controller as well,
so the cluster survives the loss of any minority.
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

from levelwind.deploy import class_data, guard
from levelwind.deploy.broker_config import (
    JVM_OPTIONS,
    BrokerSecurity,
    Node,
    java_command,
    meta_properties,
    new_id,
    properties,
)
from levelwind.deploy.errors import SetupError
from levelwind.deploy.jars import OtherBrokers, broker_classpath
from levelwind.deploy.java import java
from levelwind.deploy.ports import answers, free_ports, is_free

RACKS = ("a", "b", "c")

_ATTEMPTS = 3
_READY_SECONDS = 120.0
_POLL_SECONDS = 0.05
_LAST_MINORITY_SECONDS = 1.0
"""Grace of the last brokers, which cannot stop gracefully without a majority of controllers."""
_QUOTED_LINES = 20
"""Lines of a broker's log in the message of an error."""
_RECORDING_GRACE_SECONDS = 60.0
"""Time of a broker that writes its class-data archive when it stops."""
_ERROR_LINE = re.compile(r"\b(ERROR|FATAL)\b|^Error|^Exception")


class ClusterError(SetupError):
    """Brokers that did not start, or not in time; the message quotes their log."""


class _PortTakenError(ClusterError):
    """Port that another process took in the meantime."""


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Brokers that run until `stop` or the end of the `with` block; made by `start`."""

    directory: Path
    nodes: tuple[Node, ...]
    settings: Mapping[str, str]
    jvm_options: Sequence[str]
    _java: Path
    _jars: tuple[Path, ...]
    _lock: int
    _temporary: bool
    _advertise: Callable[[Node], Node] | None = None
    _record_classes: Path | None = None
    _libraries: Sequence[Path] = ()
    security: BrokerSecurity | None = None
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
        ready_within: float = _READY_SECONDS,
        progress: Callable[[str], None] = lambda _: None,
        advertise: Callable[[Node], Node] | None = None,
        record_classes: Path | None = None,
        security: BrokerSecurity | None = None,
        libraries: Sequence[Path] = (),
        version: OtherBrokers | None = None,
    ) -> Self:
        """Start brokers 1 to `brokers` and wait until the cluster lists them all.

        Args:
            brokers: number of brokers; a directory that holds a cluster must hold as many.
            racks: `broker.rack` of each broker, repeated if there are fewer racks; None for none.
            directory: the cluster's directory; None for a temporary one, removed at the end.
            settings: Kafka's own settings for all brokers, which win over the defaults here.
            jvm_options: the brokers' JVM options.
            ready_within: seconds after which a start has failed.
            progress: called with a few words for each step of the start.
            advertise: called for each node once its ports are known, before any broker runs;
                returns the node with its advertised ports, for brokers behind a proxy.
            record_classes: file that each broker writes its class-data archive to when it is
                stopped; None: the brokers use the archive if there is one.
            security: the brokers' TLS, SASL and authorizer; None for an open listener alone.
            libraries: jars that the brokers load beside their own, as their `libs` directory has.
            version: another release of the brokers, for tests; None for that of the pom.

        Raises:
            SetupError: Java, a jar or a port is missing, or a broker failed; the text says which.
        """
        runtime, jars = java(progress), broker_classpath(version, progress)
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
            jvm_options=(f"-Djava.io.tmpdir={home}", *jvm_options),
            _java=runtime,
            _jars=jars,
            _lock=_lock(home),
            _temporary=directory is None,
            _advertise=advertise,
            _record_classes=record_classes,
            _libraries=libraries,
            security=security,
        )
        try:
            cluster._start(brokers, racks, time.monotonic() + ready_within, progress)
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
        """`bootstrap.servers` of this cluster: all brokers, running or not."""
        return ",".join(node.address for node in self.nodes)

    @property
    def mutual_tls_bootstrap(self) -> str:
        """`bootstrap.servers` for clients with certificates, of brokers with `security`."""
        return ",".join(node.mutual_tls_address for node in self.nodes)

    @property
    def admin_settings(self) -> dict[str, str]:
        """Settings of a client that may do everything."""
        if self.security is None:
            return {"bootstrap.servers": self.bootstrap}
        return {**self.security.admin, "bootstrap.servers": self.mutual_tls_bootstrap}

    @property
    def running(self) -> frozenset[int]:
        """Ids of the brokers whose process runs."""
        processes = dict(self._processes)  # another broker may start meanwhile, in its own thread
        return frozenset(number for number, process in processes.items() if process.poll() is None)

    def log(self, broker: int) -> Path:
        """Log file of a broker."""
        return self._home(broker) / "broker.log"

    def stop(self) -> None:
        """Stop all brokers, gracefully if the directory stays; may be called again."""
        if not self._temporary:
            self._stop_in_order()
        self._kill_all()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, broker: int) -> None:
        """Kill a broker as if its machine had been lost."""
        self._processes.pop(broker).kill()

    def stop_broker(self, broker: int) -> None:
        """Stop a broker gracefully: it hands over its leaderships first."""
        self._processes.pop(broker).stop()

    def start_broker(
        self, broker: int, *, rack: str | None = None, ready_within: float = _READY_SECONDS
    ) -> None:
        """Start a stopped or killed broker, in another rack if given, and wait until it joined."""
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
        self,
        brokers: int,
        racks: Sequence[str] | None,
        until: float,
        progress: Callable[[str], None],
    ) -> None:
        rack_of = {i + 1: racks[i % len(racks)] if racks else None for i in range(brokers)}
        for attempt in range(1, _ATTEMPTS + 1):
            self.nodes = self._prepared_nodes(rack_of, progress)
            progress(f"starting {brokers} brokers")
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

    def _prepared_nodes(
        self, rack_of: Mapping[int, str | None], progress: Callable[[str], None]
    ) -> tuple[Node, ...]:
        """Nodes with formatted storage, at the ports of the last start if these are still free.

        Args:
            rack_of: rack of each broker, by broker id.
            progress: called before the storage is formatted.

        Raises:
            ClusterError: the directory holds a cluster of another number of brokers.
        """
        record = self.directory / "cluster.json"
        former = (
            [Node(**node) for node in json.loads(record.read_text(encoding="utf-8"))]
            if record.exists()
            else []
        )
        if former and len(former) != len(rack_of):
            raise ClusterError(
                f"{self.directory} holds a cluster of {len(former)} brokers, not of {len(rack_of)}"
            )
        if former and all(self._fits(node) for node in former):
            nodes = tuple(
                replace(
                    node,
                    rack=rack_of[node.id],
                    advertised_port=None,
                    advertised_controller_port=None,
                )
                for node in former
            )
        else:
            ports = free_ports()
            nodes = tuple(
                Node(
                    id=number,
                    rack=rack,
                    port=next(ports),
                    controller_port=next(ports),
                    mutual_tls_port=next(ports) if self.security else None,
                )
                for number, rack in rack_of.items()
            )
        if self._advertise is not None:
            nodes = tuple(map(self._advertise, nodes))
        if not former:
            progress("formatting the brokers' storage")
            self._format(nodes)
        # Written last: a directory without this file was never fully formatted.
        record.write_text(json.dumps([asdict(node) for node in nodes]), encoding="utf-8")
        return nodes

    def _fits(self, node: Node) -> bool:
        """Whether a node can run at its former ports."""
        ports = [node.port, node.controller_port]
        if node.mutual_tls_port is not None:
            ports.append(node.mutual_tls_port)
        return len(ports) == (3 if self.security else 2) and all(map(is_free, ports))

    def _format(self, nodes: Sequence[Node]) -> None:
        """Format storage with Kafka's tool once and copy it: brokers' storages differ in ids alone.

        Every further run of the tool would start a Java process.
        """
        cluster_id = new_id()
        first = nodes[0]
        for node in nodes:
            shutil.rmtree(self._data(node), ignore_errors=True)
        command = java_command(
            self._java, self._class_path, self._options(), "kafka.tools.StorageTool",
            "format", "--cluster-id", cluster_id, "--config", str(self._configured(first, nodes)),
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - commands of this file
        if done.returncode:
            raise ClusterError(
                f"the brokers' storage cannot be formatted:\n{done.stdout}{done.stderr}"
            )
        for node in nodes[1:]:
            shutil.copytree(self._data(first), self._data(node))
            meta = meta_properties(node, cluster_id, directory_id=new_id())
            (self._data(node) / "meta.properties").write_text(meta, encoding="utf-8")

    def _launch(self, node: Node) -> None:
        configuration = self._configured(node, self.nodes)
        recording = self._record_classes is not None
        options = (
            (*class_data.recording_options(self._record_classes), *self.jvm_options)
            if self._record_classes is not None
            else self._options()
        )
        command = java_command(
            self._java, self._class_path, options, "kafka.Kafka", str(configuration)
        )
        log = self.log(node.id)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        with log.open("wb") as output:
            self._processes[node.id] = guard.start(
                command,
                output=output,
                directory=self.directory,
                keep_open=[self._lock],
                grace=_RECORDING_GRACE_SECONDS if recording else guard.GRACE_SECONDS,
            )

    @property
    def _class_path(self) -> tuple[Path, ...]:
        return (*self._jars, *self._libraries)

    def _options(self) -> tuple[str, ...]:
        """The options of the JVMs, with the class-data archive of the brokers if there is one."""
        archive = broker_archive(self._java, self._jars)
        return (*class_data.options(archive), *self.jvm_options)

    def _configured(self, node: Node, nodes: Sequence[Node]) -> Path:
        file = self._home(node.id) / "server.properties"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            properties(node, nodes, self._data(node), self.settings, self.security),
            encoding="utf-8",
        )
        return file

    def _home(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}"

    def _data(self, node: Node) -> Path:
        return self._home(node.id) / "data"

    def _await_ready(self, until: float) -> None:
        """Wait until each started broker lists all of them.

        One that lists all is not enough: a client drops a broker that the next one does not list
        yet, with the requests that wait for it.
        """
        expected = set(self._processes)
        unready = [node for node in self.nodes if node.id in expected]
        while True:
            self._check_alive()
            # Not sooner: librdkafka writes every refused connection to the terminal.
            if all(answers(node.port) for node in unready):
                unready = [node for node in unready if not self._listed_by(node) >= expected]
            if not unready:
                return
            if time.monotonic() > until:
                raise ClusterError(
                    f"the brokers are not ready in time\n{self._quotations(expected)}"
                )
            time.sleep(_POLL_SECONDS)

    def _listed_by(self, node: Node) -> set[int]:
        """Ids of the brokers that a broker lists."""
        secured = self.security is not None
        bootstrap = node.mutual_tls_address if secured else node.address
        # A new client asks the one broker that it knows.
        admin = AdminClient({**self.admin_settings, "bootstrap.servers": bootstrap, "log_level": 0})
        # Not describe_cluster: it waits for a broker named as controller at random, even for a lost
        # one.
        with contextlib.suppress(KafkaException):
            return set(admin.list_topics(timeout=2).brokers)
        return set()

    def _check_alive(self) -> None:
        ended = set(self._processes) - self.running
        if not ended:
            return
        taken = any(
            "Address already in use"
            in self.log(broker).read_text(errors="replace", encoding="utf-8")
            for broker in ended
        )
        kind = _PortTakenError if taken else ClusterError
        raise kind(
            f"broker {', '.join(map(str, sorted(ended)))} ended while starting\n"
            f"{self._quotations(ended)}"
        )

    def _quotations(self, brokers: Collection[int]) -> str:
        return "\n".join(
            f"--- from {self.log(broker)}\n{_quoted(self.log(broker))}"
            for broker in sorted(brokers)
        )

    # Stopping.

    def _stop_in_order(self) -> None:
        """Ask all brokers to stop.

        The last minority cannot stop gracefully, since that takes a majority of controllers; it
        gets a second.
        """
        majority = len(self.nodes) // 2 + 1
        for process in self._processes.values():
            process.ask_to_stop()
        self._wait_while(lambda: len(self.running) >= majority, guard.GRACE_SECONDS)
        self._wait_while(lambda: bool(self.running), _LAST_MINORITY_SECONDS)

    def _wait_while(self, condition: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while condition() and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)

    def _kill_all(self) -> None:
        """Kill all brokers; their written data is in the kernel, and the next start recovers it."""
        for process in self._processes.values():
            process.ask_to_kill()
        for process in self._processes.values():
            process.stop()
        self._processes.clear()


def broker_archive(java: Path, jars: Sequence[Path]) -> Path:
    """Path of the brokers' class-data archive, whether it exists or not."""
    return class_data.archive("brokers", java, jars)


def _lock(directory: Path) -> int:
    """Lock the directory for this process and its guards.

    The guards of a process that was just killed need a moment to end.
    """
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    until = time.monotonic() + 2 * guard.GRACE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(file)
                raise ClusterError(
                    f"a cluster already runs in {directory}: stop it, or use another directory"
                ) from None
            time.sleep(_POLL_SECONDS)
        else:
            return file


def _quoted(log: Path) -> str:
    """Lines of a log from the first error on, or its last lines."""
    lines = log.read_text(errors="replace", encoding="utf-8").splitlines()
    first = next(
        (i for i, line in enumerate(lines) if _ERROR_LINE.search(line)),
        max(0, len(lines) - _QUOTED_LINES),
    )
    return "\n".join(lines[first : first + _QUOTED_LINES])

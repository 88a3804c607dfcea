"""Spark's JVM, started by its own command line instead of by Spark's scripts.

The scripts start a second JVM that only composes the command of the first, which takes 2 s of CPU.
The command here is the one that they compose for pyspark (a test compares the two), with options
for a start that costs less (`session`) and without jars that no pipeline uses. A Spark with
settings of its own (SPARK_HOME, SPARK_CONF_DIR, a conf directory) and a master other than `local`
are left to the scripts.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HOME = Path(pyspark.__file__).resolve().parent
OWN_SETTINGS = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS")
"""Variables with which a user has Spark started in another way."""
OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Packages that Spark 4.2 reads by reflection, as its launcher opens them."""
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
UNUSED = (
    *("spark-connect", "spark-graphx", "spark-hive", "spark-kubernetes", "spark-mllib"),
    *("spark-pipelines", "spark-repl", "spark-streaming", "spark-yarn"),
    *("hive-", "datanucleus-", "derby"),
    *("kubernetes-", "vertx-", "volcano-"),
    *("breeze", "spire", "cats-kernel", "algebra", "arpack", "blas-", "lapack-", "JTransforms"),
    *("curator-", "zookeeper"),
    *("scala-compiler", "jline-"),
)
"""How the names of jars begin that a local pipeline never uses: Hive, machine learning, clusters.

Java opens all jars in search of services, and keeps each one's table of contents in the heap: of
the 17 MB of all of Spark's jars these are 6. Where SPARK_HOME is set, no jar is left out."""
MAIN = "org.apache.spark.deploy.SparkSubmit"
DEFAULT_MEMORY = "1g"
POLL_SECONDS = 0.02


def class_path(options: Mapping[str, str]) -> str:
    """The class path of the JVM: that of Spark's launcher without the jars that are `UNUSED`."""
    extra = options.get("spark.driver.extraClassPath", "")
    jars = [jar for jar in (HOME / "jars").glob("*.jar") if not jar.name.startswith(UNUSED)]
    # The launcher, too, has this jar before another one with the same classes.
    jars.sort(key=lambda jar: (not jar.name.startswith("slf4j-api-"), jar))
    return os.pathsep.join([*([extra] if extra else []), str(HOME / "conf"), *map(str, jars)])


def class_path_files(class_path: str) -> list[Path]:
    """The files that a class path stands for."""
    files: list[Path] = []
    for part in class_path.split(os.pathsep):
        path = Path(part)
        # The JVM takes a directory's jars in the order of the directory, which stays.
        files += sorted(path.parent.glob("*.jar")) if path.name == "*" else [path]
    return files


def command(options: Mapping[str, str]) -> list[str]:
    """The command line of the JVM; `options` are Spark's settings, under their own names."""
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else "java"
    memory = options.get("spark.driver.memory", DEFAULT_MEMORY)
    return [
        java,
        "-cp",
        class_path(options),
        f"-Xmx{memory}",
        *shlex.split(options.get("spark.driver.defaultJavaOptions", "")),
        *shlex.split(options.get("spark.driver.extraJavaOptions", "")),
        *MODULE_OPTIONS,
        MAIN,
        *(
            word
            for name, value in sorted(options.items())
            for word in ("--conf", f"{name}={value}")
        ),
        "pyspark-shell",
    ]


def is_plain(options: Mapping[str, str]) -> bool:
    """Whether nothing of Spark's own installation has a say in the start."""
    return (
        options.get("spark.master", "").startswith("local")
        and not any(name in os.environ for name in OWN_SETTINGS)
        and not (HOME / "conf").exists()
        and "spark.driver.extraLibraryPath" not in options
        and sys.platform != "win32"
    )


def start(options: Mapping[str, str]) -> None:
    """Start the JVM of the next Spark session, unless there is one in this process.

    Args:
        options: Spark's settings, under their own names.

    Raises:
        PySparkRuntimeError: the JVM ended before it was ready.
    """
    context: Any = SparkContext
    if context._gateway is not None or not is_plain(options):  # noqa: SLF001 - no other access
        return
    directory = tempfile.mkdtemp(prefix="levelwind-spark-")
    try:
        port_file = Path(directory) / "port"
        process = _launch(command(options), port_file)
        port, secret = _await_port(process, port_file)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        gateway = launch_gateway()
    gateway.proc = process
    context._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as above


def _launch(words: Sequence[str], port_file: Path) -> subprocess.Popen[bytes]:
    """Start the JVM, which writes its port into a file and ends when its standard input does."""
    environment = {
        # Each of many threads would keep what the state store has freed to itself.
        "MALLOC_ARENA_MAX": "2",
        **os.environ,
        # Without SPARK_HOME the workers import pyspark as this process does, with its byte code.
        # The scripts have each of them compile it from an archive.
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(port_file),
    }
    return subprocess.Popen(  # noqa: S603 - the command of this file
        words,
        stdin=subprocess.PIPE,
        env=environment,
        preexec_fn=_ignore_interrupts,  # noqa: PLW1509 - as pyspark does: it calls nothing that locks
    )


def _ignore_interrupts() -> None:
    """Have Ctrl-C reach Python alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _await_port(process: subprocess.Popen[bytes], file: Path) -> tuple[int, str]:
    """Wait for the port and the secret of the JVM's gateway."""
    while not file.exists():
        if process.poll() is not None:
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
        time.sleep(POLL_SECONDS)
    with file.open("rb") as content:
        return read_int(content), UTF8Deserializer().loads(content)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables of this process for a while."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]

"""A server of S3's protocol on loopback, moto's, with a bucket that anybody may use."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from levelwind.deploy import guard
from levelwind.deploy.jars import classpath
from levelwind.deploy.ports import HOST, free_ports
from levelwind_testing.deploy_tools import S3_LOCK, python_tool

BUCKET = "levelwind"
REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server."""

    port: int

    @property
    def uri(self) -> str:
        return f"s3a://{BUCKET}"

    @property
    def spark_settings(self) -> Mapping[str, str]:
        """Settings of Spark's that find it, and the classes that they need."""
        jars = ":".join(map(str, classpath("s3")))
        return {
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.hadoop.fs.s3a.endpoint": f"http://{HOST}:{self.port}",
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            # Otherwise Amazon's asynchronous client uploads, which needs Netty 4.1; Spark has 4.2.
            "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": "anybody",
            "spark.hadoop.fs.s3a.secret.key": "anybody",
        }

    def make_bucket(self, within: float = 60.0) -> None:
        """Wait until it answers, and make the bucket."""
        for attempt in Retrying(
            retry=retry_if_exception_type(ConnectionRefusedError),
            wait=wait_fixed(0.2),
            stop=stop_after_delay(within),
            reraise=True,
        ):
            with attempt:
                connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
                address = {"Host": f"s3.{REGION}.amazonaws.com"}
                connection.request("PUT", f"/{BUCKET}", headers=address)
                assert connection.getresponse().status == 200
                connection.close()


@contextmanager
def s3_server(log: Path) -> Iterator[S3Server]:
    """Run a server for the time of a test."""
    server = S3Server(next(free_ports()))
    program = python_tool("moto_server", S3_LOCK)
    with log.open("wb") as output:
        process = guard.start(
            [str(program), "-H", HOST, "-p", str(server.port)], output=output, environment={}
        )
        try:
            server.make_bucket()
            yield server
        finally:
            process.kill()

"""A real HTTP server over a scripted installation, in this process."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from levelwind.daemon.api.http_server import HttpServer
from levelwind.daemon.api.views.decision_log import DecisionLog
from levelwind.daemon.config.http_section import HttpSection
from levelwind.daemon.config.settings import Settings
from levelwind.daemon.kafka.topic_reader import ConsumedRecord
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.daemon.service.availability.readiness import Readiness
from levelwind.daemon.service.metrics import Metrics
from levelwind_testing.page.scripted_groups import ScriptedInstallation

SECRET = "secret-of-the-cluster"  # noqa: S105 - of a test
LEADER = Readiness(
    role="leader", caught_up=True, instance="host/1", leader="host/1", planner_epoch=3
)


class GivenDecisions:
    """The decisions that a test gives, without a topic."""

    def __init__(self) -> None:
        self.log = DecisionLog()

    async def ready(self) -> DecisionLog:
        return self.log


class ServedPage:
    """A server whose records and readiness a test gives."""

    def __init__(self, installation: ScriptedInstallation, **section: Any) -> None:
        self.installation = installation
        self.metrics = Metrics("1.0", now=time.time)
        self.settings = Settings(
            bootstrap="127.0.0.1:1",  # nobody listens there: what needs the cluster fails at once
            topic=TopicSettings(timeout=1.0),
            kafka={"sasl.password": SECRET},
            http=HttpSection(**{"listen": "127.0.0.1:0", **section}),
        )
        self.decisions = GivenDecisions()
        self.server = HttpServer(self.settings, self.metrics, self.decisions)
        self.readiness = LEADER
        self.server.show(lambda _: self.readiness, lambda: self.settings)
        self.feed(installation.first())

    @property
    def url(self) -> str:
        return self.server.url

    def feed(self, reads: Iterable[Any]) -> None:
        for read in reads:
            self.server.on_record(read)

    def control(self, record: Any) -> None:
        """Let a record of the topic `control` be read: a lever, a request or a tombstone."""
        read = ConsumedRecord(kind="control", record=record, partition=0, offset=0, timestamp=0)
        self.server.on_record(read)

    def step(self, share: float = 1.0) -> None:
        """Let ten seconds of lag pass."""
        self.feed(self.installation.step(share))

    def take_points(self, count: int) -> None:
        """Fill the history; for pictures, before anybody looks."""
        context = self.server._context
        for _ in range(count):
            self.step()
            context.view.take_points(self.installation.at)

    def close(self) -> None:
        self.server.close()


def write_tokens(directory: Path, **tokens: str) -> Path:
    """A file of tokens, by name."""
    path = directory / "tokens"
    path.write_text("".join(f"{name} {token}\n" for name, token in tokens.items()))
    return path

"""Supervised daemons, and one group's members, which follow whichever of them leads."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from levelwind_testing.processes.member_process import MemberProcess
from levelwind_testing.processes.supervised_daemons import (
    SupervisedDaemon,
    leader_of,
    wait_until,
)


class SupervisedGroup:
    """Daemons of one installation, a topic, and members of the group `group` that read it."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        topic: str,
        *,
        partitions: int,
        replicas: int = 1,
        factor: float,
    ) -> None:
        self.bootstrap, self.prefix, self.topic = bootstrap, prefix, topic
        self.partitions, self.factor = partitions, factor
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(30)
        self.daemons: list[SupervisedDaemon] = []
        self.members: list[MemberProcess] = []

    def start(self, state: Path, *settings: str, pause: float = 1.0) -> SupervisedDaemon:
        """Start a daemon; `pause` are the seconds from its end to its next start."""
        daemon = SupervisedDaemon(
            self.bootstrap, state, f"prefix={self.prefix}", *settings, pause=pause
        )
        self.daemons.append(daemon)
        return daemon

    def join(self, *instances: str) -> None:
        """Start members with timers that are shorter by the group's factor."""
        self.members += [
            MemberProcess(self.bootstrap, self.prefix, "group", self.topic, name, self.factor)
            for name in instances
        ]

    def wait(self, what: str, holds: Callable[[], Any], within: float = 30.0) -> Any:
        return wait_until(what, holds, within, self.daemons)

    def leader(self, within: float = 30.0) -> SupervisedDaemon:
        return self.wait("leader", lambda: leader_of(self.daemons), within)

    def others(self) -> list[SupervisedDaemon]:
        """All daemons but the leader."""
        leader = self.leader()
        return [daemon for daemon in self.daemons if daemon is not leader]

    def standbys_are_ready(self, within: float = 60.0) -> None:
        """Wait until all daemons but the leader run and stand by."""
        for daemon in self.others():
            self.wait("standby", lambda daemon=daemon: _stands_by(daemon), within)

    def logged(self, event: str) -> list[dict[str, Any]]:
        """What all lives of all daemons logged under a name."""
        return [entry for daemon in self.daemons for entry in daemon.logged(event)]

    def terms(self) -> int:
        """How often a daemon has begun to lead."""
        return len(self.logged("daemon.leading"))

    def all_is_owned(self, within: float = 60.0) -> float:
        """Wait until the members own every partition, each once; return the seconds."""
        begun = time.monotonic()

        def owned() -> bool:
            sets = [member.owned for member in self.members]
            return sum(map(len, sets)) == self.partitions == len(set().union(*sets))

        self.wait("owner of each partition", owned, within)
        return time.monotonic() - begun

    def stop(self) -> None:
        for member in self.members:
            member.kill()
        for daemon in self.daemons:
            daemon.stop()


def _stands_by(daemon: SupervisedDaemon) -> bool:
    return daemon.now.child.poll() is None and bool(daemon.now.logged("daemon.standing_by"))

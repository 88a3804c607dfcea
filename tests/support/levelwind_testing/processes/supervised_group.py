"""Supervised daemons, and one group's members, which follow whichever of them leads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.processes.member_process import MemberProcess
from levelwind_testing.processes.supervised_daemons import SupervisedDaemon, leader_of, tails
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until


class SupervisedGroup:
    """Daemons of one installation, a topic, and members of a group that read it."""

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
        create_topics({"bootstrap.servers": bootstrap}, NewTopic(topic, partitions, replicas))
        self.group = "group"
        self.daemons: list[SupervisedDaemon] = []
        self.members: list[MemberProcess] = []

    def start(self, state: Path, *settings: str, pause: float | None = 1.0) -> SupervisedDaemon:
        """Start a daemon; `pause` are the seconds from its end to its next start.

        None: `start_again` alone starts it.
        """
        daemon = SupervisedDaemon(
            self.bootstrap, state, f"prefix={self.prefix}", *settings, pause=pause
        )
        self.daemons.append(daemon)
        return daemon

    def join(self, *instances: str) -> None:
        """Start members with timers that are shorter by the group's factor."""
        self.members += [
            MemberProcess(self.bootstrap, self.prefix, self.group, self.topic, name, self.factor)
            for name in instances
        ]

    def begin_group(self, name: str) -> None:
        """End the members of the group before, and have those that join next in another one."""
        for member in self.members:
            member.kill()
        self.members, self.group = [], name

    def wait(self, what: str, holds: Callable[[], Any], within: float = GENEROUS_SECONDS) -> Any:
        return wait_until(what, holds, within, shown=lambda: tails(self.daemons))

    def leader(self, within: float = GENEROUS_SECONDS) -> SupervisedDaemon:
        return self.wait("leader", lambda: leader_of(self.daemons), within)

    def others(self) -> list[SupervisedDaemon]:
        """All daemons but the leader."""
        leader = self.leader()
        return [daemon for daemon in self.daemons if daemon is not leader]

    def standbys_are_ready(self, within: float = GENEROUS_SECONDS) -> None:
        """Wait until all daemons but the leader run and stand by."""
        for daemon in self.others():
            self.wait("standby", lambda daemon=daemon: _stands_by(daemon), within)

    def logged(self, event: str, **fields: object) -> list[dict[str, Any]]:
        """What all lives of all daemons logged under a name, with these values."""
        return [entry for daemon in self.daemons for entry in daemon.logged(event, **fields)]

    def terms(self) -> int:
        """How often a daemon has begun to lead."""
        return len(self.logged("daemon.leading"))

    def all_is_owned(self, within: float = GENEROUS_SECONDS) -> None:
        """Wait until the members own every partition, each once, and each member owns some."""

        def owned() -> bool:
            sets = [member.owned for member in self.members]
            return all(sets) and sum(map(len, sets)) == self.partitions == len(set().union(*sets))

        self.wait("owner of each partition", owned, within)

    def stop(self) -> None:
        for member in self.members:
            member.kill()
        for daemon in self.daemons:
            daemon.stop()


def _stands_by(daemon: SupervisedDaemon) -> bool:
    return daemon.running and bool(daemon.now.logged("daemon.standing_by"))

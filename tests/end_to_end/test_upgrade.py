"""The last release beside the present one: daemons of each take over, consumers of each share.

Both are wheels that are built here, the last release's from its commit. Where the history lacks
that, as in an sdist, the present one stands for it: the stages are the same.
"""

import re
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.protocol.records import LagRecord
from levelwind.daemon.config.settings import load
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind.streaming.spark.checkpoint import STATE
from levelwind_testing.chaos.chaos_worker import CALM_FILE, Orders, boot_time
from levelwind_testing.chaos.checker import GroupHistory, ProcessRecord, check
from levelwind_testing.chaos.commit_history import read_commits
from levelwind_testing.chaos.crew import Member, stop_everything
from levelwind_testing.chaos.journal import Partition, read_journal
from levelwind_testing.chaos.traffic import SteadyProducer, create_topics
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.installed_release import (
    InstalledRelease,
    is_in_history,
)
from levelwind_testing.processes.whole_loop import QUICK_JVM
from levelwind_testing.releases.release_corpus import corpora
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(3600)]

LAST = corpora()[-1]
PARTITIONS, RATE = 6, 10.0
GROUPS = {"plain": None, "fenced": "broker"}
"""Groups by name, with their `fencing`."""
SETTINGS = (QUICK_JVM, "pipeline.parallelism=1", "pipeline.answer_timeout=300")
"""Settings of the daemons: a busy machine must not restart the pipeline. The timers are those that
both releases have by default, as operators leave them."""
SETTLE_SECONDS = 900.0
"""Longest wait for a stage: a pipeline starts in it."""
REJECTIONS = {"record.rejected", "pipeline.rejected", "lag.unreadable", "lever.unknown"}
"""Warnings of daemons about what another release wrote."""
OF_BUSY_MACHINES = {
    *("daemon.reads_nothing", "pipeline.silent"),
    *("member.holds_on", "member.fenced", "member.poll_overdue"),
}
"""Errors of daemons and members that a machine without CPU for them may cause."""
MEMBER_ERROR = re.compile(r" ERROR (\S+)")


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    directory = tmp_path_factory.mktemp("releases")
    present = InstalledRelease.of_this_checkout(directory / "present")
    if not is_in_history(LAST.commit):
        print(f"the history here lacks {LAST.commit}, the commit of release {LAST.version}")
        return {"last": present, "present": present}
    return {"last": InstalledRelease.of_commit(LAST.commit, directory / "last"), "present": present}


class Stage:
    """Daemons, members of two groups, and traffic; each process is of a release."""

    def __init__(self, cluster, releases, prefix, topic, directory):
        self.bootstrap, self.prefix, self.topic = cluster.bootstrap, prefix, topic
        self.releases, self.directory = releases, directory
        self.settings = load(overrides={"bootstrap": self.bootstrap, "prefix": prefix})
        self.daemons = []
        self.members = {}
        create_topics(self.bootstrap, [topic], PARTITIONS)
        (directory / CALM_FILE).touch()
        self.producer = SteadyProducer(self.bootstrap, [topic], PARTITIONS, RATE)
        self.readers = {}

    # Daemons.

    def daemon(self, release, state):
        """Start a daemon of a release on a directory of state; wait until it leads or stands by."""
        daemon = DaemonProcess(
            self.bootstrap,
            self.directory / state,
            f"prefix={self.prefix}",
            *SETTINGS,
            observed=self.topic,
            python=self.releases[release].python,
        )
        self.daemons.append(daemon)
        daemon.wait_for(
            "a place",
            lambda: daemon.logged("daemon.leading") or daemon.logged("daemon.standing_by"),
        )
        return daemon

    def leads(self, daemon):
        """Wait until a daemon leads, its pipeline has read everything, and its lag is right."""
        print("daemon", len(self.daemons), "is to lead")
        daemon.wait_for("lead", lambda: daemon.logged("daemon.leading"), SETTLE_SECONDS)
        daemon.wait_for("pipeline", lambda: daemon.logged("pipeline.caught_up"), SETTLE_SECONDS)
        for group in GROUPS:
            committed = self.committed(group)
            daemon.wait_for(
                f"lag of {group}",
                lambda group=group, least=committed: self.lag_has_counted(group, least),
                SETTLE_SECONDS,
            )

    def lag_has_counted(self, group, least):
        """Whether the newest lag counts these commits, and adds up."""
        newest = None
        for read in read_to_end(self.settings.client(), self.settings.topics, ["lag"], timeout=30):
            record = read.record
            if isinstance(record, LagRecord) and record.group == group:
                newest = record
        if newest is None:
            return False
        partitions = zip(newest.end, newest.committed, newest.lag, strict=True)
        assert all(
            lag == end - at
            for number, (end, at, lag) in enumerate(partitions)
            if at >= 0 and number not in newest.stale
        ), newest
        return all(newest.committed[number] >= offset for number, offset in least.items())

    # Members.

    def join(self, release, group, number):
        """Start a member of a release, or go on with another release under its name."""
        name = f"{group}-{number}"
        if name not in self.members:
            orders = Orders(
                bootstrap=self.bootstrap,
                group=group,
                topics=[self.topic],
                instance=name,
                prefix=self.prefix,
                timers={},
                journal="",
                seed=100 * len(self.members),
                fencing=GROUPS[group],
                commits="auto" if number % 2 else "sync",
            )
            self.members[name] = Member(orders, self.directory)
        member = self.members[name]
        if member.alive:
            member.ask_to_end()
            member.await_end()
        member.python = self.releases[release].python
        member.start()

    def everybody_works(self):
        """Wait until each member has begun with records of its present life."""
        lives = [member.lives[-1].name for member in self.members.values()]
        print("members:", *lives)

        def begun():
            paths = [self.directory / f"{name}.journal" for name in lives]
            return all(path.exists() and b'"begin"' in path.read_bytes() for path in paths)

        wait_until("work of every member", begun, SETTLE_SECONDS, pause=0.2, shown=self.tails)

    def committed(self, group):
        asked = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        found = self.reader(group).committed(asked, timeout=30)
        return {each.partition: max(each.offset, 0) for each in found}

    def ends(self):
        reader = self.reader("ends")
        asked = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        return {p.partition: reader.get_watermark_offsets(p, timeout=30)[1] for p in asked}

    def reader(self, group):
        if group not in self.readers:
            settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0}
            self.readers[group] = Consumer(settings | {"enable.auto.commit": False})
        return self.readers[group]

    # The end.

    def findings(self):
        """End traffic and members, and check what they did."""
        self.producer.stop()
        for group in GROUPS:
            wait_until(
                f"commit of all that {group} reads",
                lambda group=group: self.committed(group) == self.ends(),
                SETTLE_SECONDS,
                pause=0.5,
                shown=self.tails,
            )
        crashed = [text for member in self.members.values() if (text := member.crashed())]
        stop_everything(list(self.members.values()))
        wall_minus_boot = time.time() - boot_time()
        commits = read_commits(self.bootstrap, list(GROUPS), wall_minus_boot)
        named = {number: Partition(self.topic, number) for number in range(PARTITIONS)}
        found = [
            check(
                GroupHistory(
                    name=group,
                    processes=self.processes(group),
                    commits=commits[group],
                    committed={named[n]: at for n, at in self.committed(group).items()},
                    ends={named[n]: at for n, at in self.ends().items()},
                    fenced=fencing is not None,
                )
            )
            for group, fencing in GROUPS.items()
        ]
        return crashed, found

    def processes(self, group):
        return [
            ProcessRecord(
                name=life.name,
                entries=list(read_journal(self.directory / f"{life.name}.journal")),
                ended=boot_time() if life.ended is None else life.ended,
                pauses=life.pauses,
            )
            for member in self.members.values()
            if member.orders.group == group
            for life in member.lives
        ]

    def complaints(self):
        """What daemons and members have logged that tells of something not understood."""
        of_daemons = [
            event
            for daemon in self.daemons
            for event in daemon.events
            if event["level"] == "error" or event["event"] in REJECTIONS
        ]
        of_members = [
            {"event": name, "log": log.name}
            for log in sorted(self.directory.glob("*.log"))
            for name in MEMBER_ERROR.findall(log.read_text(errors="replace"))
        ]
        return [
            each for each in (*of_daemons, *of_members) if each["event"] not in OF_BUSY_MACHINES
        ]

    def tails(self):
        return "\n\n".join(daemon.tail() for daemon in self.daemons)

    def close(self):
        stop_everything([member for member in self.members.values() if member.alive])
        for reader in self.readers.values():
            reader.close()
        for daemon in self.daemons:
            daemon.stop()


@pytest.fixture
def stage(cluster, releases, fresh, tmp_path):
    stage = Stage(cluster, releases, fresh("upgrade") + ".", fresh("orders"), tmp_path)
    yield stage
    stage.close()


def goes_on(daemon):
    """Whether a daemon's pipeline continued the checkpoint that it found."""
    aside = daemon.logged("pipeline.checkpoint_set_aside")
    (caught_up,) = daemon.logged("pipeline.caught_up")[:1]
    assert bool(aside) == caught_up["rebuilt"]
    return not aside


def test_two_releases_share_an_installation_and_take_over_from_each_other(stage):
    same_state = LAST.state["version"] == STATE

    # The last release leads; members of both releases share each group.
    first = stage.daemon("last", "a")
    for group in GROUPS:
        stage.join("last", group, 0)
        stage.join("present", group, 1)
    stage.producer.start()
    stage.everybody_works()
    stage.leads(first)

    # The present one takes over from the last, which is killed.
    second = stage.daemon("present", "b")
    first.kill()
    stage.leads(second)
    for group in GROUPS:  # a consumer is upgraded, another one joins
        stage.join("present", group, 0)
        stage.join("last", group, 2)
    stage.everybody_works()

    # The killed one is upgraded: it stands by, takes over from its like, which is stopped, and
    # continues the checkpoint of the last release.
    third = stage.daemon("present", "a")
    assert second.stop() == 0
    stage.leads(third)
    assert goes_on(third) == same_state

    # The last release takes over from the present one, and continues its checkpoint.
    fourth = stage.daemon("last", "b")
    assert third.stop() == 0
    stage.leads(fourth)
    assert goes_on(fourth) == same_state
    for group in GROUPS:  # consumers go back to the last release, or on to the present one
        stage.join("last", group, 1)
        stage.join("present", group, 2)
    stage.everybody_works()

    crashed, found = stage.findings()
    assert crashed == []
    assert [violation for each in found for violation in each.violations] == []
    for each in found:
        assert each.counts["records"] > 0
        assert each.counts["released"] > 0, "no partition changed hands"
    stage.leads(fourth)
    assert stage.complaints() == []

"""Levers of operators on a real daemon with real members: at once, after a kill, and audited."""

import json
import signal
from dataclasses import replace

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import NewTopic

from levelwind.assignors.handover.timers import Timers
from levelwind.daemon.cli.main import main
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.member_process import MemberProcess
from levelwind_testing.processes.supervised_daemons import SupervisedDaemon
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FACTOR = 0.2
TIMERS = replace(
    Timers().scaled(FACTOR), dead_after=Timers().dead_after, takeover=Timers().takeover
)
PARTITIONS = 6
SETTINGS = (
    "pipeline.run=elsewhere",
    "http.listen=",
    *timer_settings(TIMERS),
)


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    """A supervised daemon, two members, and the command line."""
    directory = tmp_path_factory.mktemp("levers")

    class Stage:
        prefix, topic = f"{directory.name}.", f"{directory.name}-orders"

        def run(self, *arguments, code=0):
            options = ["--bootstrap", cluster.bootstrap, "--set", f"prefix={self.prefix}"]
            done = CliRunner().invoke(main, [*arguments, *options])
            assert done.exit_code == code, done.output
            return done.stdout

        def join(self, *names):
            self.members += [
                MemberProcess(cluster.bootstrap, self.prefix, "group", self.topic, name, FACTOR)
                for name in names
            ]

        def counts(self):
            return [len(member.owned) for member in self.members]

        def wait(self, what, holds):
            return wait_until(what, holds, shown=self.daemon.tail)

        def wait_for(self, *expected):
            self.wait(f"{expected}", lambda: tuple(self.counts()) == expected)

    new = NewTopic(Stage.topic, PARTITIONS, 1)
    create_topics({"bootstrap.servers": cluster.bootstrap}, new)
    stage = Stage()
    stage.members = []
    stage.daemon = SupervisedDaemon(
        cluster.bootstrap, directory, f"prefix={stage.prefix}", *SETTINGS
    )
    try:
        stage.wait("leader", lambda: stage.daemon.logged("daemon.leading"))
        stage.join("a", "b")
        yield stage
    finally:
        for member in stage.members:
            member.kill()
        stage.daemon.stop()


def decisions(stage):
    lines = stage.run("decisions", "group", "--format", "json").splitlines()
    return [json.loads(line) for line in lines]


def test_a_drain_is_followed_at_once_and_survives_a_kill_and_a_rollback_ends_what_it_did(stage):
    stage.wait_for(3, 3)
    published = [entry for entry in decisions(stage) if entry["outcome"] == "published"]
    level = published[-1]["plan_id"]
    assert "dry run" in stage.run("drain", "group", "a")
    stage.run("drain", "group", "a", "--execute", "--reason", "host goes away")
    stage.wait_for(0, PARTITIONS)
    terms = len(stage.daemon.logged("daemon.leading"))
    stage.daemon.kill()
    stage.wait("next term", lambda: len(stage.daemon.logged("daemon.leading")) > terms)
    assert stage.daemon.logged("config.overridden")[-1]["levers"] == ["group drain a"]
    # The daemon plans for a member more, and spares the drained one.
    stage.join("c")
    stage.wait_for(0, PARTITIONS // 2, PARTITIONS // 2)
    stage.members.pop().stop()
    stage.wait_for(0, PARTITIONS)

    stage.run("rollback", "group", "--to", level, "--execute")
    stage.wait_for(3, 3)
    stage.run("undrain", "group", "a", "--execute")
    stage.run("resume", "group", "--execute")
    trail = decisions(stage)
    orders = [entry["cause"] for entry in trail if entry["kind"] == "lever"]
    assert orders == ["drain", "rollback", "undrain", "resume"]
    plans = [entry for entry in trail if entry["outcome"] == "published"]
    assert len(plans) >= 3
    for plan in plans:
        result = json.loads(stage.run("replay", plan["id"], "--group", "group", "--format", "json"))
        assert result["identical"], result


def test_a_signal_reloads_the_settings_of_a_running_daemon(stage):
    stage.daemon.now.signal(signal.SIGHUP)
    stage.wait("reload", lambda: stage.daemon.logged("config.reloaded"))
    assert stage.daemon.logged("config.reloaded")[-1]["changed"] == []
    assert stage.daemon.logged("config.restart_needed") == []
    assert stage.daemon.now.child.poll() is None

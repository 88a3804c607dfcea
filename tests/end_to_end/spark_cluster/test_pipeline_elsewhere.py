"""The daemon plans from the lag of a pipeline on a Spark cluster, however that was started.

`test_cluster_faults.py` compares what a pipeline publishes under faults with the truth.
"""

from dataclasses import replace

import pytest

from levelwind.assignors.handover.timers import Timers
from levelwind_testing.processes.cluster_pipeline import ClusterPipeline
from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.whole_loop import Loop

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PREFIX = "elsewhere."
TIMERS = replace(Timers().scaled(0.5), takeover=Timers().takeover)
ENOUGH_SECONDS = 300.0
"""Longest wait for what a busy machine may take its time for."""


@pytest.fixture
def settings(tmp_path) -> tuple[str, ...]:
    """Settings that daemon and pipelines share."""
    return (
        f"prefix={PREFIX}",
        "pipeline.run=elsewhere",
        f"pipeline.checkpoint={(tmp_path / 'checkpoint').as_uri()}",
        "control.cooldown.duration=4",
        *timer_settings(TIMERS),
    )


@pytest.fixture
def loop(cluster, tmp_path, settings):
    state = tmp_path / "state"
    loop = Loop(cluster.bootstrap, state, PREFIX, TIMERS, settings, observed="elsewhere-.*")
    try:
        loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
        yield loop
    finally:
        loop.daemon.stop()


def plans_by_lag(loop, group):
    """A group of three followers whose lag grows skewed gets a plan that moves it apart."""
    group = f"elsewhere-{group}"
    topic = f"{group}-skewed"
    loop.create(topic, [[1]] * 6)
    followers = loop.follow(group, topic, "abc", rate=60)
    loop.daemon.wait_for(
        "the first plan's partitions",
        lambda: all(len(f.owned) == 2 for f in followers),
        ENOUGH_SECONDS,
    )
    hot = set(followers[0].owned)
    for number in range(6):
        loop.produce(topic, number, 3000 if number in hot else 30)
    plan = loop.daemon.wait_for(
        "a plan",
        lambda: loop.daemon.logged("plan.published", group=group, cause="skew"),
        ENOUGH_SECONDS,
    )[0]
    assert plan["after"]["skew"] < plan["before"]["skew"]
    assert loop.daemon.logged("trigger.raised", group=group, kind="skew")
    loop.daemon.wait_for(
        "the hot partitions with two followers",
        lambda: (
            sum(len(f.owned) for f in followers) == 6 and not any(hot <= f.owned for f in followers)
        ),
        ENOUGH_SECONDS,
    )
    loop.all_is_done(group, topic, followers)
    for follower in followers:
        follower.stop()


@pytest.fixture
def pipeline(cluster, spark, archive, tmp_path, settings):
    """Makes a pipeline by a name, and ends it after the test."""
    made = []

    def make(name):
        options = (f"bootstrap={cluster.bootstrap}", *settings)
        made.append(ClusterPipeline(spark, archive, tmp_path / name, options))
        return made[-1]

    yield make
    for each in made:
        if each.child is not None:
            each.child.kill()


def test_the_daemon_plans_by_a_pipeline_that_lost_a_worker(loop, spark, pipeline):
    first = pipeline("command")
    first.start()
    first.wait_for("the query", lambda: first.caught_up)
    loop.daemon.wait_for("its record", lambda: loop.daemon.logged("pipeline.reporting"))
    spark.kill(spark.workers[0])
    spark.start_worker()
    plans_by_lag(loop, "by-command")
    assert loop.daemon.logged("pipeline.started") == []


@pytest.mark.rare
def test_a_pipeline_of_spark_submit_takes_over_from_that_of_the_command(loop, pipeline):
    first, second = pipeline("command"), pipeline("submit")
    first.start()
    first.wait_for("the query", lambda: first.caught_up)
    loop.daemon.wait_for("its record", lambda: loop.daemon.logged("pipeline.reporting"))
    second.submit()
    assert first.wait_for_end(ENOUGH_SECONDS) == 1
    (replaced,) = first.logged("pipeline.superseded")
    second.wait_for("the query", lambda: second.caught_up)
    assert second.logged("pipeline.checkpoint_set_aside") == []
    loop.daemon.wait_for(
        "its record",
        lambda: loop.daemon.logged("pipeline.reporting", instance=replaced["instance"]),
    )
    plans_by_lag(loop, "by-submit")
    assert loop.daemon.logged("pipeline.started") == []

"""The lag of a group that counts: the same for decisions, metrics and `describe`."""

from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.control.settings import CooldownSettings
from levelwind.daemon.control.snapshot import current_lags, group_lag, known_speeds
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.service.metrics import Metrics
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing.control.play import SETTINGS, Play
from levelwind_testing.records import lag, member, skew_trigger, topic

NEW_ID = "B" * 22


def skew_in_metrics(play):
    metrics = Metrics("1", now=lambda: 12.0)
    metrics.show(lambda _: facts_about(play.state))
    text = generate_latest(metrics.registry).decode()
    samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
    return next(s.value for s in samples if s.name == "levelwind_group_skew_ratio")


def measured(views):
    return ShownGroup(views.groups["g"]).measured.lag


def test_the_lag_of_a_recreated_topic_counts_in_no_skew():
    """Topic u was recreated: its old lag, all of it one member's, must not show anywhere."""
    settings = replace(SETTINGS, settle=4.0, cooldown=CooldownSettings(duration=10.0))
    play, views = Play(settings=settings), GroupViews()

    def read(kind, record):
        views.apply(kind, record)
        play.receive(kind, record)

    def owned(topic_name):
        """Partitions of a topic that member a owns."""
        record = play.members["a", "i1"].owned
        return set(ranges.parse(ranges.texts(record)[topic_name]))

    def only_owned(topic_name, behind, else_behind, at):
        numbers = owned(topic_name)
        return lag(
            *(behind if n in numbers else else_behind for n in range(4)), topic=topic_name, at=at
        )

    play.start(topic("t"), topic("u"))
    play.join(*(member(name, topics=("t", "u")) for name in "ab"))
    play.wait(6)
    read("lag", only_owned("t", 10_000, 0, at=2_000))
    read("triggers", skew_trigger(at=3_000))
    while len(play.plans) < 2:  # the second, because of the skew, waits for the first cooldown
        play.wait(0.5)
    play.wait(9)
    for kind, record in play.published:
        views.apply(kind, record)
    read("lag", only_owned("t", 300, 100, at=4_000))
    read("lag", only_owned("u", 9_000, 0, at=4_000))
    read("metadata", topic("t"))
    read("metadata", topic("u", topic_id=NEW_ID, at=5_000))
    play.wait(2)
    (evaluated,) = play.logged("plan.evaluated")
    shown = {
        "decision": evaluated["achieved"],
        "metrics": skew_in_metrics(play),
        "describe": measured(views).skew,
    }
    # The decision is in seconds: 6 s of one member over the best, 4 s each, at the least speed.
    assert shown == {"decision": 2.0, "metrics": 1.5, "describe": 1.5}
    assert measured(views).total == 800


def test_lag_of_deleted_and_recreated_topics_is_left_out():
    lags = {name: lag(1, topic=name) for name in "tuvw"}
    topics = {"t": topic("t"), "u": topic("u", topic_id=NEW_ID)}
    assert sorted(current_lags(lags, topics, {"v"})) == ["t", "w"]


def test_describe_leaves_out_the_lag_of_a_topic_that_was_deleted():
    views = GroupViews()
    views.apply("lag", lag(5, 6))
    assert measured(views).total == 11
    views.apply("metadata", Tombstone(("topic", "t")))
    assert measured(views).total is None
    views.apply("metadata", topic())
    assert measured(views).total == 11


def test_the_load_of_members_is_in_seconds_by_their_learned_speeds():
    owners = {("t", 0): "a", ("t", 1): "b"}
    rates = {"rate": (50.0, 50.0)}
    figures = group_lag({"t": lag(3_000, 1_000, **rates)}, owners, {"a": 1, "b": 1}, {"a": 200.0})
    # 4,000 records behind, 100/s arrive and 400/s are read: 13.3 s to drain.
    assert known_speeds(figures) == {"a": 200.0, "b": 200.0}
    assert figures.drain.horizon == pytest.approx(4_000 / 300)
    assert figures.loads == pytest.approx({"a": 15 + 40 / 12, "b": 5 + 40 / 12})
    assert figures.drain_seconds == pytest.approx(15 + 40 / 12)
    assert (figures.drain.assumed, figures.drain.drains) == (False, True)


@pytest.mark.parametrize("owners", [{}, {("t", 0): "gone"}])
def test_lag_without_a_member_to_own_it_is_in_the_total_alone(owners):
    figures = group_lag({"t": lag(3, 4)}, owners, {"a": 1.0})
    assert (figures.total, figures.members, figures.skew) == (7, {"a": 0}, None)
    assert figures.largest_share == 0


@pytest.mark.parametrize("partition", [("t", 7), ("u", 0)])
def test_the_lag_of_an_owned_partition_without_a_sample_is_not_known(partition):
    figures = group_lag({"t": lag(3, 4)}, {partition: "a"}, {"a": 1.0})
    assert (figures.total, figures.unknown) == (7, 1)
    assert (figures.members, figures.unknown_of) == ({"a": None}, {"a": 1})
    figures = group_lag({"t": lag(3, 4)}, {partition: "a", ("t", 1): "a"}, {"a": 1.0})
    assert (figures.members, figures.unknown_of) == ({"a": 4}, {"a": 1})


def test_load_is_by_capacity_and_the_share_by_records():
    owners = {("t", 0): "a", ("t", 1): "b"}
    figures = group_lag({"t": lag(30, 10, at=7)}, owners, {"a": 3.0, "b": 1.0})
    assert (figures.skew, figures.largest_share, figures.oldest_at) == (1.0, 0.75, 7)


def test_a_group_that_nothing_is_known_of_has_no_lag():
    figures = group_lag({}, {}, {})
    assert (figures.total, figures.unknown, figures.oldest_at) == (None, 0, None)
    assert (figures.skew, figures.largest_share) == (None, None)

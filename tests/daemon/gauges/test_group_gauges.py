"""Figures of groups at a scrape: what is computed again, and the names that dashboards know."""

import pytest

from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.control.settings import ScalingSettings
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.gauges.group_families import families
from levelwind.daemon.gauges.group_gauges import GroupGauges
from levelwind_testing.control.two_members import two_members
from levelwind_testing.records import lag, member


class Time:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def play():
    """The play of two members, which have lag."""
    play = two_members("a", "b")
    play.receive("lag", lag(100, 200, 300, 400, at=2_000))
    return play


def samples(play, gauges, cluster="prod"):
    """Every sample by its name and labels."""
    return {
        (sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))): sample.value
        for family in families(facts_about(play.state), 12.0, gauges, cluster=cluster)
        for sample in family.samples
    }


def figures(play, gauges):
    ((_, found, _),) = gauges.read(facts_about(play.state))
    return found


def test_figures_are_computed_again_only_when_their_group_has_changed(play):
    gauges = GroupGauges()
    first = figures(play, gauges)
    play.wait(3)  # heartbeats
    assert figures(play, gauges) is first
    play.receive("lag", lag(0, 0, 0, 0, at=3_000))
    changed = figures(play, gauges)
    assert changed.lag.total == 0
    play.join(member("c"))
    assert figures(play, gauges).members == 3
    assert first.members == changed.members == 2


def test_a_sample_that_the_control_has_not_read_yet_is_seen(play):
    gauges = GroupGauges()
    assert figures(play, gauges).lag.total == 1000
    play.wait(60)
    play.receive("lag", lag(1, 1, 1, 1, at=60_000))
    assert figures(play, gauges).lag.total == 4


def test_lag_has_one_series_a_group_and_topic_under_the_names_that_dashboards_know(play):
    found = samples(play, GroupGauges())
    of = ("cluster_name=prod", "group=g")
    assert found["levelwind_group_topic_lag_records", "group=g", "topic=t"] == 1000
    assert found["kafka_consumergroup_group_lag", *of, "topic=t"] == 1000
    assert found["kafka_consumergroup_group_topic_sum_lag", *of, "topic=t"] == 1000
    assert found["kafka_consumergroup_group_sum_lag", *of] == 1000
    assert found["kafka_consumergroup_group_max_lag", *of] == 400
    ends = found["kafka_partition_latest_offset", "cluster_name=prod", "topic=t"]
    assert ends - found["kafka_consumergroup_group_offset", *of, "topic=t"] == 1000
    assert not [name for name in found if any("partition=" in label for label in name)]


def test_with_the_switch_lag_has_one_series_a_partition(play):
    found = samples(play, GroupGauges(partitions=True))
    lags = {
        next(label for label in name if label.startswith("partition=")): value
        for name, value in found.items()
        if name[0] == "kafka_consumergroup_group_lag"
    }
    assert lags == {f"partition={number}": 100 * (number + 1) for number in range(4)}
    assert sum(name[0] == "kafka_partition_latest_offset" for name in found) == 4
    assert sum(name[0] == "kafka_consumergroup_group_offset" for name in found) == 4
    assert found["kafka_consumergroup_group_sum_lag", "cluster_name=prod", "group=g"] == 1000


def test_seconds_are_the_longest_wait_and_have_no_series_where_none_is_known(play):
    assert not [name for name in samples(play, GroupGauges()) if "lag_seconds" in name[0]]
    play.receive("lag", lag(1, 1, 1, 1, at=3_000, seconds=(0.0, 2.5, None, 1.0)))
    found = samples(play, GroupGauges())
    of = ("cluster_name=prod", "group=g")
    assert found["kafka_consumergroup_group_lag_seconds", *of, "topic=t"] == 2.5
    assert found["kafka_consumergroup_group_max_lag_seconds", *of] == 2.5


def test_the_series_of_a_group_end_with_its_lag(play):
    gauges = GroupGauges(partitions=True)
    assert samples(play, gauges)["levelwind_group_members_wanted", "group=g"] == 2
    play.receive("lag", Tombstone(("lag", "g", "t")))
    left = {name[0] for name in samples(play, gauges)}
    assert not {name for name in left if name.startswith("kafka_")}
    assert "levelwind_group_members_wanted" not in left


def test_members_wanted_follow_the_settings_of_the_group_and_wait_before_they_fall(play):
    clock = Time()
    settings = {"g": ScalingSettings(member_speed=10.0, scale_down_after=30.0, drain_within=10.0)}
    gauges = GroupGauges(settings.__getitem__, clock=clock)
    assert figures(play, gauges).needed == 4  # 1,000 records in 10 s, 10/s each: no more partitions
    assert gauges.members_wanted(facts_about(play.state), "g") == 4
    play.receive("lag", lag(0, 0, 0, 1, at=3_000))
    clock.now = 10.0
    assert gauges.members_wanted(facts_about(play.state), "g") == 4
    clock.now = 45.0
    assert gauges.members_wanted(facts_about(play.state), "g") == 1
    assert gauges.members_wanted(facts_about(play.state), "no such group") is None


def test_a_daemon_that_leads_again_begins_with_the_members_that_a_group_has(play):
    clock = Time()
    gauges = GroupGauges(lambda _: ScalingSettings(member_speed=1e9), clock=clock)
    gauges.read(facts_about(play.state))
    clock.now = 1000.0
    gauges.forget()
    assert gauges.members_wanted(facts_about(play.state), "g") == 2

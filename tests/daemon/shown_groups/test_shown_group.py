"""A group is shown alike by commands, the API and the metrics."""

import json

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import BrokerRecord
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.gauges.group_families import families
from levelwind.daemon.inspection.printed_groups import printed_group, printed_summary
from levelwind.daemon.shown_groups.group_documents import group_document, group_summary
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing import records
from levelwind_testing.control.play import Play
from levelwind_testing.control.two_members import two_members
from levelwind_testing.page.scripted_groups import small_installation

OF_COMMANDS_ALONE = {"trigger", "partition", "offsets"}
"""Fields of `levelwind describe` that the API shows elsewhere, or by topic."""
OF_OTHER_TYPES = {"topics", "cross_rack", "plan", "proxy"}
"""Fields that release 0.1.0 of the commands has with other types than the API."""
GAUGES = {
    "lag": "lag_records",
    "unknown": "unknown_partitions",
    "unclaimed": "unclaimed_partitions",
    "wait_lower_bounds": "wait_lower_bound_partitions",
    "drain_seconds": "drain_seconds",
    "best_drain_seconds": "best_drain_seconds",
    "skew": "skew_ratio",
    "members": "members",
}
"""Gauges of a group by the field of its document."""


@pytest.fixture(scope="module")
def reads():
    return [(read.kind, read.record) for read in small_installation().first()]


@pytest.fixture(scope="module")
def groups(reads):
    """Groups of which some are managed and others subscribe."""
    views = GroupViews()
    for kind, record in reads:
        views.apply(kind, record)
    return {name: ShownGroup(view) for name, view in views.groups.items()}


def without(document, fields):
    return {name: value for name, value in document.items() if name not in fields}


def test_commands_print_the_documents_of_the_api_and_more(groups):
    for shown in groups.values():
        printed, document = printed_group(shown), group_document(shown)
        assert printed.keys() - document.keys() == OF_COMMANDS_ALONE
        assert without(printed, OF_COMMANDS_ALONE | OF_OTHER_TYPES) == without(
            document, OF_OTHER_TYPES
        )
        assert without(printed_summary(shown), OF_OTHER_TYPES) == without(
            group_summary(shown), OF_OTHER_TYPES
        )
        assert document.items() >= group_summary(shown).items()
        json.dumps(printed, allow_nan=False)


def test_metrics_have_the_figures_of_the_documents(groups, reads):
    play = Play(written=reads)
    play.restart()
    gauges = {
        (sample.name, sample.labels.get("group"), sample.labels.get("kind")): sample.value
        for family in families(facts_about(play.state), play.now)
        for sample in family.samples
    }
    assert {shown.records.watched for shown in groups.values()} == {True, False}
    for name, shown in groups.items():
        summary = group_summary(shown)
        for field, gauge in GAUGES.items():
            value = gauges.get((f"levelwind_group_{gauge}", name, None))
            assert value == pytest.approx(summary[field]), (name, field)
        for kind, ratio in shown.measured.crossing._asdict().items():
            assert gauges.get(("levelwind_group_cross_rack_ratio", name, kind)) == ratio


def test_a_managed_group_whose_consumers_subscribe_again_has_their_members_everywhere():
    """Its last plan stays, and said that it has none: an autoscaler was told one."""
    play, views = two_members(), GroupViews()
    for name in ("m0", "m1"):
        play.leave(name, "i1")
    play.wait(10)
    sample = records.lag(
        *(40, 30, 20, 10), at=round(play.now * 1000), members=("c0", "c1"), owner=(0, 0, 1, 1)
    )
    play.receive("lag", sample)
    for kind, record in (("metadata", records.topic()), ("assignments", records.plan())):
        views.apply(kind, record)
    assert not ShownGroup(views.groups["g"]).records.watched
    views.apply("lag", sample)
    shown = ShownGroup(views.groups["g"])
    assert shown.racks == {"c0": None, "c1": None}
    assert group_summary(shown)["members"] == 2
    gauges = {
        sample.name: sample.value
        for family in families(facts_about(play.state), play.now)
        for sample in family.samples
        if sample.labels.get("group") == "g"
    }
    assert gauges["levelwind_group_members"] == gauges["levelwind_group_members_wanted"] == 2
    assert gauges["levelwind_group_skew_ratio"] == pytest.approx(group_summary(shown)["skew"])


def managed(*assignments):
    """A group of one topic, whose partitions have their replicas in rack a."""
    views, racks = GroupViews(), (("a",), ("a",))
    views.apply("metadata", records.topic(racks=racks))
    for broker, rack in enumerate("ab"):
        views.apply(
            "metadata",
            BrokerRecord(broker=broker, at=1, rack=rack, online=True, follower_fetching=True),
        )
    views.apply("lag", records.lag(500, 3, racks=racks))
    views.apply("assignments", records.plan())
    for each in assignments:
        views.apply("assignments", each)
    return ShownGroup(views.groups["g"])


@pytest.mark.parametrize("state", ["refused", "evicted"])
@pytest.mark.parametrize("incarnation", ["a", "c"])
def test_an_idle_life_of_an_instance_changes_nothing_of_what_its_active_one_shows(
    state, incarnation
):
    active = records.assignment("m", {"t": (0, 1)}, incarnation="b", rack="a")
    idle = replace(records.assignment("m", {}, incarnation=incarnation, rack="b"), state=state)
    for lives in ((active, idle), (idle, active)):
        alone, shown = managed(active), managed(*lives)
        document = group_document(shown)
        assert group_summary(shown) == group_summary(alone)
        assert shown.racks == {"m": "a"}
        [beside] = [each for each in document["member"] if each["incarnation"] == incarnation]
        [member] = [each for each in document["member"] if each["incarnation"] == "b"]
        assert [member] == group_document(alone)["member"]
        assert (beside["state"], beside["rack"]) == (state, "b")
        assert (beside["partitions"], beside["owned"], beside["unknown"]) == (0, {}, 0)
        assert (beside["lag"], beside["load_seconds"], beside["speed"]) == (None, None, None)
        [topic] = document["topic"]
        assert {document["member"][owner]["incarnation"] for owner in topic["owner"]} == {"b"}
        assert topic["local"] == [True, True]

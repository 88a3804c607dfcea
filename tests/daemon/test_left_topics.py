"""A topic that the members of a group left is shown as left, and counts in no figure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.protocol.records import decode, encode
from levelwind.daemon.api.wire_models import GroupDocument
from levelwind.daemon.control.gain.demand import group_demand, surely_moderate
from levelwind.daemon.control.settings import ScalingSettings
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.gauges.group_figures import figures_of
from levelwind.daemon.inspection.printed_groups import printed_group
from levelwind.daemon.inspection.tables import print_group
from levelwind.daemon.shown_groups.group_documents import group_document
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing.control.play import Play
from levelwind_testing.records import lag, topic

FIGURES = ("lag", "unknown", "longest_wait_seconds", "drain_seconds", "skew", "load", "cross_rack")
"""Figures of a group in its document that a topic left may not change."""
SPEEDS = {"a": 100.0, "b": 50.0}


def read(*behind):
    """Lag of the topic that the members a and b read by turns."""
    count = len(behind)
    return lag(
        *behind,
        members=("a", "b"),
        owner=tuple(number % 2 for number in range(count)),
        rate=(3.0,) * count,
        seconds=tuple(map(float, behind)),
    )


def left(*behind, rate=1000.0):
    """Lag of a topic that was left, some records behind the commit in each partition."""
    count = len(behind)
    return replace(
        lag(*behind, topic="u", ends=[records + 1 for records in behind], rate=(rate,) * count),
        lag=(0,) * count,
        seconds=(0.0,) * count,
        unclaimed=behind,
        non_readers=("a", "b"),
    )


def view_of(*records):
    views = GroupViews()
    for record in records:
        views.apply("lag", decode("lag", *encode(record)))
    return ShownGroup(views.groups["g"])


BEHIND = st.lists(st.integers(0, 5000), min_size=1, max_size=4)


@given(BEHIND, BEHIND, st.floats(0, 1e6))
def test_a_topic_that_was_left_changes_no_figure_of_the_group(behind, waiting, rate):
    records = read(*behind), left(*waiting, rate=rate)
    alone, both = group_document(view_of(records[0])), group_document(view_of(*records))
    assert {name: both[name] for name in FIGURES} == {name: alone[name] for name in FIGURES}
    lags = {record.topic: record for record in records}
    one, two = (group_demand(found, SPEEDS, SPEEDS) for found in ({"t": records[0]}, lags))
    assert two == one
    if surely_moderate(records, SPEEDS, SPEEDS):
        assert two.members_wanted is None
        assert not two.unsplittable


def test_arrivals_and_partitions_of_a_topic_that_was_left_ask_for_no_members():
    play = Play(modes={"g": "advisory"})
    play.start(topic("t", ((), ())), topic("u", ((), ())), read(10, 10), left(500, 500))
    play.wait(2)
    scaling = ScalingSettings(member_speed=20.0, max_members=100)
    facts = facts_about(play.state)
    found = figures_of(facts.groups["g"], facts, scaling)
    assert (found.needed, found.lag.total, found.unclaimed) == (1, 20, 2)
    slow = ScalingSettings(member_speed=1.0, max_members=100)
    assert figures_of(facts.groups["g"], facts, slow).needed == 2, "its partitions"
    assert [topic.lag for topic in found.topics] == [20, 0]


def test_a_topic_that_was_left_is_named_and_its_partitions_say_what_waits(capsys):
    view = view_of(read(10, 10), replace(left(500, 20), committed=(1, -1)))
    document = group_document(view)
    GroupDocument.model_validate({**document, "members_wanted": None}, strict=True)
    assert {topic["topic"]: topic["left"] for topic in document["topic"]} == {"t": False, "u": True}
    described = printed_group(view)
    assert described["left_topics"] == ["u"]
    notes = [row["note"] for row in described["partition"] if row["topic"] == "u"]
    assert notes == ["left: 500 records", "left: 20 records by the reset policy"]
    print_group(view, 0)
    assert "left: u; no member reads there, and no lag counts" in capsys.readouterr().out


@pytest.mark.parametrize(("commits", "claimed"), [((-1, -1), (5, 5)), ((1, 1), (5, -1))])
def test_a_topic_without_commits_or_with_a_partition_that_is_claimed_is_not_left(commits, claimed):
    view = view_of(replace(left(5, 5), committed=commits, unclaimed=claimed))
    assert view.left_topics == []
    note = "unclaimed: 5 records" + (" by the reset policy" if commits[0] < 0 else "")
    assert printed_group(view)["partition"][0]["note"] == note

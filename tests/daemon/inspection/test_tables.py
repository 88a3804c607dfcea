"""What people are shown of groups: whole names, whatever is in them, and triggers in words."""

import pytest

from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import (
    BrokerRecord,
    MemberSpeed,
    RackChange,
    RacksEvidence,
    SpeedRecord,
    Tombstone,
    TriggerRecord,
)
from daemon.errors import NotFoundError
from daemon.inspection.group_view import GroupViews, find_group
from daemon.inspection.tables import describe_trigger, figure_text, print_group, print_groups
from levelwind_testing import records

LONG = "payments." + "settlement-" * 12 + "v2"


def lag(group, topic="t", *, behind=(70, 30)):
    ends = [100 + left for left in behind]
    racks = (("a", "b"),) * len(behind)
    return records.lag(*behind, group=group, topic=topic, at=1_000, ends=ends, racks=racks)


def owned(group, instance, numbers, *, capacity=1.0):
    assigned = ranges.by_topic([("t", number) for number in numbers])
    return records.assignment(
        instance, assigned, group=group, rack="a", capacity=capacity, reason="membership"
    )


def skew(**more):
    return records.skew_evidence(**({"backlog": 20_000} | more))


def views(*records):
    group_views = GroupViews()
    for kind, record in records:
        group_views.apply(kind, record)
    return group_views.groups


@pytest.mark.parametrize("name", ["orders[/]", "[bold]orders", LONG])
def test_a_groups_name_is_shown_whole_and_as_it_is_also_where_the_output_is_no_terminal(
    name, capsys
):
    groups = views(("lag", lag(name)), ("assignments", owned(name, f"{name}-7", [0])))
    print_groups(groups.values())
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "watched" in line]
    assert line.startswith(name)
    assert line.split()[1:] == ["watched", "-", "-", "1", "1", "100", "0.7", "s", "1.00", "-"]
    print_group(groups[name], now=2_000)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{name}  lag 100  skew 1"
    assert sum(f"{name}-7" in line for line in shown) == 2  # the member, and whose partition 0 is


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (
            skew(),
            (
                "the heaviest member would drain in 40.0 s, 20.0 s could be reached, for 30 s,"
                " 20,000 records behind"
            ),
        ),
        (
            skew(assumed=True),
            (
                "the heaviest member would drain in 40.0 s, 20.0 s could be reached, for 30 s,"
                " 20,000 records behind, speeds not known yet"
            ),
        ),
        (
            skew(heaviest=9.5, best=7.0, utilisation=0.95, best_utilisation=0.7, backlog=0),
            (
                "a member needs 95% of its capacity for what arrives, 70% could be reached,"
                " for 30 s, 0 records behind"
            ),
        ),
        (
            RacksEvidence(topics={"t": {0: RackChange(before=("a",), after=("b",))}}),
            "the replica racks of 1 partition changed",
        ),
    ],
)
def test_a_trigger_is_described_in_words(evidence, words):
    assert describe_trigger(evidence.value(), seconds=30.0) == words


def test_an_active_trigger_is_shown_with_its_age(capsys):
    record = TriggerRecord(group="g", at=61_000, since=31_000, evidence=skew(), source={})
    (group,) = views(("lag", lag("g")), ("triggers", record)).values()
    print_group(group, now=91_000)
    assert (
        "trigger skew, active for 1 min: the heaviest member would drain in 40.0 s"
        in capsys.readouterr().out
    )


def test_a_cross_rack_share_is_called_nominal_where_brokers_serve_reads_from_leaders_alone(capsys):
    plan = records.plan(after={"cross_rack": 0.0})
    brokers = [
        ("metadata", BrokerRecord(broker=n, at=1, rack="a", online=True, follower_fetching=n == 1))
        for n in (1, 2)
    ]
    (real,) = views(brokers[0], ("assignments", plan)).values()
    print_group(real, now=2_000)
    assert "nominal" not in capsys.readouterr().out
    (nominal,) = views(*brokers, ("assignments", plan)).values()
    print_group(nominal, now=2_000)
    assert "cross_rack is nominal: consumers fetch from leaders alone, since brokers 2 have" in (
        capsys.readouterr().out
    )
    assert nominal.as_json()["leader_only_brokers"] == [2]


def test_the_load_of_a_group_is_shown_in_seconds_with_its_parts(capsys):
    learned = SpeedRecord(group="g", at=1, members={"A": MemberSpeed(speed=50.0, sure=0.8)})
    figures = records.lag(700, 300, group="g", rate=(40.0, 20.0))
    group_views = GroupViews()
    for kind, record in (
        ("lag", figures),
        ("lag", learned),
        ("assignments", owned("g", "A", [0, 1])),
    ):
        group_views.apply(kind, record)
    view = group_views.groups["g"]
    print_group(view, now=2_000)
    shown = capsys.readouterr().out
    assert "load 4,340 s of the most loaded member, 4,340 s at best, 3,600 s for the group" in shown
    assert "60 records/s arrive, 50/s can be read; the busiest member needs 120% of its" in shown
    assert "cannot drain: it wants 2 members of today's speed" in shown
    (row,) = view.as_json()["member"]
    assert (row["speed"], row["load_seconds"]) == (50.0, 4_340.0)
    assert view.as_json()["load"]["members_wanted"] == 2
    print_groups([view])
    assert "4,340 s" in capsys.readouterr().out
    group_views.apply("lag", Tombstone(("speed", "g")))
    print_group(view, now=2_000)
    assert "(assumed: no member's speed is known yet)" in capsys.readouterr().out


def test_a_group_of_which_only_a_trigger_is_left_is_still_a_group():
    record = TriggerRecord(group="g", at=2, since=1, evidence=skew(), source={})
    group_views = GroupViews()
    group_views.apply("lag", lag("g"))
    group_views.apply("triggers", record)
    group_views.apply("lag", Tombstone(("lag", "g", "t")))
    assert list(group_views.groups) == ["g"]
    group_views.apply("triggers", Tombstone(("skew", "g")))
    assert group_views.groups == {}


def test_lag_that_nobody_has_told_of_yet_is_not_none(capsys):
    groups = views(("assignments", owned("g", "A", [0])))
    print_groups(groups.values())
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "g",
        "watched",
        "-",
        "-",
        "1",
        "0",
        *["-"] * 4,
    ]
    print_group(groups["g"], now=1)
    shown = capsys.readouterr().out
    assert "g  lag not known yet" in shown
    assert "PARTITION" not in shown
    assert groups["g"].summary()["lag"] is None


def test_figures_of_a_plan_are_as_short_as_they_are():
    assert [figure_text(value) for value in (None, 0.0, 8.0, 1.4567, 0.25)] == [
        "-",
        "0",
        "8",
        "1.46",
        "0.25",
    ]


def test_a_group_that_is_not_known_is_answered_with_the_nearest_names_and_not_with_all():
    groups = views(
        *(
            ("lag", lag(f"{name}-{number}"))
            for name in ("orders", "payments")
            for number in range(20)
        )
    )
    with pytest.raises(NotFoundError) as caught:
        find_group(groups, "order-7")
    assert "no group 'order-7' is known here; the nearest of 40 are orders-7" in str(caught.value)
    assert "payments" not in str(caught.value)
    with pytest.raises(NotFoundError, match="no group 'x' is known here, nor any other"):
        find_group({}, "x")
    with pytest.raises(NotFoundError, match="no group 'zzz' is known here; there are 2: a, b"):
        find_group(views(("lag", lag("b")), ("lag", lag("a"))), "zzz")
    assert find_group(groups, "orders-7").name == "orders-7"

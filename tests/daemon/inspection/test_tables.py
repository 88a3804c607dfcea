"""What people are shown of groups: whole names, whatever is in them, and triggers in words."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.declared.declaration import as_document
from levelwind.assignors.protocol.records import (
    BrokerRecord,
    CutRecord,
    MemberSpeed,
    ProxyRecord,
    RackChange,
    RacksEvidence,
    SpeedRecord,
    Tombstone,
    TriggerRecord,
)
from levelwind.assignors.protocol.records.cutting import cut_assignments
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.inspection.printed_groups import printed_group
from levelwind.daemon.inspection.tables import (
    describe_trigger,
    figure_text,
    print_group,
    print_groups,
)
from levelwind.daemon.shown_groups.group_documents import group_summary
from levelwind.daemon.shown_groups.group_view import GroupViews, find_group
from levelwind.daemon.shown_groups.shown_group import ShownGroup
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
    return {name: ShownGroup(view) for name, view in group_views.groups.items()}


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
    assert describe_trigger(as_document(evidence), seconds=30.0) == words


def subscribed(mode, *, owner, planned, shard_epoch=1):
    """A group that subscribes, with members a and b in two racks, and its plan."""
    measured = records.lag(
        60,
        20,
        10,
        group="g",
        members=("a", "b"),
        member_racks=("east", None),
        owner=owner,
    )
    shares = {name: {"t": tuple(numbers)} for name, numbers in planned.items()}
    shards, cut = cut_assignments("g", shard_epoch, shares)
    head = replace(records.plan(), mode=mode, assignments=cut)
    return [("lag", measured), *(("assignments", record) for record in (*shards, head))]


@pytest.mark.parametrize(
    ("standing", "reason", "shown"),
    [
        (None, "", "leader proxy: not in the group yet"),
        ("waiting for the lead", "", "leader proxy: waiting for the lead for 1 s"),
        ("backing off", "no layout of 't'", "leader proxy: backing off for 1 s: no layout of 't'"),
    ],
)
def test_a_proxied_group_is_shown_with_how_the_proxy_stands_to_it(capsys, standing, reason, shown):
    found = subscribed("proxy", owner=(0, 0, 1), planned={"a": [0, 1], "b": [2]})
    if standing is not None:
        record = ProxyRecord(group="g", at=1_000, planner_epoch=1, standing=standing, reason=reason)
        found.append(("assignments", record))
    (view,) = views(*found).values()
    print_group(view, now=2_000)
    assert shown in capsys.readouterr().out.splitlines()
    gone = views(*found, ("assignments", Tombstone(("proxy", "g"))))
    assert gone["g"].records.proxy is None


def test_a_published_plan_is_shown_beside_what_the_members_own(capsys):
    found = subscribed("published", owner=(0, 0, 1), planned={"a": [0], "b": [1], "c": [2]})
    (view,) = views(*found).values()
    print_groups([view, *views(("lag", lag("other"))).values()])
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.endswith("AS PLANNED  TRIGGERS")
    assert first.split()[-2:] == ["-", "-"]
    assert second.split()[:6] == ["g", "published", "optimal", "1", "2", "1"]
    assert second.split()[-2:] == ["1/3", "-"]
    print_group(view, now=2_000)
    shown = capsys.readouterr().out
    assert "published: 1 of 3 planned partitions are with their planned members" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["MEMBER", "RACK", "OWNED", "PLANNED", "LAG", "LOAD", "SPEED"] in rows
    assert [row[:5] for row in rows if row and row[0] in "abc"] == [
        ["a", "east", "t:0-1", "t:0", "80"],
        ["b", "-", "t:2", "t:1", "10"],
        ["c", "-", "-", "t:2", "-"],
    ]
    # Topic, partition, consumer and planned owner.
    assert [[row[n] for n in (1, 2, 6, 12)] for row in rows if row[:2] == ["g", "t"]] == [
        ["t", "0", "a", "a"],
        ["t", "1", "a", "b"],
        ["t", "2", "b", "c"],
    ]
    shown = printed_group(view)
    assert shown["planned"] == {"partitions": 3, "as_planned": 1}
    assert (
        shown["member"][0].items()
        >= {
            "instance": "a",
            "state": "watched",
            "rack": "east",
            "partitions": 2,
            "owned": {"t": "0-1"},
            "planned": {"t": "0"},
            "lag": 80,
            "unknown": 0,
            "speed": None,
        }.items()
    )
    assert [row["planned"] for row in shown["partition"]] == ["a", "b", "c"]


def test_an_advisory_plan_is_called_a_recommendation(capsys):
    (view,) = views(*subscribed("advisory", owner=(0, 0, 1), planned={"a": [0, 2]})).values()
    print_group(view, now=2_000)
    assert (
        "advisory: nobody applies the plan; 1 of 2 planned partitions are where it recommends"
        in capsys.readouterr().out
    )


def test_a_plan_that_lacks_a_shard_shows_no_assignment(capsys):
    found = subscribed("published", owner=(0, 0, 1), planned={"a": [0]}, shard_epoch=7)
    (view,) = views(*found).values()
    print_group(view, now=2_000)
    assert "planned partitions" not in capsys.readouterr().out
    assert printed_group(view)["planned"] is None
    group_views = GroupViews()
    for kind, record in found[1:]:
        group_views.apply(kind, record)
    for key in (("p", "g", 0), ("g", "g")):
        group_views.apply("assignments", Tombstone(key))
    assert group_views.groups == {}


def test_members_of_a_group_without_any_plan_are_those_that_own_its_partitions(capsys):
    measured = records.lag(60, 20, group="g", members=("a", "b"), owner=(0, 1))
    (view,) = views(("lag", measured)).values()
    print_group(view, now=2_000)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:5] for row in rows if row and row[0] in "ab"] == [
        ["a", "-", "t:0", "-", "60"],
        ["b", "-", "t:1", "-", "20"],
    ]


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
    assert printed_group(nominal)["leader_only_brokers"] == [2]


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
    view = ShownGroup(group_views.groups["g"])
    print_group(view, now=2_000)
    shown = capsys.readouterr().out
    assert "load 4,340 s of the most loaded member, 4,340 s at best, 3,600 s for the group" in shown
    assert "60 records/s arrive, 50/s can be read; the busiest member needs 120% of its" in shown
    assert "cannot drain: it wants 2 members of today's speed" in shown
    (row,) = printed_group(view)["member"]
    assert (row["speed"], row["load_seconds"]) == (50.0, 4_340.0)
    assert printed_group(view)["load"]["members_wanted"] == 2
    print_groups([view])
    assert "4,340 s" in capsys.readouterr().out
    group_views.apply("lag", Tombstone(("speed", "g")))
    print_group(ShownGroup(group_views.groups["g"]), now=2_000)
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
    assert group_summary(groups["g"])["lag"] is None


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


@pytest.mark.parametrize(
    ("kind", "record", "name"),
    [
        ("lag", lag("g"), "lag of t"),
        ("lag", SpeedRecord(group="g", at=1, members={}), "speed"),
        ("triggers", records.skew_trigger(), "skew"),
    ],
)
def test_a_record_that_is_not_published_is_named_until_it_is_or_ends(capsys, kind, record, name):
    group_views = GroupViews()
    cut = CutRecord(head_key=record.key, bytes=900, shards=None)
    group_views.apply(kind, cut)
    view = ShownGroup(group_views.groups["g"])
    assert group_summary(view)["unwritten"] == [name]
    print_group(view, 2_000)
    assert f"{name} is not published: raise max.message.bytes" in capsys.readouterr().out
    group_views.apply(kind, record)
    assert view.records.unwritten == {}
    group_views.apply(kind, cut)
    group_views.apply(kind, Tombstone(record.key))
    assert group_views.groups == {}

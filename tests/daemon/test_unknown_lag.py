"""Unknown is not zero: a lag that is not known is shown nowhere as 0, and in no sum unmarked."""

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import decode, encode
from levelwind.daemon.api.wire_models import GroupDocument
from levelwind.daemon.control.gain.scaling import members_needed
from levelwind.daemon.control.planning import build_problem
from levelwind.daemon.control.settings import ScalingSettings
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.gauges.group_families import families
from levelwind.daemon.gauges.group_gauges import GroupGauges
from levelwind.daemon.inspection.printed_groups import printed_group
from levelwind.daemon.inspection.tables import print_group, print_groups
from levelwind.daemon.shown_groups.group_documents import group_document, group_summary
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.offset_rows import offset_rows, write_csv
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind.daemon.simulation.trace import read_trace
from levelwind_testing.control.two_members import two_members
from levelwind_testing.records import assignment, lag, member, topic

AT = 50_000
KINDS = ("known", "unread", "late", "unclaimed", "beyond")
"""What is known of a partition: its lag; nothing, since its end was never read, or since that was
read before the commit; that nobody claims it; that its commit lies beyond the end of the sample."""
UNKNOWN = ("unread", "late")


def sample(kinds, behind, *, group="g"):
    """A lag record as the pipeline publishes it; by partition a kind, and records behind."""
    known = [records if kind == "known" else 0 for kind, records in zip(kinds, behind, strict=True)]
    numbers = range(len(kinds))
    record = lag(*known, group=group, at=AT, ends=[100 + records for records in known])
    return replace(
        record,
        committed=tuple(
            {"late": 120, "beyond": 120, "unclaimed": -1}.get(kind, 100) for kind in kinds
        ),
        end=tuple(-1 if kinds[n] == "unread" else record.end[n] for n in numbers),
        end_read_at=tuple({"unread": -1, "late": AT - 9_000}.get(kind, AT) for kind in kinds),
        stale=tuple(n for n in numbers if kinds[n] in {"unread", "late", "beyond"}),
        seconds=tuple(None if kinds[n] == "unread" else float(known[n]) for n in numbers),
        unclaimed=tuple(5 if kind == "unclaimed" else -1 for kind in kinds)
        if "unclaimed" in kinds
        else None,
    )


def view_of(kinds, behind):
    """The group's view; members a and b own all but the unclaimed partitions, by turns."""
    views = GroupViews()
    views.apply("lag", sample(kinds, behind))
    for number, instance in enumerate("ab"):
        share = [("t", n) for n in range(number, len(kinds), 2) if kinds[n] != "unclaimed"]
        views.apply("assignments", assignment(instance, ranges.by_topic(share), group="g"))
    return ShownGroup(views.groups["g"])


partitions = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 40)), min_size=1, max_size=6
).map(lambda pairs: tuple(zip(*pairs, strict=True)))


def expected(kinds, behind):
    """By partition the lag that may be shown; None: not known."""
    return [
        None if kind in UNKNOWN else records if kind == "known" else 0
        for kind, records in zip(kinds, behind, strict=True)
    ]


def total(lags):
    known = [records for records in lags if records is not None]
    return sum(known) if known else None


@given(partitions)
def test_what_is_not_known_is_null_in_every_document_and_missing_in_every_sum(found):
    kinds, behind = found
    lags, view = expected(kinds, behind), view_of(kinds, behind)
    unknown = [number for number, records in enumerate(lags) if records is None]
    # The API
    document = group_document(view)
    GroupDocument.model_validate({**document, "members_wanted": None}, strict=True)
    assert (document["lag"], document["unknown"]) == (total(lags), len(unknown))
    assert group_summary(view)["lag"] == document["lag"]
    (topic,) = document["topic"]
    assert (topic["lag"], topic["total_lag"], topic["unknown"]) == (lags, total(lags), unknown)
    assert all(topic["seconds"][number] is None for number in unknown)
    # The command line
    shown = json.loads(json.dumps(printed_group(view)))
    assert (shown["lag"], shown["unknown"]) == (total(lags), len(unknown))
    assert [row["lag"] for row in shown["partition"]] == lags
    offsets = {row["partition"]: row for row in shown["offsets"] if row["topic"]}
    assert all(row["lag"] == lags[number] for number, row in offsets.items())
    assert all(offsets[number]["seconds"] is None for number in unknown)
    for number in unknown:
        assert "not known" in shown["partition"][number]["note"]
    # Members: nothing owned is 0, nothing known is null.
    for number, row in enumerate(shown["member"]):
        own = [lags[n] for n in range(number, len(kinds), 2) if kinds[n] != "unclaimed"]
        assert row["lag"] == (total(own) if own else 0)
        assert row["unknown"] == own.count(None)
        assert document["member"][number]["lag"] == row["lag"]


@given(partitions)
def test_no_log_end_is_shown_below_a_commit_that_the_log_had_reached(found):
    kinds, behind = found
    view, record = view_of(kinds, behind), sample(kinds, behind)
    shown = {row["partition"]: row for row in printed_group(view)["offsets"] if row["topic"]}
    (documented,) = group_document(view)["topic"]
    for number, end in enumerate(documented["end"]):
        if record.end[number] < 0:
            assert end is None
        else:
            assert end == max(record.end[number], record.committed[number])
        assert number not in shown or shown[number]["log_end_offset"] == end
    reset = replace(record, reset=tuple(range(len(kinds))))
    assert reset.known_end == tuple(end if end >= 0 else None for end in record.end)


@given(partitions, st.booleans())
def test_what_is_not_known_has_no_series_and_its_sums_are_marked(found, by_partition):
    kinds, behind = found
    lags = expected(kinds, behind)
    play = two_members("a", "b")
    play.receive("lag", sample(kinds, behind))
    series = {
        (each.name, each.labels.get("partition", "")): each.value
        for family in families(facts_about(play.state), 60.0, GroupGauges(partitions=by_partition))
        for each in family.samples
        if each.labels.get("group", "g") == "g"
    }
    # Partitions that members own and the sample does not have are not known either.
    unsampled = len([each for each in play.state.groups["g"].owners() if each[1] >= len(kinds)])
    unknown = lags.count(None) + unsampled
    assert series["levelwind_group_unknown_partitions", ""] == unknown
    for name in (
        "levelwind_group_lag_records",
        "levelwind_group_topic_lag_records",
        "kafka_consumergroup_group_sum_lag",
        "kafka_consumergroup_group_topic_sum_lag",
    ):
        assert series.get((name, "")) == total(lags)
    known = [records for records in lags if records is not None]
    assert series.get(("kafka_consumergroup_group_max_lag", "")) == max(known, default=None)
    ends = {str(n) for n, kind in enumerate(kinds) if kind != "unread"}
    if by_partition:
        for number, records in enumerate(lags):
            assert series.get(("kafka_consumergroup_group_lag", str(number))) == records
        assert {key[1] for key in series if key[0] == "kafka_partition_latest_offset"} == ends
    else:
        assert (("kafka_partition_latest_offset", "") in series) == bool(ends)
    if total(lags) is None:
        assert ("levelwind_group_members_wanted", "") not in series


@pytest.mark.parametrize(
    ("kinds", "shown", "line"),
    [
        (["known", "known"], "12", "lag 12  skew"),
        (["unread", "known"], "≥5", "lag ≥5 (that of 1 of its partitions is not known)"),
        (["late", "known"], "≥5", "lag ≥5 (that of 1 of its partitions is not known)"),
        (["unread", "late"], "-", "lag not known yet"),
    ],
)
def test_tables_print_a_dash_and_mark_a_partial_sum(kinds, shown, line, capsys):
    view = view_of(kinds, [7, 5])
    print_groups([view])
    header, row = capsys.readouterr().out.splitlines()
    assert row[header.index("LAG") - 5 : header.index("LAG") + 3].split()[-1] == shown
    print_group(view, now=AT)
    text = capsys.readouterr().out
    assert line in text
    lags = expected(kinds, [7, 5])
    rows = [cells for cells in map(str.split, text.splitlines()) if cells[:2] == ["g", "t"]]
    assert [cells[5] for cells in rows] == ["-" if n is None else str(n) for n in lags]
    write_csv(offset_rows(view))
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [cells["LAG"] for cells in table] == ["" if n is None else str(n) for n in lags]


def test_groups_of_which_nothing_is_known_come_last_and_partial_sums_before_whole_ones(capsys):
    views = GroupViews()
    for name, kinds in {
        "none": ("unread", "unread"),
        "partial": ("known", "unread"),
        "whole": ("known", "beyond"),
    }.items():
        views.apply("lag", sample(kinds, (4, 0), group=name))
    print_groups(map(ShownGroup, views.groups.values()))
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["partial", "whole", "none"]


def test_no_member_is_taken_away_while_a_lag_is_not_known():
    settings = ScalingSettings()
    work = np.array([10.0, 0.0]), np.array([1.0, 0.0])
    assert members_needed(*work, 7, 100.0, settings) == 1
    assert members_needed(*work, 7, 100.0, settings, unknown=1) == 7
    capped = ScalingSettings(max_members=5)
    assert members_needed(*work, 7, 100.0, capped, unknown=1) == 5


def test_a_trace_takes_no_lag_from_a_sample_that_does_not_know_it():
    first = sample(["late", "known", "unread"], [0, 9, 0])
    later = replace(sample(["known"] * 3, [3, 4, 5]), at=AT + 5_000, end_read_at=None, stale=())
    lines = [b'{"key":%b,"value":%b}' % encode(record) for record in (first, later)]
    # All three records that partition 0 is behind later arrived after the first sample.
    assert read_trace(lines).lags == {"t": {0: 0, 1: 9, 2: 5}}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_is_not_known_weighs_nothing_in_a_plan(kind):
    """No partition is moved for a load that nobody knows, nor for the lack of one."""
    members = {name: member(name) for name in "ab"}
    problems = [
        build_problem(members, {"t": topic("t")}, {"t": sample(kinds, (9, 9))}, {("t", 0): "a"})
        for kinds in ((kind, "known"), ("beyond", "known"))
    ]
    assert [problem.lag.tolist() for problem in problems] == [problems[1].lag.tolist()] * 2
    assert problems[0].lag[0] == 0


@given(partitions)
def test_the_record_says_by_its_columns_alone_what_is_not_known(found):
    record = sample(*found)
    key, value = encode(record)
    lags = expected(*found)
    assert list(decode("lag", key, value).known_lag) == lags
    # Of a reader that knows nothing of this the column is as it always was.
    assert json.loads(value)["lag"] == [records or 0 for records in lags]

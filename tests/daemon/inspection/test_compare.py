"""`levelwind compare`: on problems of a file, and on a group as our topics have it."""

import json

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.protocol.records import Rejection, decode
from levelwind.assignors.registry import STRATEGIES
from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import load
from levelwind.daemon.control.planning import options_of
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.inspection.compare import compare_group
from levelwind.daemon.inspection.live_group import group_from_records

PROBLEM = {
    "id": "KAFKA-5337",
    "topics": {"t0": {"partitions": 3}},
    "members": {"C0": {"topics": ["t0"]}, "C1": {"topics": ["t0"]}},
    "lags": {"t0": [100_000, 60_000, 50_000]},
}


def levelwind(*arguments, stdin=None):
    return CliRunner().invoke(main, arguments, input=stdin)


def lines(*problems):
    return "".join(
        (item if isinstance(item, str) else json.dumps(item)) + "\n" for item in problems
    )


def test_the_table_has_a_row_for_each_strategy_under_the_problems_title():
    result = levelwind("compare", "-", "--strategy", "range, lag", stdin=lines(PROBLEM))
    assert result.exit_code == 0
    title, heading, *rows = result.stdout.rstrip().splitlines()
    assert title == "KAFKA-5337: 2 members, 1 topic, 3 partitions"
    assert heading.split() == [
        "strategy",
        "spread",
        "cross-rack",
        "moved",
        "skew",
        "drain",
        "s",
        "wait",
        "s",
        "utilisation",
        "µs",
    ]
    assert [row.split()[0] for row in rows] == ["range", "lag"]
    assert "1.04762*" in rows[1]


def test_a_problem_may_name_its_strategies_and_options_and_all_are_compared_where_none_are_named():
    named = PROBLEM | {"strategy": "lag"}
    strange = PROBLEM | {"strategy": ["lag-global"], "options": {"max_count_skew": 0}}
    result = levelwind("compare", "-", "--format", "json", stdin=lines(named, PROBLEM, strange))
    single, everything, refused = map(json.loads, result.stdout.splitlines())
    assert [row["strategy"] for row in single["strategies"]] == ["lag"]
    assert [row["strategy"] for row in everything["strategies"]] == list(STRATEGIES)
    assert all(row["violations"] == [] for row in everything["strategies"])
    assert refused["error"].startswith("option max_count_skew")


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ("{broken", "line: not valid JSON"),
        ("[]", "line: must be an object"),
        ('{"strategy": 5, "topics": {}, "members": {}}', "strategy 5 is unknown"),
        ('{"id": {"a": 1}}', "topics: must be an object"),
        (json.dumps(PROBLEM | {"members": {"C0": {}}}), "member 'C0': topics must be"),
    ],
)
def test_a_problem_that_is_wrong_says_why_and_the_next_goes_on(broken, error):
    result = levelwind("compare", "-", "--format", "json", stdin=lines(broken, "", PROBLEM))
    wrong, right = map(json.loads, result.stdout.splitlines())
    assert wrong["error"].startswith(error)
    assert right["id"] == "KAFKA-5337"
    assert "\nerror: " + error in levelwind("compare", "-", stdin=lines(broken)).stdout


@pytest.mark.parametrize(("lag", "moved"), [(3, 0), (40_000, 1)])
def test_a_group_as_it_stands_is_compared_as_the_daemon_would_plan_it(lag, moved):
    topics = {"t": Topic(partitions=4, lags=[lag, lag, 0, 0])}
    members = [
        Member(id="A", topics="*", owned={"t": [0, 1]}),
        Member(id="B", topics="*", owned={"t": [2, 3]}),
    ]
    (row,) = compare_group(
        "g", Group.build(topics, members), ["optimal"], options_of(load().planning_of("g"))
    ).rows
    assert row.score.moved == moved


def test_the_picture_shows_every_problem_that_could_be_compared(tmp_path):
    path = tmp_path / "scores.svg"
    problems = lines(PROBLEM, "{broken", PROBLEM | {"id": "b"})
    result = levelwind(
        "compare", "-", "--strategy", "lag,lag-global", "--chart", str(path), stdin=problems
    )
    assert result.exit_code == 0
    drawn = path.read_text()
    assert "KAFKA-5337: 2 members" in drawn
    assert ">b: 2 members" in drawn
    assert "lag-global" in drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name either a file of PROBLEMS or a --group"),
        (("-", "--group", "orders"), "name either a file of PROBLEMS or a --group"),
        (("-", "--strategy", "lagg"), "the nearest is 'lag'"),
        (("-", "--chart", "scores.gif"), "must end in .svg or .png"),
        (("-", "--chart", "nothing.svg"), "0 could be compared"),
        (("no-such-file",), "No such file"),
    ],
)
def test_wrong_usage_ends_with_2(arguments, message):
    result = levelwind("compare", *arguments, stdin="")
    assert result.exit_code == 2
    assert message in result.output


def records(beat=1):
    """Group `g`: `a` restarted as `a2` and owns partitions 0 and 1, `b` joined, `c` left."""

    def member(instance, incarnation, state, rack):
        fields = {
            "v": 2,
            "client": "c",
            "client_version": "1",
            "topics": ["t", "gone"],
            "rack": rack,
            "priority": 3,
        }
        fields |= {"capacity": 1.0, "state": state, "acked_epoch": 0, "owned": {}, "nack": None}
        fields |= {"planner_epoch": 0, "starting": {}, "transactional_id": None}
        fields |= {"hold_ms": 20_000, "commit_ms": 12_000, "max_poll_interval_ms": 300_000}
        return (
            "members",
            ["m", "g", instance, incarnation],
            fields | {"features": [], "heartbeat": beat},
        )

    placed = {
        "leader": [1] * 4,
        "replicas": [[1]] * 4,
        "isr": [[1]] * 4,
        "racks": [["x"], ["y"], ["x"], ["y"]],
    }
    numbers = {name: [0] * 4 for name in ("committed", "committed_at", "begin", "lost")}
    lags = {
        "end": [9, 9, 1, 1],
        "lag": [9, 9, 1, 1],
        "stale": [],
        "racks": placed["racks"],
        "source": {},
    }
    held = {
        "assigned": {"t": "0-1"},
        "pending": {},
        "revoking": {},
        "rack": "x",
        "capacity": 1.0,
        "reason": "",
    }
    epochs = {"planner_epoch": 1, "group_epoch": 1, "member_epoch": 1}
    return [
        ("metadata", ["topic", "t"], {"v": 1, "at": 1, "id": "i"} | placed),
        ("metadata", ["topic", "gone"], {"v": 1, "at": 1, "id": "j"} | placed),
        ("metadata", ["topic", "gone"], None),
        (
            "lag",
            ["lag", "g", "t"],
            {"v": 2, "at": 1, "id": "i", "end_kind": "stable"} | numbers | lags,
        ),
        member("a", "a1", "joining", "y"),
        member("a", "a2", "active", "x"),
        member("a", "a3", "joining", "z"),
        member("b", "b1", "joining", "y"),
        member("c", "c1", "left", "x"),
        ("assignments", ["m", "g", "a", "a2"], {"v": 1, "state": "active"} | epochs | held),
    ]


def test_a_live_group_is_its_members_that_are_there_with_what_they_hold():
    decoded = [(kind, read(kind, key, value)) for kind, key, value in records()]
    group = group_from_records(decoded, "g")
    assert group.members == ("a", "b")
    assert group.topics == ("t",)
    assert group.racks == ("x", "y")
    assert [group.racks[rack] for rack in group.member_rack] == ["x", "y"]
    assert (group.claim_member.tolist(), group.claim_partition.tolist()) == ([0, 0], [0, 1])
    assert group.lag.tolist() == [9, 9, 1, 1]
    with pytest.raises(NotFoundError, match="no group 'h' is known here; there are 1: g"):
        group_from_records(decoded, "h")
    with pytest.raises(NotFoundError, match="no members that levelwind manages"):
        group_from_records([entry for entry in decoded if entry[0] == "lag"], "g")


def read(kind, key, value):
    record = decode(
        kind, json.dumps(key).encode(), None if value is None else json.dumps(value).encode()
    )
    assert not isinstance(record, Rejection), record
    return record


@pytest.mark.integration
def test_a_group_of_the_cluster_is_compared_as_it_stands(cluster, topics, client_config, tmp_path):
    producer = Producer(client_config)
    for kind, key, value in records():
        name = getattr(topics, kind)
        producer.produce(
            name,
            partition=0,
            key=json.dumps(key),
            value=None if value is None else json.dumps(value),
        )
    assert producer.flush(20) == 0
    cluster_options = (
        "--bootstrap",
        cluster.bootstrap,
        "--set",
        f"prefix={topics.prefix}",
        "--set",
        f"state_dir={tmp_path}",
    )
    result = levelwind(
        "compare", "--group", "g", "--strategy", "lag,sticky", "--format", "json", *cluster_options
    )
    assert result.exit_code == 0, result.output
    compared = json.loads(result.stdout)
    assert (compared["id"], [row["strategy"] for row in compared["strategies"]]) == (
        "g",
        ["lag", "sticky"],
    )
    assert levelwind("compare", "--group", "h", *cluster_options).exit_code == 6

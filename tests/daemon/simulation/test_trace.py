import json

import numpy as np
import pytest
from click.testing import CliRunner

from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.protocol.records import MemberSpeed, SpeedRecord, encode
from levelwind.assignors.strategies.range import range_strategy
from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import load
from levelwind.daemon.control.settings import ControlSettings
from levelwind.daemon.simulation.command import rules_of
from levelwind.daemon.simulation.fleet import Moved
from levelwind.daemon.simulation.strategy.group_control import Rules
from levelwind.daemon.simulation.strategy.strategy_run import HandOver, StrategyRun
from levelwind.daemon.simulation.trace import read_trace
from levelwind.daemon.simulation.trace_replay import (
    readers_of_problem,
    replay_world,
    uniform_readers,
)
from levelwind.daemon.simulation.traffic import RecentArrivals
from levelwind.streaming.rules.skew import SkewRule
from levelwind_testing import records


def lag(at, *ends, behind=None, **more):
    return records.lag(*(behind or [0] * len(ends)), at=at, ends=ends, **more)


def as_line(record):
    key, value = encode(record)
    return json.dumps({"key": json.loads(key), "value": json.loads(value)}).encode()


def as_kcat(record):
    key, value = encode(record)
    return json.dumps(
        {"topic": "levelwind.lag", "offset": 7, "key": key.decode(), "payload": value.decode()}
    ).encode()


def as_console(record):
    return b"\t".join(encode(record))


RULES = Rules(control=ControlSettings(), skew=SkewRule(), dead_after=15.0, grant=36.0)
PROBLEM = json.dumps(
    {
        "topics": {"t": {"partitions": 2}},
        "members": {
            "A": {"topics": ["t"], "rack": "a", "owned": {"t": [0]}},
            "B": {"topics": ["t"], "rack": "b"},
        },
    }
).encode()


def world_of(trace, problem=PROBLEM, **more):
    return replay_world(
        trace,
        readers_of_problem(problem),
        **({"name": "n", "tick": 5.0, "speed": 10.0, "utilisation": 0.6} | more),
    )


@pytest.mark.parametrize("form", [as_line, as_kcat, as_console])
def test_the_products_own_records_are_a_trace(form):
    announced = [
        lag(1_000, 100, 50, behind=[7, 0], racks=(("a",), ("b",))),
        lag(11_000, 120, 50, racks=(("a",), ("b",))),
        lag(16_000, 121, 55, racks=(("b",), ("b",))),
        SpeedRecord(group="g", at=16_000, members={"A": MemberSpeed(speed=9.5, sure=0.5)}),
    ]
    world = world_of(read_trace(map(form, announced)))
    assert world.ticks == 3
    assert world.arrivals.block(0, 3).tolist() == [[10, 0], [10, 0], [1, 5]]
    assert world.fleet.backlog.tolist() == [7, 0]
    assert world.fleet.racks == (("a",), ("b",))
    assert world.fleet.owner.tolist() == [0, -1]
    assert world.events == (Moved(at=15.0, racks={0: ("b",)}),)


def test_plain_samples_are_a_trace_as_json_or_csv():
    lines = [
        b'{"at": 0, "topic": "t", "partition": 0, "end": 5}',
        b"",
        b'{"at": 10000, "topic": "t", "partition": 0, "end": 25}',
    ]
    table = [b"topic,partition,at,end,lag\n", b"t,0,0,5,\n", b"t,0,10000,25,3\n"]
    for form in (lines, table, [b"\xef\xbb\xbf" + table[0], *table[1:]]):
        assert world_of(read_trace(form)).arrivals.block(0, 2).tolist() == [[10, 0], [10, 0]]


def test_where_a_tombstone_or_an_end_that_is_not_known_stands_nothing_is_counted():
    gone = b'["lag","g","t"]\tnull'
    announced = [
        as_line(lag(0, 0, 10)),
        gone,
        as_line(lag(5_000, 10, -1, behind=[0, 0])),
        as_line(lag(10_000, 20, 20)),
    ]
    assert world_of(read_trace(announced)).arrivals.block(0, 2).tolist() == [[10, 5], [10, 5]]


def test_each_end_counts_from_when_it_was_read():
    announced = [
        lag(0, 0, 0),
        lag(10_000, 10, 10, end_read_at=(5_000, 10_000)),
        lag(15_000, 10, 10, end_read_at=(5_000, -1)),
    ]
    assert read_trace(map(as_line, announced)).ends["t"][0] == [(0, 0), (5_000, 10)]


def test_a_topic_that_was_made_anew_counts_from_there():
    trace = read_trace(map(as_line, [lag(0, 100), lag(5_000, 110), lag(10_000, 3), lag(15_000, 9)]))
    assert trace.ends_regressed == 1
    assert trace.ends["t"][0] == [(0, 0), (5_000, 10), (10_000, 10), (15_000, 16)]


def test_blocks_may_be_cut_anywhere():
    rng = np.random.default_rng(1)
    ends = np.cumsum(rng.integers(0, 50, (40, 2)), axis=0)
    trace = read_trace(
        as_line(lag(7_300 * number, *map(int, row))) for number, row in enumerate(ends)
    )
    world = world_of(trace)
    whole = world_of(trace).arrivals.block(0, world.ticks)
    assert whole.sum(axis=0).tolist() == (ends[-1] - ends[0]).tolist()
    halves = [world.arrivals.block(0, 17), world.arrivals.block(17, world.ticks - 17)]
    assert np.array_equal(np.concatenate(halves), whole)


def test_one_group_of_several_must_be_chosen():
    announced = [as_line(lag(at, at, group=group)) for group in ("g", "h") for at in (0, 5_000)]
    with pytest.raises(ProblemError, match=r"2 groups; choose one with --group: g, h"):
        read_trace(announced)
    assert read_trace(announced, "h").arrived == 5_000
    with pytest.raises(ProblemError, match=r"no lag of group 'x'; it has g, h"):
        read_trace(announced, "x")


def test_without_a_problem_members_are_alike_and_stand_in_the_traces_racks():
    announced = [lag(at, at, racks=(("x", "y"),)) for at in (0, 5_000)]
    trace = read_trace(map(as_line, announced))
    assert [consumer.rack for consumer in uniform_readers(3, trace).consumers] == ["x", "y", "x"]


def test_speed_follows_from_the_utilisation_where_none_is_given():
    trace = read_trace([as_line(lag(0, 0, 0)), as_line(lag(10_000, 600, 600))])
    assert world_of(trace, speed=None, utilisation=0.5).fleet.speed == 120


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([b'{"at": 1'], "line 1: not JSON"),
        (
            [
                b'{"at": 0, "topic": "t", "partition": 0, "end": 5}',
                b'{"at": 0, "topic": "t", "partition": 0}',
            ],
            "line 2: sample.end: missing",
        ),
        (
            [b'{"at": true, "topic": "t", "partition": 0, "end": 5}'],
            "sample.at: expected `int`",
        ),
        (
            [b'{"at": 0, "topic": "t", "partition": 99999999999, "end": 5}'],
            "sample.partition: expected",
        ),
        (
            [b"when,topic,partition,end"],
            "line 1: neither JSON nor a CSV header .* at is missing",
        ),
        ([b"at,topic,partition,end", b"1,t,0"], "line 2: 3 values for 4 columns"),
        ([b"at,topic,partition,end", b"1,t,0,x"], "line 2: sample.end: expected `int`"),
        ([b'{"key": ["lag", "g"], "value": {}}'], "line 1: no record of lag: key"),
        (
            [b'{"key": ["lag", "g", "t"], "value": {"v": 9}}'],
            "line 1: no record of lag: unknown v 9",
        ),
        ([b"[1, 2]"], "line 1: neither an object"),
        ([b"\xff\xfe"], "line 1: "),
        ([], "at two times at least"),
        ([b'{"at": 0, "topic": "t", "partition": 0, "end": 5}'], "at two times at least"),
        (
            [b'{"at": %d, "topic": "t", "partition": 0, "end": 5}' % at for at in (0, 5)],
            "no record arrives",
        ),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(lines, error):
    with pytest.raises(ProblemError, match=error):
        read_trace(lines)


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (b'{"topics": {}, "members": {}}', "no members"),
        (
            b'{"topics": {}, "members": {"A": {"topics": ["other"]}}}',
            r"reads any of its topics \(t\)",
        ),
        (b'{"topics": {}, "members": {"A": {"topics": "*", "capacity": 0}}}', "capacity"),
        (
            b'{"topics":{"t":{"partitions":2}},"members":{"A":{"topics":"*","owned":{"t":[9]}}}}',
            "does not exist",
        ),
        (b"{", "JSON"),
    ],
)
def test_a_problem_that_does_not_fit_is_refused(problem, error):
    trace = read_trace([as_line(lag(0, 0, 0)), as_line(lag(10_000, 600, 600))])
    with pytest.raises(ProblemError, match=error):
        world_of(trace, problem)


def test_topics_of_the_problem_that_nobody_reads_count_nowhere():
    """Their records would be lag, and part of what makes the members fast."""
    announced = [
        as_line(lag(at, at // 10, at // 10, topic=topic)) for at in (0, 10_000) for topic in "tu"
    ]
    problem = {
        "topics": {"t": {"partitions": 2}, "u": {"partitions": 2}, "unheard": {"partitions": 3}},
        "members": {"A": {"topics": ["t"], "owned": {"u": [0]}}},
    }
    world = world_of(read_trace(announced), json.dumps(problem).encode(), speed=None)
    assert world.fleet.topics == ("t",)
    assert world.fleet.speed == pytest.approx(2 * 100 / 0.6)
    problem["members"]["A"]["topics"] = "*"
    read = world_of(read_trace(announced), json.dumps(problem).encode(), speed=None)
    assert read.fleet.topics == ("t", "u", "unheard")


def test_lag_that_is_first_known_later_counts_from_the_first_sample():
    """What has arrived until then is not counted twice."""
    samples = [
        {"at": 0, "topic": "t", "partition": 0, "end": 500},
        {"at": 10_000, "topic": "t", "partition": 0, "end": 600, "lag": 130},
        {"at": 20_000, "topic": "t", "partition": 0, "end": 700, "lag": 0},
        {"at": 0, "topic": "t", "partition": 1, "end": 0},
        {"at": 20_000, "topic": "t", "partition": 1, "end": 50, "lag": 7},
        {"at": 0, "topic": "t", "partition": 2, "end": 9_000},
        {"at": 10_000, "topic": "t", "partition": 2, "end": 40},
        {"at": 20_000, "topic": "t", "partition": 2, "end": 60, "lag": 60},
    ]
    trace = read_trace(json.dumps(sample).encode() for sample in samples)
    # Of 130, 100 arrived since; more arrived than the 7 that are left; the topic was made anew.
    assert world_of(trace).fleet.backlog.tolist() == [30, 0, 40]


def test_members_of_a_problem_keep_what_strategies_go_by():
    trace = read_trace([as_line(lag(0, 0, 0)), as_line(lag(10_000, 600, 600))])
    member = {"topics": "*", "rack": "a", "capacity": 2.0, "priority": 3}
    problem = {
        "topics": {"t": {"partitions": 2}},
        "members": {
            "A": member | {"container": "c", "instance_id": "i", "speed": 300.0},
            "B": {"topics": "*", "speed": 10.0},
            "C": {"topics": "*", "capacity": 0.5},
        },
    }
    world = world_of(trace, json.dumps(problem).encode(), speed=None)
    planned = []

    def watched(group, _cause):
        planned.append(group)
        return range_strategy(group)

    run = StrategyRun(world, watched, RULES, HandOver(), 60.0)
    # As fast for its capacity as the median of the others, 150 and 10 for a capacity of 1.
    assert run._speed.tolist() == [300.0, 10.0, 40.0]
    recent = RecentArrivals(world.fleet.partitions, world.tick, 60.0)
    run.tick(0, np.zeros(world.fleet.partitions, np.int64), recent)
    assert planned[0].containers == ("c",)
    assert planned[0].container.tolist() == [0, -1, -1]
    assert planned[0].instances == ("i", None, None)
    given = world_of(trace, json.dumps(problem).encode(), speed=4.0)
    assert StrategyRun(given, watched, RULES, HandOver(), 60.0)._speed.tolist() == [300, 10, 2]


# The command.


def levelwind(*arguments):
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


SMALL = ("--partitions", 6, "--members", 3, "--hours", 0.1)


def test_a_made_up_day_is_told_as_text_and_as_json(tmp_path):
    chart = tmp_path / "day.svg"
    text = levelwind(*SMALL, "--strategy", "lag,range", "--chart", chart)
    assert text.exit_code == 0
    assert text.stdout.startswith("day, seed 1: 6 partitions, 3 members, 6 min")
    assert "simulating" in text.stderr
    assert {"lag", "range"} <= {line.split()[0] for line in text.stdout.splitlines() if line}
    assert "read across racks" in chart.read_text()
    error = json.loads(levelwind(*SMALL, "--strategy", "lag,range", "--format", "json").stdout)
    assert [row["strategy"] for row in error["strategies"]] == ["lag", "range"]
    assert {"above_target", "lag", "drain_seconds", "cross_rack_bytes", "moves", "plans"} <= error[
        "strategies"
    ][0].keys()


def test_a_trace_with_a_problem_is_played(tmp_path):
    (tmp_path / "trace").write_bytes(
        b"\n".join(as_line(lag(5_000 * n, 50 * n, 70 * n)) for n in range(5))
    )
    (tmp_path / "problem").write_bytes(b"\n" + PROBLEM + b"\n")
    error = levelwind(
        "--trace",
        tmp_path / "trace",
        "--problem",
        tmp_path / "problem",
        "--strategy",
        "lag",
        "--format",
        "json",
    )
    (row,) = json.loads(error.stdout)["strategies"]
    assert row["arrived"] == 4 * 120


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--strategy", "lga"), "nearest is 'lag'"),
        (("--scenario", "dya"), "scenario 'dya' is unknown; there are day,"),
        (("--trace", "nowhere"), "nowhere: cannot be read"),
        (("--problem", "p"), "belong to a --trace"),
        (("--speed", "5"), "belongs to a --trace"),
        (("--chart", "x.pdf"), "must end in .svg or .png"),
        (("--hours", "0.0001"), "shorter than a tick"),
        (("--hours", "2400", "--partitions", "10000"), "a --tick of"),
        (("--set", "control.min_gian=1"), "did you mean control.min_gain?"),
    ],
)
def test_what_cannot_be_simulated_ends_with_2_and_says_what_to_do(arguments, error):
    result = levelwind(*arguments)
    assert result.exit_code == 2
    assert error in result.output


def test_the_day_is_ruled_by_the_daemons_own_settings(tmp_path):
    (tmp_path / "levelwind.toml").write_text(
        "[control]\nmin_gain = 0.4\n[pipeline]\nskew_threshold = 3.5\n"
        "skew_floor_seconds = 90\nskew_utilisation = 0.7\nskew_duration = 12\n"
        "[timers]\ndead_after = 33\n"
    )
    rules = rules_of(load(tmp_path / "levelwind.toml"))
    assert rules.control.min_gain == 0.4
    assert rules.skew == SkewRule(
        threshold=3.5, floor_seconds=90.0, utilisation=0.7, duration_ms=12_000
    )
    assert rules.dead_after == 33


def test_a_topic_that_has_long_been_idle_does_not_make_the_trace_longer():
    day = 86_400_000
    announced = [lag(0, 5, topic="idle"), lag(20 * day, 100), lag(20 * day + 60_000, 160)]
    trace = read_trace(map(as_line, announced))
    assert (trace.begin, trace.end) == (20 * day, 20 * day + 60_000)
    everything = json.dumps({"topics": {}, "members": {"A": {"topics": "*"}}}).encode()
    assert world_of(trace, everything).seconds == 60

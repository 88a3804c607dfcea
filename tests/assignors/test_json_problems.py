import json

import pytest

from levelwind.assignors import json_problems
from levelwind.assignors.json_problems import solve_lines
from levelwind.assignors.registry import OPTIONS

VALID_PROBLEM = {
    "id": "p1",
    "strategy": "lag",
    "topics": {"t0": {"partitions": 3, "replica_racks": [["a", "b"], ["b", "c"], ["c"]]}},
    "members": {"m1": {"topics": ["t0"], "rack": "a"}, "m0": {"topics": "*", "owned": {"t0": [0]}}},
    "lags": {"t0": [100_000, 60_000, 50_000]},
}


def answers_to(*lines):
    return [json.loads(answer) for answer in solve_lines(lines)]


def line(**changes):
    return json.dumps(VALID_PROBLEM | changes)


def test_a_problem_is_answered_with_assignment_score_and_times():
    (answer,) = answers_to(line())
    assert list(answer["assignment"]) == ["m1", "m0"]  # as the problem has them
    assert answer.pop("plan_micros") >= 0
    assert answer.pop("total_micros") >= 0
    assert answer == {
        "id": "p1",
        "strategy": "lag",
        "assignment": {"m1": {"t0": [1, 2]}, "m0": {"t0": [0]}},
        "withheld": {},
        "score": {
            "spread": 1,
            "cross_rack": 1.0,
            "moved": 0,
            "skew": 1.047619,
            "drain_seconds": 62.857143,  # no speed is known: 60 s are assumed
            "wait_seconds": 30.068027,
            "utilisation": None,
        },
    }


def test_a_list_of_strategies_gives_a_line_for_each():
    answers = answers_to(line(strategy=["range", "lag"]))
    assert [answer["strategy"] for answer in answers] == ["range", "lag"]


def test_options_reach_the_strategies_that_know_them():
    lags = {"t0": [100, 1, 1]}
    even, free = answers_to(
        line(strategy="lag-global", lags=lags),
        line(strategy="lag-global", lags=lags, options={"max_count_skew": 2, "x": 1}),
    )
    assert even["score"]["spread"] == 1
    assert free["score"]["spread"] == 1
    assert even["assignment"] == {"m1": {"t0": [1, 2]}, "m0": {"t0": [0]}}
    assert (
        answers_to(line(strategy="lag", lags=lags, options={"max_count_skew": 0}))[0]["strategy"]
        == "lag"
    )


def test_repeats_are_summed_up():
    (answer,) = answers_to(line(repeat=5))
    assert answer["min_plan_micros"] <= answer["median_plan_micros"]
    assert answer["min_total_micros"] <= answer["median_total_micros"]


def test_bytes_and_unknown_fields_are_welcome_and_blank_lines_are_not_problems():
    assert [answer["id"] for answer in answers_to(b"\n", line(tool="other").encode(), "  ")] == [
        "p1"
    ]


def test_an_unknown_strategy_does_not_spoil_its_neighbours():
    failure, answer = answers_to(line(strategy=["lagg", "lag"]))
    assert (failure["id"], failure["strategy"]) == ("p1", "lagg")
    assert "the nearest is 'lag'" in failure["error"]
    assert "assignment" in answer


@pytest.mark.parametrize(
    ("broken", "identity", "message"),
    [
        ("{", None, "line: not valid JSON"),
        (b"\xff\xfe\x00", None, "line: not valid JSON"),
        ("[" * 100_000, None, "line: not valid JSON"),
        ("[1]", None, "line: must be an object, not a list"),
        ('{"id": 1, "x": NaN}', None, "line: NaN is no JSON number"),
        ('{"id": {"a": 1}, "strategy": "lag"}', None, "topics: must be an object"),
        (line(strategy=[]), "p1", "strategy: name one"),
        (line(options=3), "p1", "options: must be an object, not a number"),
        (
            line(strategy="lag-global", options={"max_count_skew": 0}),
            "p1",
            "option max_count_skew: must be an integer from 1",
        ),
        (
            line(strategy="lag-global", options={"stick_within": "x"}),
            "p1",
            "option stick_within: must be a number from 1 to 1000000000",
        ),
        (line(repeat=0), "p1", "repeat: must be an integer from 1"),
        (line(repeat=True), "p1", "repeat: must be an integer from 1"),
        (line(topics=5), "p1", "topics: must be an object, not a number"),
        (line(topics={"t": 3}), "p1", "topic 't': must be an object, not a number"),
        (line(topics={"t": {}}), "p1", "topic 't': partitions is missing"),
        (
            line(topics={"t": {"partitions": 1, "replica_racks": {}}}),
            "p1",
            "topic 't': replica_racks: must be a list",
        ),
        (
            line(topics={"t0": {"partitions": 2}}),
            "p1",
            "topic 't0': lags must be a list of one number for each of its 2",
        ),
        (line(members=None), "p1", "members: must be an object, not missing or null"),
        (line(members={"m": []}), "p1", "member 'm': must be an object, not a list"),
        (line(members={"m": {}}), "p1", "member 'm': topics must be a list"),
        (
            line(members={"m": {"topics": "*", "owned": [1]}}),
            "p1",
            "member 'm': owned: must be an object",
        ),
        (
            line(members={"m": {"topics": "*", "owned": {"t": 1}}}),
            "p1",
            "owned partitions of 't': must be a list",
        ),
        (line(members={"m": {"topics": "*", "capacity": 0}}), "p1", "member 'm': capacity must be"),
        (line(members={"m": {"topics": "*", "speed": -1}}), "p1", "member 'm': speed must be"),
    ],
)
def test_a_broken_line_answers_with_its_error_and_the_next_goes_on(broken, identity, message):
    failure, answer = answers_to(broken, line())
    assert failure["id"] == identity
    assert message in failure["error"]
    assert "assignment" in answer


def test_a_line_beyond_the_bound_is_not_parsed(monkeypatch):
    monkeypatch.setattr(json_problems, "MAX_LINE_LENGTH", 1000)
    failure, answer = answers_to(json.dumps({"id": "x" * 1000}), line())
    assert "are more than 1000" in failure["error"]
    assert "assignment" in answer


ODD_VALUES = [
    *(10**400, -(10**400), 1e308, 2**62, 2**63 - 1, 2**63, 10**30, -1, -1e308),
    *(0, 1, 1.5, 1e9, 10**10, 10**15, True, None, "", "9" * 5000, [], [[]], {}, {"t0": 3}),
    *({"t0": {key: "a"}} for key in ("9" * 5000, str(10**30), "²", "-1", "", "0")),
    {"t0": {"0": 10**400}},
]


@pytest.mark.parametrize(
    ("strategy", "option"),
    [(strategy, option) for strategy, checks in OPTIONS.items() for option in checks],
)
@pytest.mark.filterwarnings("error")
def test_a_line_with_an_odd_option_has_an_answer_or_an_error(strategy, option):
    """And so have the lines after it."""
    lines = [
        json.dumps(
            {
                "id": number,
                "topics": {"t0": {"partitions": 5}},
                "lags": {"t0": [100_000, 60_000, 50_000, 7, 0]},
                "rates": {"t0": [1e30, 1, 0, 0, 5]},
                "members": {
                    "a": {"topics": "*"},
                    "b": {"topics": "*", "owned": {"t0": [0, 1, 2, 3, 4]}},
                },
                "strategy": strategy,
                "options": {option: value},
            }
        )
        for number, value in enumerate(ODD_VALUES)
    ]
    answers = [json.loads(answer) for answer in solve_lines(lines)]
    assert [answer["id"] for answer in answers] == list(range(len(lines)))
    for answer in answers:
        assert "assignment" in answer or answer["error"].startswith(f"option {option}: ")
        assert len(answer.get("error", "")) < 300

"""`streams` problems as JSON lines."""

import json
import sys

import pytest

from levelwind.assignors.json_problems import solve_lines

TOPICS = {"orders": {"partitions": 2, "replica_racks": [["a"], ["b"]]}, "log": {"partitions": 2}}
TASKS = {"0": {"sources": ["orders"], "changelogs": ["log"], "end_offset_sums": [90_000, 100_000]}}
PROCESSES = {
    "B": {"rack": "b", "consumers": 1},
    "A": {"rack": "a", "tags": {"zone": "z1"}, "consumers": {"A-1": {"active": ["0_0", "0_1"]}}},
}


def answers(**fields):
    line = {
        "id": "s",
        "strategy": "streams",
        "topics": TOPICS,
        "tasks": TASKS,
        "processes": PROCESSES,
    } | fields
    return [json.loads(each) for each in solve_lines([json.dumps(line)])]


def answer(**fields):
    (answer_fields,) = answers(**fields)
    return answer_fields


def test_a_problem_is_answered_by_process_and_consumer_in_its_own_order():
    result = answer(options={"standby_replicas": 0})
    assert list(result["assignment"]) == ["B", "A"]
    assert result["assignment"]["A"]["A-1"] == {
        "active": ["0_0", "0_1"],
        "standby": [],
        "warmup": [],
    }
    (warmed,) = result["assignment"]["B"]["B-1"]["warmup"]
    assert result["probing"] is True
    lag = {"0_0": 90_000, "0_1": 100_000}[warmed]
    assert result["awaited"] == [
        {"task": warmed, "process": "B", "role": "active", "lag": lag, "warming": True}
    ]
    assert result["warnings"] == []
    assert result["score"]["warmups"] == 1
    assert result["score"]["moved"] == 0
    assert {"plan_micros", "total_micros"} <= result.keys()


def test_offset_sums_say_who_is_caught_up():
    caught_up = PROCESSES["B"] | {"offset_sums": {"0_1": 95_000}}
    result = answer(processes=PROCESSES | {"B": caught_up})
    assert result["assignment"]["B"]["B-1"]["active"] == ["0_1"]
    assert result["probing"] is False


def test_an_offset_beyond_the_end_is_of_another_log_and_worth_nothing():
    ahead = PROCESSES["B"] | {"offset_sums": {"0_1": 100_001}}
    assert answer(processes=PROCESSES | {"B": ahead})["assignment"]["A"]["A-1"]["active"] == [
        "0_0",
        "0_1",
    ]


def test_options_are_the_settings_and_racks_count_under_a_strategy():
    processes = {"A": {"rack": "b", "consumers": 1}, "B": {"rack": "a", "consumers": 1}}
    result = answer(
        processes=processes,
        options={"rack_strategy": "balance_subtopology", "rack_aware_tags": ["zone"]},
    )
    assert result["assignment"]["B"]["B-1"]["active"] == ["0_0"]
    assert result["score"]["cross_rack"] == 0.0


def test_tasks_may_be_counted_where_no_topics_are_known():
    result = answer(
        topics=None,
        tasks={"0": {"partitions": 3, "stateful": True}},
        processes={"A": {"consumers": 2}},
    )
    threads = result["assignment"]["A"]
    assert sorted(task for mine in threads.values() for task in mine["active"]) == [
        "0_0",
        "0_1",
        "0_2",
    ]


def test_repeats_give_least_and_median_times():
    assert {"min_plan_micros", "median_total_micros"} <= answer(repeat=3).keys()


def test_one_line_serves_streams_and_the_strategies_of_groups():
    both = answers(strategy=["streams", "range"], members={"m": {"topics": "*"}})
    assert [each["strategy"] for each in both] == ["streams", "range"]
    assert both[1]["assignment"] == {"m": {"log": [0, 1], "orders": [0, 1]}}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"tasks": None}, "tasks: must be an object, not missing or null"),
        ({"processes": []}, "processes: must be an object, not a list"),
        (
            {"tasks": {"0": {}}},
            "tasks of '0': name its sources among the topics, or give its partitions",
        ),
        (
            {"tasks": {"0": {"sources": ["x"]}}},
            "subtopology '0': its topic 'x' is unknown; add it to the topics",
        ),
        (
            {"tasks": {"0": {"sources": ["orders"], "stateful": 1}}},
            "tasks of '0': stateful must be true or false, not 1",
        ),
        (
            {"tasks": {"0": {"sources": ["orders"], "end_offset_sums": [1]}}},
            "subtopology '0': end_offset_sums has 1 entries for 2 tasks; give one for each",
        ),
        (
            {"tasks": {"0": {"sources": ["orders"], "end_offset_sums": [1, -2]}}},
            "task '0_1': end_offset_sum must be an integer from 0 up, not -2",
        ),
        (
            {"tasks": {"0": {"partitions": 10**9}}},
            "tasks of '0': partitions: must be an integer from 0 to 10000000, not 1000000000",
        ),
        (
            {"topics": {"orders": {"partitions": 2, "replica_racks": [["a"]]}}},
            "topic 'orders': replica_racks has 1 entries for 2 partitions; give one for each",
        ),
        (
            {"topics": {"orders": {"partitions": 1, "replica_racks": ["a"]}}},
            "topic 'orders': replica_racks: must be a list, not a string",
        ),
        (
            {"processes": {"A": {"consumers": 0}}},
            "process 'A': has no consumers; name one for each of its threads",
        ),
        (
            {"processes": {"A": {}}},
            "process 'A': consumers: must be an object, not missing or null",
        ),
        (
            {"processes": {"A": {"consumers": 1, "lags": {"0_0": "1"}}}},
            "process 'A': lags of '0_0' must be an integer from 0 up, not '1'",
        ),
        (
            {"processes": {"A": {"consumers": 1, "tags": {"zone": 1}}}},
            "process 'A': tag 'zone' must be a string, not 1",
        ),
        (
            {"processes": {"A": {"consumers": 1, "rack": 3}}},
            "process 'A': rack must be a string, not 3",
        ),
        (
            {"processes": {"A": {"consumers": {"A-1": {"active": [1]}}}}},
            "process 'A': consumer 'A-1': active: must be a list of strings, but has 1",
        ),
        (
            {"options": {"max_warmups": 0}},
            "option max_warmups: must be an integer from 1 to 2147483647, not 0",
        ),
        (
            {"options": {"rack_strategy": "near"}},
            (
                "option rack_strategy: must be one of none, min_traffic, balance_subtopology,"
                " not 'near'"
            ),
        ),
        (
            {"options": {"rack_aware_tags": ["zone", "zone"]}},
            "option rack_aware_tags: ('zone', 'zone') names a tag twice; name each once",
        ),
        (
            {"options": {"traffic_cost": 2**60}},
            "option traffic_cost: must be an integer from 0 to 1000000, not 1152921504606846976",
        ),
        ({"repeat": 0}, "repeat: must be an integer from 1 to 10000, not 0"),
    ],
)
def test_what_is_wrong_is_said_by_whose_it_is(fields, error):
    assert answer(**fields) == {"id": "s", "strategy": "streams", "error": error}


def test_a_solver_that_is_not_installed_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.graph.python.min_cost_flow", None)
    assert (
        answer()["error"]
        == "this group needs OR-tools, which is not installed; install levelwind[solver]"
    )


def test_costs_too_large_for_the_solver_are_told_by_the_options_that_set_them(monkeypatch):
    monkeypatch.setattr("levelwind.assignors.solver.MAX_COST", 1)
    assert (
        answer()["error"]
        == "options traffic_cost, non_overlap_cost: too large for so many tasks; lower them"
    )

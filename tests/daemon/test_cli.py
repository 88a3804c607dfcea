import json

import pytest
from click.testing import CliRunner

from daemon.cli import main


def levelwind(*arguments, stdin=None):
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.mark.parametrize(
    "command", ["run", "cluster", "demo", "assign", "compare", "groups", "describe", "rebalance"]
)
def test_every_command_has_help(command):
    result = levelwind(command, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")


def test_assign_answers_a_line_for_each_strategy_and_goes_on_after_a_broken_one():
    problem = {
        "id": "KAFKA-5337",
        "strategy": ["lag", "range"],
        "topics": {"t0": {"partitions": 3}},
        "members": {"C0": {"topics": ["t0"]}, "C1": {"topics": ["t0"]}},
        "lags": {"t0": [100_000, 60_000, 50_000]},
    }
    result = levelwind("assign", stdin="{broken\n" + json.dumps(problem) + "\n")
    broken, lag, ranged = map(json.loads, result.output.splitlines())
    assert "error" in broken
    assert lag["assignment"] == {"C0": {"t0": [0]}, "C1": {"t0": [1, 2]}}
    assert ranged["assignment"] == {"C0": {"t0": [0, 1]}, "C1": {"t0": [2]}}


def test_a_wrong_setting_ends_a_command_with_2_and_the_nearest_that_is_right():
    result = levelwind("groups", "--set", "control.min_gian=1")
    assert result.exit_code == 2
    assert "did you mean control.min_gain?" in result.output


def test_a_pair_without_an_equals_sign_is_wrong_usage():
    assert levelwind("groups", "--set", "control.min_gain").exit_code == 2


@pytest.mark.parametrize("command", [("groups",), ("describe", "orders"), ("rebalance", "orders"), ("run",)])
def test_a_cluster_that_cannot_be_reached_ends_a_command_with_3_and_says_which(command, tmp_path):
    settings = ("--set", "topic.timeout=0.5", "--set", f"state_dir={tmp_path}")
    result = levelwind(*command, "--bootstrap", "127.0.0.1:1", *settings)
    assert result.exit_code == 3
    assert "levelwind: " in result.output


def test_settings_of_the_clients_may_have_dots_and_are_never_repeated():
    result = levelwind(
        "groups",
        "--set",
        "kafka.sasl.password=hunter2",
        "--set",
        "bootstrap=127.0.0.1:1",
        "--set",
        "topic.timeout=0.5",
    )
    assert result.exit_code in {2, 3}  # refused by the client, or by the cluster that is not there
    assert "hunter2" not in result.output


def test_a_demo_on_a_cluster_that_is_not_there_ends_with_3(tmp_path):
    result = levelwind(
        "demo", "--bootstrap", "127.0.0.1:1", "--directory", str(tmp_path), "--set", "topic.timeout=0.5"
    )
    assert result.exit_code == 3

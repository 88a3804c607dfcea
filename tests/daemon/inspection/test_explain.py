import json

import pytest
from click.testing import CliRunner

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import load
from levelwind.daemon.control.planning import options_of
from levelwind.daemon.inspection.explain import explain_group

PROBLEM = {
    "id": "p",
    "topics": {"t": {"partitions": 4, "replica_racks": [["a"], ["b"], ["b"], ["a"]]}},
    "members": {
        "A": {"topics": "*", "rack": "a", "speed": 1.0},
        "B": {"topics": "*", "rack": "b", "speed": 1.0},
    },
    "lags": {"t": [100, 40, 30, 20]},
    "bytes": {"t": [1, 1, 1, 1]},
    "options": {"max_moves": 3, "counts": "even"},
}


def levelwind(*arguments, stdin=None):
    return CliRunner().invoke(main, ("explain", *arguments), input=stdin)


def test_a_problems_plan_is_explained_with_its_certificate():
    result = levelwind("-", "--partition", "t/0", stdin=json.dumps(PROBLEM) + "\n\n")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "t-0 is owned by A: a replica is in the member's rack",
        "the next best alternatives would cost:",
        (
            "  B, in exchange for t-1: +10.0 s on the largest load, +50.00% across racks,"
            " +3.2 s on the mean wait"
        ),
        "largest load 120 s, no plan can do better: t-0 alone causes that",
        "cross-rack 0.0%, no plan can do better",
        (
            "mean wait 50.79 s, no plan can do better than 47.63 s: level beside the heaviest"
            " partitions"
        ),
        "moves 0, no plan needs fewer",
        "largest count 2, no plan is more even",
    ]


def test_as_json_it_says_the_same():
    result = levelwind("-", "--partition", "t/3", "--format", "json", stdin=json.dumps(PROBLEM))
    explained = json.loads(result.output)
    assert (explained["partition"], explained["owner"]) == ("t-3", "A")
    assert [alternative["member"] for alternative in explained["alternatives"]] == ["B"]
    assert explained["certificate"]["complete"] is True


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        (("-", "--partition", "t-0"), "", 2, "'t-0' is no partition: write TOPIC/NUMBER"),
        (("-", "--partition", "t/9"), json.dumps(PROBLEM), 6, "has no partition 9, only 0 to 3"),
        (("-", "--partition", "x/0"), json.dumps(PROBLEM), 6, "'x': not in the group"),
        (("-", "--partition", "t/0"), "\n{", 2, "line 2: line: not valid JSON"),
        (("--partition", "t/0"), "", 2, "name either a file of PROBLEMS or a --group"),
    ],
)
def test_what_cannot_be_explained_says_why(arguments, stdin, code, message):
    result = levelwind(*arguments, stdin=stdin)
    assert result.exit_code == code
    assert message in result.output


def test_of_a_group_that_stands_what_it_owns_now_is_explained():
    members = [
        Member(id="A", topics="*", owned={"t": [0, 1]}, generation=1),
        Member(id="B", topics="*", owned={"t": [2, 3]}, generation=1),
    ]
    group = Group.build({"t": Topic(partitions=4, lags=[9, 9, 1, 1])}, members)
    explained = explain_group(group, ("t", 1), {})
    assert explained.owner == "A"
    assert explained.alternatives[0].member == "B"
    assert explained.alternatives[0].moves == 1


def test_a_partition_that_the_groups_settings_pin_has_no_other_place():
    members = [
        Member(id="A", topics="*", owned={"t": [0, 1]}),
        Member(id="B", topics="*", owned={"t": [2, 3]}),
    ]
    group = Group.build({"t": Topic(partitions=4)}, members)
    settings = load(overrides={"groups": {"g": {"pins": {"t": {"1": "A"}}}}})
    options = options_of(settings.planning_of("g"))
    assert explain_group(group, ("t", 1), options).alternatives == ()
    assert explain_group(group, ("t", 0), options).alternatives != ()

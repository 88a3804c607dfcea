import json

import pytest

from levelwind.assignors.comparison import compare, table
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError
from levelwind_testing.groups.examples import KAFKA_5337_TOPICS, TWO_MEMBERS

GROUP = Group.build(KAFKA_5337_TOPICS, TWO_MEMBERS)


def test_each_strategy_is_scored_on_the_same_group():
    rows = compare(GROUP, ["range", "lag"])
    assert [(row.strategy, row.score.skew) for row in rows] == [
        ("range", 1.52381),
        ("lag", 1.047619),
    ]
    assert all(row.violations == () for row in rows)


def test_the_table_stars_the_best_figure_where_they_differ():
    lines = table(compare(GROUP, ["range", "lag"])).splitlines()
    assert lines[0].split() == [
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
    assert lines[1].split()[:5] == ["range", "1", "-", "0", "1.52381"]
    assert lines[2].split()[:5] == ["lag", "1", "-", "0", "1.04762*"]
    assert len({len(line) for line in lines}) == 1


def test_the_rows_are_json():
    (row,) = compare(GROUP, ["lag"])
    assert json.loads(json.dumps(row.as_json()))["score"]["spread"] == 1


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ProblemError, match="unknown"):
        compare(GROUP, ["lagg"])

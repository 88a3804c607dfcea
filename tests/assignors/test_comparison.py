import json
import xml.etree.ElementTree as ET

import pytest

from assignors.comparison import compare, picture, table
from assignors.group import Group, Member, ProblemError, Topic

GROUP = Group.build(
    {"t0": Topic(partitions=3, lags=[100_000, 60_000, 50_000])},
    [Member(id="C0", topics="*"), Member(id="C1", topics="*")],
)


def test_each_strategy_is_scored_on_the_same_group():
    rows = compare(GROUP, ["range", "lag"])
    assert [(row.strategy, row.score.lag_max_over_mean) for row in rows] == [
        ("range", 1.52381),
        ("lag", 1.047619),
    ]
    assert all(row.violations == () for row in rows)


def test_the_table_stars_the_best_figure_where_they_differ():
    lines = table(compare(GROUP, ["range", "lag"])).splitlines()
    assert lines[0].split() == ["strategy", "spread", "cross-rack", "moved", "lag", "max/mean", "µs"]
    assert lines[1].split()[:5] == ["range", "1", "-", "0", "1.52381"]
    assert lines[2].split()[:5] == ["lag", "1", "-", "0", "1.04762*"]
    assert len({len(line) for line in lines}) == 1


def test_the_rows_are_json():
    (row,) = compare(GROUP, ["lag"])
    assert json.loads(json.dumps(row.as_json()))["score"]["spread"] == 1


def test_the_picture_is_an_svg_whose_bars_are_in_proportion():
    root = ET.fromstring(picture(compare(GROUP, ["range", "lag"])))  # noqa: S314 - our own words
    bars = [float(bar.get("width")) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(bars) == 8
    assert bars[7] / bars[6] == pytest.approx(110 / 160, rel=1e-2)
    assert "NaN" not in picture(compare(Group.build({}, []), ["range"]))


def test_an_unknown_strategy_is_told():
    with pytest.raises(ProblemError, match="unknown"):
        compare(GROUP, ["lagg"])

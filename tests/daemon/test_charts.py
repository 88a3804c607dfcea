"""The chart of `compare`, read back: an SVG is text."""

import xml.etree.ElementTree as ET

import matplotlib as mpl
import pytest

from levelwind.assignors.comparison import ComparisonRow
from levelwind.assignors.problem.score import Score
from levelwind.daemon.charts import BAD, BEST, PLAIN, chart_file, draw_comparison
from levelwind.daemon.errors import ConfigurationError

SVG = "{http://www.w3.org/2000/svg}"


def row(strategy, *, violations=(), **figures):
    figures = {"spread": 1, "cross_rack": None, "moved": 0, "skew": 1.5} | figures
    return ComparisonRow(
        strategy=strategy, score=Score(**figures), plan_micros=7, violations=violations
    )


ROWS = [
    row("lag", spread=10),
    row("range", spread=20),
    row("broken", spread=5, violations=("t0-0 twice",)),
]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    path = tmp_path_factory.mktemp("charts") / "one.svg"
    draw_comparison([("cheap at $3 <& more>", ROWS)], path)
    return path


def texts(path):
    return ["".join(text.itertext()) for text in ET.parse(path).iter(f"{SVG}text")]  # noqa: S314 - our own words


def widths(path, colour):
    """The widths of the bars of a colour, the legend's left out."""
    found = []
    for shape in ET.parse(path).iter(f"{SVG}path"):  # noqa: S314 - our own words
        if f"fill: {colour}" in shape.get("style", ""):
            numbers = [
                float(word) for word in shape.get("d").split() if word.replace(".", "").isdigit()
            ]
            found.append(max(numbers[::2]) - min(numbers[::2]))
    return found[:-1]


def test_names_figures_and_titles_are_text_as_they_were_given(drawn):
    shown = texts(drawn)
    assert {
        "cheap at $3 <& more>",
        "lag",
        "range",
        "spread",
        "moved",
        "10",
        "20",
        "1.50",
        "-",
    } <= set(shown)


def test_one_that_breaks_an_invariant_says_so_and_is_never_the_best(drawn):
    assert "broken (invalid)" in texts(drawn)
    assert BAD in drawn.read_text()
    spread_of_lag, *_ = widths(drawn, BEST)
    spread_of_range, *_ = widths(drawn, PLAIN)
    assert spread_of_range == pytest.approx(2 * spread_of_lag, rel=1e-3)


def test_the_same_figures_give_the_same_bytes_whatever_the_users_settings_are(drawn, tmp_path):
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.facecolor": "black"}):
        before = dict(mpl.rcParams)
        draw_comparison([("cheap at $3 <& more>", ROWS)], tmp_path / "again.svg")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "again.svg").read_bytes() == drawn.read_bytes()


def test_a_png_is_drawn_too(tmp_path):
    draw_comparison([("a", ROWS[:1]), ("nothing", [])], tmp_path / "two.PNG")
    assert (tmp_path / "two.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["plain", "chart.pdf", "nowhere/chart.svg"])
def test_a_file_that_cannot_be_drawn_is_the_callers_to_mend(tmp_path, name):
    with (
        pytest.raises(ConfigurationError, match="chart"),
        chart_file(tmp_path / name, width=1, height=1),
    ):
        pass

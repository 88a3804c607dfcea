"""Tables on a terminal: what is too wide loses columns by name, never a figure its digits."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon import console, plain_console

COLUMNS = (("GROUP", False), ("MODE", False), ("LAG", True), ("NOTE", False))
LEAST = ("NOTE", "MODE")


def shown(table, width):
    out = io.StringIO()
    plain_console.PlainConsole(
        file=out, width=width, force_terminal=True, color_system=None, markup=False
    ).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def table_of(*rows, least=LEAST):
    table = console.borderless_table(*COLUMNS, least=least)
    for row in rows:
        table.add_row(*row)
    return table


@pytest.mark.parametrize(
    ("width", "header", "last"),
    [
        (80, "GROUP     MODE           LAG  NOTE", None),
        (30, "GROUP     MODE           LAG", "left out on 30 columns: NOTE"),
        (23, "GROUP           LAG", "left out on 23 columns:"),
    ],
)
def test_columns_go_in_their_order_until_the_rest_fits(width, header, last):
    lines = shown(
        table_of(("payments", "managed", "1,234,567", "a long note"), ("b", "-", "2", "-")), width
    )
    assert lines[0] == header
    assert lines[1].startswith("payments  ")
    assert "1,234,567" in lines[1]
    assert (lines[3] if last else None) == last


def test_what_may_not_go_is_folded_and_its_figures_stay_whole():
    lines = shown(table_of(("x" * 60, "managed", "1,234,567", "-"), least=()), 40)
    assert "1,234,567" in "".join(lines)
    assert sum(line.count("x") for line in lines) == 60


@given(
    st.lists(
        st.tuples(
            st.text("ab-.", min_size=1, max_size=40),
            st.sampled_from(["managed", "published", "-"]),
            st.integers(0, 10**15).map("{:,}".format),
            st.text("n ", max_size=60),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(40, 200),
)
def test_no_figure_is_ever_folded_and_no_column_goes_that_had_room(rows, width):
    lines = shown(table_of(*rows), width)
    assert max(map(len, lines)) <= width
    for _, _, figure, _ in rows:
        assert any(figure in line for line in lines)
    widest = [max(len(name), *(len(row[n]) for row in rows)) for n, (name, _) in enumerate(COLUMNS)]
    room = sum(widest) + 2 * (len(widest) - 1)
    assert ("NOTE" in lines[0]) == (room <= width)


def test_a_table_can_be_printed_wide_after_it_was_printed_narrow():
    table = table_of(("payments", "managed", "1,234,567", "a long note"))
    assert "NOTE" not in shown(table, 30)[0]
    assert "NOTE" in shown(table, 80)[0]

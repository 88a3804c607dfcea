"""Names with anything in them: what is printed of them steers no terminal and no spreadsheet."""

import csv
import io
import logging
import string
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text

from levelwind.daemon import console, plain_console
from levelwind.daemon.config.settings import load
from levelwind.daemon.decisions import reading
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.inspection.compare import GroupComparison
from levelwind.daemon.inspection.live_members import described_members
from levelwind.daemon.inspection.tables import print_group
from levelwind.daemon.printable import cell, one_line, printable
from levelwind.daemon.shown_groups.group_view import MAX_SUGGESTIONS, GroupView, find_group
from levelwind.daemon.shown_groups.offset_rows import OffsetRow, write_csv
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind.daemon.telemetry import log_config
from levelwind.daemon.telemetry.logger import Logger

TITLE = "x\x1b]0;owned\x07"
NAMES = [TITLE, "\x1b[2J", "a\rb", "\u202egnp.exe", "\x9b31m", "a\x00b", "\ud800"]
ALLOWED = "\n\t"


def steers(text):
    return [letter for letter in text if not letter.isprintable() and letter not in ALLOWED]


@given(st.text() | st.sampled_from(NAMES))
def test_whatever_a_name_holds_no_text_steers_a_terminal(name):
    assert steers(printable(name)) == []
    printable(name).encode()
    assert printable(printable(name)) == printable(name)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_what_can_be_seen_is_printed_as_it_is(name):
    assert printable(name) == name


@pytest.mark.parametrize("name", NAMES)
def test_tables_lines_and_texts_of_the_console_are_printable(name, monkeypatch):
    out = io.StringIO()

    def terminal(**options):
        return plain_console_of(file=out, force_terminal=True, width=200, **options)

    plain_console_of = plain_console.PlainConsole
    monkeypatch.setattr(plain_console, "PlainConsole", terminal)
    table = console.borderless_table(("NAME", False))
    table.add_row(name)
    shown = console.stdout_console()
    shown.print(table)
    shown.print(f"group {name}", soft_wrap=True)
    shown.print(Text(name, style="bold").append(" more", "not bold"))
    plain = Text.from_ansi(out.getvalue()).plain
    assert steers(plain) == []
    assert plain.count(printable(name)) >= 2


@pytest.mark.parametrize("name", ["a\nb  12  0", "a\tb", "a\r\nb"])
def test_no_name_begins_another_row_or_line(name, capsys):
    table = console.borderless_table(("NAME", False), ("LAG", True))
    table.add_row(name, "1")
    shown = console.stdout_console()
    shown.print(table)
    shown.print(f"group {name} is paused", soft_wrap=True)
    print_group(ShownGroup(GroupView(name)), 1)
    write_csv([OffsetRow(name)])
    out = capsys.readouterr().out
    assert name not in out
    assert out.count(one_line(name)) == 4
    assert GroupComparison(id=name, title=name, error=name).as_text().count("\n") == 2


@pytest.mark.parametrize("known", [1, MAX_SUGGESTIONS + 1])
def test_no_name_begins_another_line_of_an_error(known, monkeypatch, capfd):
    name = "orders\nb  12  0"
    views = {f"{name}{number}": GroupView(f"{name}{number}") for number in range(known)}
    with pytest.raises(NotFoundError) as unknown:
        find_group(views, "orders b  12  0")
    entries = [SimpleNamespace(group=group, id="d", plan_id=None) for group in (name, "other")]
    monkeypatch.setattr(reading, "_entries", lambda *_: entries)
    with pytest.raises(NotFoundError) as several:
        reading.find_decision(None, "d")
    assert described_members(load(None, {"bootstrap": "127.0.0.1:1"}), [name]) == {}
    warning = capfd.readouterr().err
    for text in (str(unknown.value), str(several.value), warning.removesuffix("\n")):
        assert one_line(name) in text
        assert "\n" not in text


def test_a_line_of_a_command_is_printable(capsys):
    console.echo(f"levelwind: group {TITLE!s} is unknown", err=True)
    assert capsys.readouterr().err == "levelwind: group x\\x1b]0;owned\\x07 is unknown\n"


def test_a_log_on_a_terminal_is_printable():
    out = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        log_config.configure(form="console", stream=out)
        Logger().warning("member.left", group=TITLE, instance=["\x1b[2J"])
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert "\\x1b]0;owned" in out.getvalue()
    assert steers(out.getvalue()) == []


BASE64 = string.ascii_letters + string.digits + "+/-_"


@given(st.sampled_from("=+-@\t\r"), st.text())
def test_no_cell_is_a_formula(first, rest):
    shown = cell(first + rest)
    assert shown[0] == "'" or (len(shown) == 22 and shown[0] in "+-" and set(shown) <= set(BASE64))


@pytest.mark.parametrize(
    "formula",
    [
        "=1",
        "@SUM(1)",
        "+cmd|' /C calc'!A0",
        "-WEBSERVICE(A1)",
        "+'file:///etc/passwd'#$passwd.A1",
        "-a\n(1)",
        "+1+1",
        "-A1/B1",
        "+tlFQCBLTH6fCZefU80Jtg\n",
    ],
)
def test_a_formula_has_a_quote_before_it(formula):
    assert cell(formula).startswith("'" + formula[0])


@given(st.text(BASE64, min_size=22, max_size=22))
@example("+tlFQCBLTH6fCZefU80Jtg")
@example("-tlFQCBLTH6fCZefU80Jtg")
def test_an_id_in_base64_stays_as_the_tool_of_kafka_shows_it(member):
    assert cell(member) == member


def test_rows_are_written_without_formulas_and_numbers_as_they_are(capsys):
    fields = dict.fromkeys(OffsetRow._fields)
    first, second = OffsetRow._fields[:2]
    write_csv([OffsetRow(**fields | {first: "=cmd|' /C calc'!A0", second: "orders"})])
    _, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert row[:2] == ["'=cmd|' /C calc'!A0", "orders"]

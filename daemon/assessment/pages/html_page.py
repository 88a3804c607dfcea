"""The assessment as one HTML file that needs nothing else: no script, font or picture."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from levelwind.daemon.assessment.pages.wording import (
    COLUMNS,
    LEGEND,
    cells,
    group_lines,
    headlines,
    need_lines,
    unknown_lines,
    way_lines,
)
from levelwind.daemon.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from levelwind.daemon.assessment.assessment import Assessment

# The colours are those of the daemon's page (`daemon/api/page/page.css`).
STYLE = """
:root { --bg: #f4f6f9; --surface: #ffffff; --text: #17202a; --muted: #5a6675; --border: #d7dee6;
  --accent: #0b62b8; --warn: #8a5300; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --bg: #0e1318; --surface: #161d25; --text: #e5eaf0;
  --muted: #98a5b3; --border: #2b3641; --accent: #62aef7; --warn: #f2b85c; } }
body { margin: 0 auto; max-width: 1680px; padding: 1.1rem 1.25rem 2rem; background: var(--bg);
  color: var(--text); font: 14px/1.45 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.02rem; margin: 1.2rem 0 .4rem; }
p { margin: .2rem 0; } .muted { color: var(--muted); }
.scroll { overflow: auto; background: var(--surface); border: 1px solid var(--border);
  border-radius: 8px; margin-top: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .4rem .8rem; text-align: left; border-bottom: 1px solid var(--border);
  white-space: nowrap; }
th { color: var(--muted); font-size: .82rem; } a { color: var(--accent); text-decoration: none; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
summary { font-weight: 650; margin-top: .8rem; cursor: pointer; } .risk { color: var(--warn); }
"""


def html_page(assessment: Assessment) -> str:
    """Return the page."""
    return "\n".join(_parts(assessment)) + "\n"


def _parts(assessment: Assessment) -> Iterator[str]:
    title = _text(f"levelwind assess: {assessment.cluster}")
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>"
    for line in headlines(assessment):
        yield f'<p class="muted">{_text(line)}</p>'
    yield '<div class="scroll"><table>\n<thead><tr>'
    for name, number in COLUMNS:
        yield f"<th{_class(number)}>{_text(name.capitalize())}</th>"
    yield "</tr></thead>\n<tbody>"
    for index, group in enumerate(assessment.groups):
        yield "<tr>"
        name, *figures = map(_text, cells(group))
        yield f'<td><a href="#g{index}">{name}</a></td>'
        for (_, number), text in zip(COLUMNS[1:], figures, strict=True):
            yield f"<td{_class(number)}>{text}</td>"
        yield "</tr>"
    yield f'</tbody>\n</table></div>\n<p class="muted">{_text(LEGEND)}</p>\n<h2>Groups</h2>'
    for index, group in enumerate(assessment.groups):
        yield f'<details id="g{index}"{" open" if group.risks else ""}>'
        yield f"<summary>{_text(group.name)}</summary>\n<ul>"
        yield from _items(group_lines(group))
        yield from _items(way_lines(group))
        yield "</ul>\n</details>"
    for heading, lines in (("To follow", need_lines), ("Not known", unknown_lines)):
        if items := list(_items(lines(assessment))):
            yield f"<h2>{heading}</h2>\n<ul>"
            yield from items
            yield "</ul>"
    yield "</body>\n</html>"


def _items(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        risk = ' class="risk"' if line.startswith("at risk:") else ""
        yield f"<li{risk}>{_text(line)}</li>"


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def _text(text: str) -> str:
    """A text in which no name is markup or steers the writing."""
    return escape(printable(text))

"""Text for terminals and tables: a name can hold anything, and must not steer what shows it. Pure.

Whoever may commit can name a group, also with the sequences by which a terminal is told to change
its title, its colours or what was printed before.
"""

import re

FORMULA = re.compile(r"[=@\t\r]|[+-](?![A-Za-z0-9+/_-]{21}\Z)")
"""How a cell begins that a spreadsheet computes.

The 22 characters of a UUID in base64, as librdkafka names members, may begin with a sign as well.
They call no function, and who compares ids must find them as they are.
"""
KEPT = "\n\t"


def printable(text: str) -> str:
    r"""Return a text with what is neither visible nor a space or a line's end as an escape: `\x1b`.

    Besides control characters these are the ones that change the direction of writing, and lone
    surrogates.
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in KEPT
        else letter.encode("unicode_escape").decode()
        for letter in text
    )


def one_line(text: str) -> str:
    r"""Return a text as one line of a table or a page, with `\n` and `\t` as escapes, too.

    Otherwise a name could begin another row, and forge it.
    """
    if text.isprintable():
        return text
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def cell(text: str) -> str:
    """Return a text as a cell of a CSV file: one that a spreadsheet would compute has a quote."""
    return one_line(f"'{text}" if FORMULA.match(text) else text)

r"""Syntax of topic patterns: the part of regular expressions that a finite automaton can match.

Literals, `.`, classes, groups, alternatives, `* + ? {m,n}`, `^` and `$` around an alternative, and
the escapes `\d \D \w \W` and of punctuation. They mean what they mean everywhere. There are no
back-references, no assertions and no lazy quantifiers.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters, digits
from typing import TypeAlias

TOPIC_CHARACTERS = ascii_letters + digits + "._-"
"""The characters that a topic's name may have."""
LONGEST_PATTERN = 500
MOST_REPEATS = 249
"""Length of the longest topic name: no count needs to be higher."""
DEEPEST_GROUP = 20

Characters: TypeAlias = "frozenset[str]"

ANY = frozenset(TOPIC_CHARACTERS)
ESCAPES = {"d": frozenset(digits), "w": frozenset(ascii_letters + digits + "_")}


class PatternError(ValueError):
    """A pattern that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts that follow each other; none is the empty text."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One part out of several."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part that occurs `least` to `most` times; None: any number of times."""

    part: Expression
    least: int
    most: int | None


Expression: TypeAlias = OneOf | Sequence | Alternatives | Repeat

ANYTHING = Repeat(OneOf(ANY), 0, None)


def parse(text: str) -> Expression:
    """Return the expression that matches the same whole names as the pattern finds something in.

    Raises:
        PatternError: The pattern is too long, is none, or uses what is not supported.
    """
    if not text or len(text) > LONGEST_PATTERN:
        raise PatternError(f"it has {len(text)} characters, not 1 to {LONGEST_PATTERN}")
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over one pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> Expression:
        branches = [self._anchored()]
        while self._take("|"):
            branches.append(self._anchored())
        if self._next:
            raise self._error("it has a ) without its (")
        return Alternatives(tuple(branches))

    def _anchored(self) -> Expression:
        before = () if self._take("^") else (ANYTHING,)
        middle = self._sequence()
        after = () if self._take("$") else (ANYTHING,)
        return Sequence((*before, middle, *after))

    def _alternatives(self) -> Expression:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return Alternatives(tuple(parts))

    def _sequence(self) -> Expression:
        parts: list[Expression] = []
        while self._next and self._next not in "|)$":
            parts.append(self._repeated())
        if self._next == "$" and self._text[self._at + 1 : self._at + 2] not in ("", "|"):
            raise self._error("$ stands where the pattern goes on")
        if self._next == "$" and self._depth:
            raise self._error("$ stands in a group")
        return Sequence(tuple(parts))

    def _repeated(self) -> Expression:
        part = self._part()
        match self._next:
            case "*":
                bounds: tuple[int, int | None] = (0, None)
            case "+":
                bounds = (1, None)
            case "?":
                bounds = (0, 1)
            case "{":
                bounds = self._counts()
            case _:
                return part
        self._at += 1
        if self._next and self._next in "*+?{":
            raise self._error("a quantifier follows a quantifier")
        return Repeat(part, *bounds)

    def _counts(self) -> tuple[int, int | None]:
        """Read `{m}`, `{m,}` or `{m,n}` up to the closing brace."""
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, self._at)].partition(",")
        numbers = [number for number in (least, most) if number]
        if not least or not all(n.isascii() and n.isdigit() and len(n) < 5 for n in numbers):
            raise self._error("{ does not begin a count as in {2,5}")
        low, high = int(least), int(most) if most else None if comma else int(least)
        if max(low, high or 0) > MOST_REPEATS or (high is not None and high < low):
            raise self._error(f"a count is not ascending or above {MOST_REPEATS}")
        self._at = end
        return low, high

    def _part(self) -> Expression:
        character = self._text[self._at]
        self._at += 1
        match character:
            case ".":
                return OneOf(ANY)
            case "(":
                return self._group()
            case "[":
                return OneOf(self._class())
            case "\\":
                return OneOf(self._escaped())
            case "*" | "+" | "?" | "{":
                raise self._error("a quantifier stands where nothing can be repeated")
            case "^":
                raise self._error("^ stands where the pattern has begun")
            case _:
                return OneOf(frozenset(character))

    def _group(self) -> Expression:
        if self._take("?") and not self._take(":"):
            raise self._error("(? begins something other than a plain group")
        self._depth += 1
        if self._depth > DEEPEST_GROUP:
            raise self._error(f"groups are nested deeper than {DEEPEST_GROUP}")
        inner = self._alternatives()
        self._depth -= 1
        if not self._take(")"):
            raise self._error("a ( has no )")
        return inner

    def _escaped(self) -> Characters:
        character = self._next
        self._at += 1
        if character.lower() in ESCAPES:
            found = ESCAPES[character.lower()]
            return found if character.islower() else ANY - found
        if not character or character.isalnum():
            raise self._error(f"\\{character} is not supported")
        return frozenset(character)

    def _class(self) -> Characters:
        negated, found, first = self._take("^"), set[str](), True
        while first or self._next != "]":
            first = False
            if self._text.startswith(("[:", "[.", "[="), self._at):
                raise self._error("named classes are not supported")
            low = self._class_item()
            if len(low) == 1 and self._next == "-" and self._text[self._at + 1 :][:1] != "]":
                self._at += 1
                high = self._class_item()
                if len(high) != 1 or min(high) < min(low):
                    raise self._error("a range in a class is not ascending")
                low = frozenset(c for c in TOPIC_CHARACTERS if min(low) <= c <= min(high))
            found |= low
        self._at += 1
        return ANY - found if negated else frozenset(found)

    def _class_item(self) -> Characters:
        character = self._next
        if not character:
            raise self._error("a [ has no ]")
        self._at += 1
        return self._escaped() if character == "\\" else frozenset(character)

    @property
    def _next(self) -> str:
        """The next character; empty at the end."""
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        found = self._next == character
        self._at += found
        return found

    def _error(self, reason: str) -> PatternError:
        return PatternError(f"{reason} (character {min(self._at + 1, len(self._text))})")

"""Topic patterns as deterministic automata: a match takes a step for each character of a name.

The automaton is made at once and its size is bounded. So a pattern that would be slow is refused
before it matches anything, by every process alike, and what a match costs is known.
"""

from __future__ import annotations

from functools import lru_cache

from levelwind.assignors.protocol.patterns.pattern_syntax import (
    TOPIC_CHARACTERS,
    Alternatives,
    Expression,
    OneOf,
    PatternError,
    Repeat,
    Sequence,
    parse,
)

MOST_POSITIONS = 500
"""Most characters of a pattern, each counted as often as it is repeated."""
MOST_STATES = 500
"""Most states of a pattern's automaton."""
KEPT_PATTERNS = 1_000
"""Number of patterns whose automata are remembered."""
INTERNAL_PREFIX = "__"
"""Beginning of the names of topics that no pattern matches, Kafka's own among them."""


class TopicPattern:
    """A pattern that is ready to match."""

    def __init__(self, text: str) -> None:
        """Compile a pattern.

        Raises:
            PatternError: It cannot be used.
        """
        self._next, self._accepting = _automaton(parse(text))

    def matches(self, topic: str) -> bool:
        """Whether the pattern finds anything in a topic's name; never in an internal one's."""
        if topic.startswith(INTERNAL_PREFIX):
            return False
        state = 0
        for character in topic:
            following = self._next[state].get(character)
            if following is None:
                return False
            state = following
        return state in self._accepting


@lru_cache(maxsize=KEPT_PATTERNS)
def compiled(text: str) -> TopicPattern | PatternError:
    """Compile a pattern, or return why it cannot be used."""
    try:
        return TopicPattern(text)
    except PatternError as error:
        return error


def pattern_refusal(text: str | None) -> str:
    """Why a member with this pattern cannot be served; empty if it can."""
    pattern = None if text is None else compiled(text)
    return f"its pattern cannot be used: {pattern}" if isinstance(pattern, PatternError) else ""


def finds(text: str | None, topic: str) -> bool:
    """Whether a member's pattern finds a topic; one that cannot be used finds none."""
    pattern = None if text is None else compiled(text)
    return isinstance(pattern, TopicPattern) and pattern.matches(topic)


class _Positions:
    """Positions of an expression (Glushkov): which character each takes, and which may follow.

    Sets of positions are the bits of an integer.
    """

    def __init__(self) -> None:
        self.taking = dict.fromkeys(TOPIC_CHARACTERS, 0)
        """The positions that take each character."""
        self.following: list[int] = []
        """The positions that may follow each position."""

    def add(self, expression: Expression) -> tuple[bool, int, int]:
        """Add an expression: whether it may be empty, its first and its last positions."""
        match expression:
            case OneOf(characters):
                return self._add_one(characters)
            case Sequence(parts):
                whole = (True, 0, 0)
                for part in parts:
                    whole = self._then(whole, self.add(part))
                return whole
            case Alternatives(parts):
                each = [self.add(part) for part in parts]
                first = last = 0
                for _, part_first, part_last in each:
                    first, last = first | part_first, last | part_last
                return any(empty for empty, _, _ in each), first, last
            case Repeat(part, least, most):
                return self._repeat(part, least, most)

    def _add_one(self, characters: frozenset[str]) -> tuple[bool, int, int]:
        if len(self.following) == MOST_POSITIONS:
            raise PatternError(f"its repeats make it longer than {MOST_POSITIONS} characters")
        bit = 1 << len(self.following)
        self.following.append(0)
        for character in characters & self.taking.keys():
            self.taking[character] |= bit
        return False, bit, bit

    def _then(
        self, one: tuple[bool, int, int], other: tuple[bool, int, int]
    ) -> tuple[bool, int, int]:
        self._follow(one[2], other[1])
        return (
            one[0] and other[0],
            one[1] | (other[1] if one[0] else 0),
            other[2] | (one[2] if other[0] else 0),
        )

    def _repeat(self, part: Expression, least: int, most: int | None) -> tuple[bool, int, int]:
        whole = (True, 0, 0)
        copies = max(least, 1) if most is None else most
        for number in range(copies):
            empty, first, last = self.add(part)
            if most is None and number == copies - 1:
                self._follow(last, first)
            whole = self._then(whole, (empty or number >= least, first, last))
        return whole

    def _follow(self, positions: int, after: int) -> None:
        for position in _bits(positions):
            self.following[position] |= after


def _automaton(expression: Expression) -> tuple[list[dict[str, int]], frozenset[int]]:
    """The next state by state and character, and the states in which a name may end."""
    positions = _Positions()
    empty, first, last = positions.add(expression)
    # A state is the set of positions that may come next, with a bit for where a name may end.
    end = 1 << len(positions.following)
    start = first | (end if empty else 0)
    numbers, order, table = {start: 0}, [start], []
    for state in order:
        step: dict[str, int] = {}
        after: dict[int, int] = {}
        for character, taking in positions.taking.items():
            taken = state & taking
            if not taken:
                continue
            if taken not in after:
                following = end if taken & last else 0
                for position in _bits(taken):
                    following |= positions.following[position]
                after[taken] = following
            target = after[taken]
            if target not in numbers:
                if len(order) == MOST_STATES:
                    raise PatternError(f"its automaton needs more than {MOST_STATES} states")
                numbers[target] = len(order)
                order.append(target)
            step[character] = numbers[target]
        table.append(step)
    return table, frozenset(number for state, number in numbers.items() if state & end)


def _bits(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found

"""Partitions as text, such as `"0-9,14"`.

Guarantees: each set has one text: ranges ascend, do not overlap, and neighbours are joined. A text
names at most `MAX_PARTITIONS`, so that a few foreign bytes cannot fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

TopicPartition: TypeAlias = tuple[str, int]
Partitions: TypeAlias = Mapping[str, tuple[int, ...]]
"""Ascending partitions by topic; a topic without partitions is left out."""

MAX_PARTITIONS = 1_000_000
HIGHEST_PARTITION = 2**31 - 1
"""Kafka numbers partitions with 32 bits."""
REMEMBERED, REMEMBERED_TEXT, REMEMBERED_NUMBERS = 4096, 64, 16
"""How many short texts are remembered with their ranges, and the length of such a text and of such
a list of partitions: the shares of most members are short, and many have the same."""


class WireError(ValueError):
    """Bytes or text that break the protocol: the fault of whoever wrote them."""


def parse(text: str, *, limit: int = MAX_PARTITIONS) -> tuple[int, ...]:
    """The partitions that a canonical text names, ascending.

    Raises:
        WireError: The text is not canonical, or names more than `limit` partitions.
    """
    bounds = (_bounds if len(text) <= REMEMBERED_TEXT else _bounds.__wrapped__)(text)
    numbers: list[int] = []
    for low, high in bounds:
        if len(numbers) + high - low + 1 > limit:
            raise WireError(f"more than {limit} partitions in {_shown(text)}")
        numbers.extend(range(low, high + 1))
    return tuple(numbers)


@lru_cache(maxsize=REMEMBERED)
def _bounds(text: str) -> tuple[tuple[int, int], ...]:
    """The first and the last number of each range that a canonical text names."""
    if not text:
        return ()
    bounds: list[tuple[int, int]] = []
    floor = 0  # the lowest number that may come next
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = parse_number(first)
        high = parse_number(last) if dash else low
        if low < floor or high < low or (dash and high == low):
            raise WireError(f"expected ascending ranges with gaps between them, got {_shown(text)}")
        bounds.append((low, high))
        floor = high + 2  # a neighbour would have been joined
    return tuple(bounds)


def format(partitions: Iterable[int]) -> str:  # noqa: A001 - read as ranges.format
    """The canonical text of a set of partitions."""
    numbers = tuple(partitions)
    return (_text if len(numbers) <= REMEMBERED_NUMBERS else _text.__wrapped__)(numbers)


@lru_cache(maxsize=REMEMBERED)
def _text(partitions: tuple[int, ...]) -> str:
    parts: list[tuple[int, int]] = []
    for number in sorted(set(partitions)):
        if parts and parts[-1][1] + 1 == number:
            parts[-1] = (parts[-1][0], number)
        else:
            parts.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def texts(partitions: Partitions) -> dict[str, str]:
    """The canonical text of the partitions by topic; topics without partitions are left out."""
    return {topic: format(numbers) for topic, numbers in partitions.items() if numbers}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Group pairs of topic and number into ascending partitions by topic."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return {topic: tuple(sorted(set(numbers[topic]))) for topic in sorted(numbers)}


def pairs(partitions: Mapping[str, Iterable[int]]) -> frozenset[TopicPartition]:
    """Flatten partitions by topic into pairs of topic and number."""
    return frozenset((topic, number) for topic, numbers in partitions.items() for number in numbers)


def owners(shares: Mapping[str, Mapping[str, Iterable[int]]]) -> dict[TopicPartition, str]:
    """The owner of each partition, of shares by owner and topic."""
    return {
        (topic, number): owner
        for owner, share in shares.items()
        for topic, numbers in share.items()
        for number in numbers
    }


def parse_partition(text: str) -> TopicPartition:
    """The topic and number of `TOPIC/NUMBER`; raises `WireError` for any other text."""
    topic, _, digits = text.rpartition("/")
    try:
        number = parse_number(digits)
    except WireError:
        number = -1
    if not topic or number < 0:
        raise WireError(
            f"{_shown(text)} is no partition: write TOPIC/NUMBER, as in orders.placed/3"
        )
    return topic, number


def parse_number(digits: str) -> int:
    """Parse the number of one partition, as everybody writes it; raises `WireError` for others."""
    # isdecimal() also accepts digits of other scripts. The length check bounds the work of int().
    if (
        not (digits.isascii() and digits.isdecimal())
        or len(digits) > 10
        or (digits[0] == "0" and digits != "0")
    ):
        raise WireError(f"not a partition number: {_shown(digits)}")
    number = int(digits)
    if number > HIGHEST_PARTITION:
        raise WireError(f"not a partition number: {digits}")
    return number


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…").encode(errors="replace").decode()

"""Bars: a member that cannot start the partitions of a topic is planned without it for a while.

The pause doubles with each failure that follows, and begins again after a time without one. A bar
has no effect where every other reader of the topic is barred too: then nobody else could do better.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from levelwind.daemon.doubling_pause import DoublingPause

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

PAUSES = DoublingPause(60.0, 3600.0)


class StartBar(NamedTuple):
    """A member's bar from one topic; times are readable seconds."""

    pause: float
    """Length of the bar in seconds."""
    until: float
    """End of the bar."""
    lifted: bool = False
    """Whether the bar has ended; it is remembered for another pause, to double the next one."""


StartBars: TypeAlias = "Mapping[tuple[str, str], StartBar]"
"""Bars by instance and topic."""


def bar(bars: StartBars, instance: str, topics: Collection[str], now: float) -> StartBars:
    """Bar a member from topics whose partitions it could not start."""
    added = {}
    for topic in topics:
        last = bars.get((instance, topic))
        if last is not None and not last.lifted:
            continue
        pause = PAUSES.after(None if last is None else last.pause)
        added[instance, topic] = StartBar(pause, now + pause)
    return {**bars, **added}


def checked(bars: StartBars, now: float) -> StartBars:
    """Lift the bars that have ended, and forget those that ended long ago."""
    return {
        key: entry._replace(lifted=now >= entry.until)
        for key, entry in bars.items()
        if now < entry.until + entry.pause
    }


def checked_at(bars: StartBars) -> float:
    """Return the readable time from which `checked` changes a bar; infinite without any."""
    return min(
        (entry.until + entry.pause if entry.lifted else entry.until for entry in bars.values()),
        default=float("inf"),
    )


def effective(
    bars: StartBars, subscriptions: Iterable[tuple[str, str]]
) -> Mapping[str, frozenset[str]]:
    """Return the topics that each member is planned without, by instance.

    Args:
        bars: all bars of the group.
        subscriptions: pairs of a live member's instance and a topic that it reads.
    """
    if not bars:
        return {}
    readers: defaultdict[str, set[str]] = defaultdict(set)
    for instance, topic in subscriptions:
        readers[topic].add(instance)
    barred: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for topic, instances in readers.items():
        out = {
            instance
            for instance in instances
            if (entry := bars.get((instance, topic))) is not None and not entry.lifted
        }
        if out != instances:
            for instance in out:
                barred[instance] |= {topic}
    return dict(barred)

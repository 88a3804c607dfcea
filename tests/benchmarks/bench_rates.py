"""Changes of arrival rates: false alarms and the delay until a change is believed.

    python tests/benchmarks/bench_rates.py [--partitions 300] [--seconds 900] [--seed 1]

Three tests read the same end offsets, sampled each second: `levelwind.streaming.rules`, and two of
the field that keep a state for each partition: Page-Hinkley (E. S. Page, 1954) on the square roots
of the counts, and CUSUM of the likelihood of a rate doubled and halved. Both divide by a dispersion
that they learn from successive counts, and have the thresholds with the fewest false alarms at the
same delay on a step of four. Beside them is the mean of a minute, in which an interval counts three
times the median at most: the rule of 0.1.0.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from levelwind.streaming.rules.arrival_rate import (
    RATE_MS,
    arrival_rate,
    interval_bounds,
    usual_rate,
)
from levelwind.streaming.rules.rate_changes import NO_CHANGE, rate_changes
from levelwind.streaming.topic.end_history import EndOffsetHistory

Records = np.ndarray
"""Records that arrive, seconds by partitions."""
WARM_UP_SECONDS = 60
BATCH = 1_000
STEPS = ((11, 180), (180, 11), (11, 44), (44, 11), (100, 400), (400, 100), (50, 100), (40, 0))
STEP_SECONDS, STEP_PARTITIONS = 300, 20
HOT = (11, 180)
"""Rates between which a partition changes to and fro."""
HOT_SECONDS = (20, 40)
"""Times for which it is hot before it is not any more."""
BELIEVED = 0.25
"""Share of a step by which a rate may differ from the new one to count as believed."""


@dataclass
class Windows:
    """The pipeline's rule."""

    history: EndOffsetHistory

    def changed(self) -> np.ndarray:
        known = self.history
        return rate_changes(known.at, known.end, int(known.at[-1]) - RATE_MS) != NO_CHANGE

    def rates(self) -> np.ndarray:
        return arrival_rate(self.history.at, self.history.end)


@dataclass
class Minute(Windows):
    """The mean of a minute alone."""

    def changed(self) -> np.ndarray:
        return np.zeros(self.history.end.shape[1], bool)

    def rates(self) -> np.ndarray:
        points = interval_bounds(self.history.at)
        return usual_rate(self.history.at[points], self.history.end[points])


@dataclass
class Sequential:
    """A test with a state: its figures begin anew at each alarm."""

    name: str
    threshold: float
    partitions: int
    seconds: np.ndarray = field(init=False)
    mean: np.ndarray = field(init=False)
    high: np.ndarray = field(init=False)
    low: np.ndarray = field(init=False)
    last: np.ndarray = field(init=False)
    square: np.ndarray = field(init=False)
    total: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        for name in ("seconds", "mean", "high", "low", "last", "square", "total"):
            setattr(self, name, np.zeros(self.partitions))

    def take(self, records: np.ndarray) -> np.ndarray:
        """Take in the records of a second; return where there is an alarm."""
        # Successive counts differ by the noise alone, but for the few at a step.
        self.square += np.minimum((records - self.last) ** 2 / 2, 1e9)
        self.total, self.last = self.total + records, records
        dispersion = np.maximum(self.square / np.maximum(self.total, 1), 1)
        ready = self.seconds >= 10
        if self.name == "Page-Hinkley":
            root = 2 * np.sqrt(records / dispersion + 0.375)
            usual = 2 * np.sqrt(self.mean / dispersion + 0.375)
            rise, fall = root - usual - 0.5, usual - root - 0.5
        else:
            rise = (records * np.log(2) - self.mean) / dispersion
            fall = (self.mean / 2 - records * np.log(2)) / dispersion
        self.high = np.where(ready, np.maximum(self.high + rise, 0), 0)
        self.low = np.where(ready, np.maximum(self.low + fall, 0), 0)
        alarm = np.maximum(self.high, self.low) > self.threshold
        self.high[alarm] = self.low[alarm] = self.seconds[alarm] = 0
        self.seconds += 1
        self.mean += (records - self.mean) / np.minimum(self.seconds, 60)
        return alarm


def sequential(partitions: int) -> list[Sequential]:
    return [Sequential("Page-Hinkley", 12.0, partitions), Sequential("CUSUM", 15.0, partitions)]


def sampled(records: Records) -> Iterator[tuple[int, EndOffsetHistory]]:
    known, ends = EndOffsetHistory.empty(), np.cumsum(records, axis=0) + 1
    for second, end in enumerate(ends):
        known = known.with_sample(second * 1000, end)
        yield second, known


def false_alarms(records: Records) -> dict[str, float]:
    """Alarms an hour and 1,000 partitions, without a change that is one."""
    partitions = records.shape[1]
    others, was = sequential(partitions), np.zeros(partitions, bool)
    counts = dict.fromkeys(("two windows", *(test.name for test in others)), 0)
    for second, known in sampled(records):
        alarms = {test.name: test.take(records[second]) for test in others}
        if second < WARM_UP_SECONDS:
            continue
        now = Windows(known).changed()
        alarms["two windows"], was = now & ~was, now
        for name, alarm in alarms.items():
            counts[name] += int(alarm.sum())
    hours = partitions / 1000 * (len(records) - WARM_UP_SECONDS) / 3600
    return {name: count / hours for name, count in counts.items()}


def delays(
    before: float, after: float, draw: np.random.Generator, held: int = STEP_SECONDS
) -> dict[str, np.ndarray]:
    """Seconds from a step until each test believes in it.

    Args:
        before: records a second before it.
        after: records a second after it, and before the rate before.
        draw: draws the arrivals.
        held: seconds for which the rate before was held; by default from the start.
    """
    second = np.arange(STEP_SECONDS + 70)
    was_held = (second >= STEP_SECONDS - held) & (second < STEP_SECONDS)
    rates = np.where(was_held, before, after)[:, None]
    records = draw.poisson(np.broadcast_to(rates, (len(rates), STEP_PARTITIONS)))
    found: dict[str, np.ndarray] = {}

    def believed(name: str, second: int, now: np.ndarray) -> None:
        times = found.setdefault(name, np.full(STEP_PARTITIONS, np.inf))
        times[now & np.isinf(times)] = second + 1 - STEP_SECONDS

    others = sequential(STEP_PARTITIONS)
    for second, known in sampled(records):
        alarms = {test.name: test.take(records[second]) for test in others}
        if second < STEP_SECONDS:
            continue
        for name, rule in (("two windows", Windows), ("mean of a minute", Minute)):
            off = np.abs(rule(known).rates() - after)
            believed(name, second, off <= BELIEVED * abs(after - before))
        for name, alarm in alarms.items():
            believed(name, second, alarm)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = np.random.default_rng(options.seed)
    size = options.seconds, options.partitions
    rates = np.geomspace(4, 400, options.partitions)
    hour = 1 + 0.8 * np.sin(2 * np.pi * np.arange(options.seconds) / 3600)[:, None]
    arrivals: dict[str, Callable[[], Records]] = {
        "Poisson": lambda: draw.poisson(rates, size),
        f"batches of {BATCH:,}": lambda: BATCH * draw.poisson(rates / BATCH, size),
        "Poisson, a burst of 9,000": lambda: (
            draw.poisson(rates, size)
            + 9_000 * (np.arange(size[0])[:, None] == draw.integers(0, size[0], size[1]))
        ),
        "diurnal, a day an hour": lambda: draw.poisson(rates * hour),
    }
    print("false alarms an hour and 1,000 partitions")
    for name, records in arrivals.items():
        counts = false_alarms(records())
        print(f"  {name:26}", *(f"{key} {value:.1f}" for key, value in counts.items()), sep="  ")
    print("seconds until a step is believed: median (largest)")
    steps = {f"{before}/s to {after}/s": delays(before, after, draw) for before, after in STEPS}
    quiet, hot = HOT
    for held in HOT_SECONDS:
        steps[f"{hot}/s for {held} s to {quiet}/s"] = delays(hot, quiet, draw, held)
    for name, found in steps.items():
        texts = [f"{key} {np.median(t):.0f} ({t.max():.0f})" for key, t in found.items()]
        print(f"  {name:26}", *texts, sep="  ")


if __name__ == "__main__":
    main()

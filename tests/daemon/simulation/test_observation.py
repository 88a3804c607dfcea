"""What the control knows of a simulated group whose members commit every five seconds."""

import numpy as np
import pytest

from levelwind.daemon.simulation.strategy.observation import Observation, Rhythm
from levelwind.daemon.simulation.traffic import RecentArrivals

OWNER = np.array([0, 1])
LIVE = np.array([0, 1])
CAPACITY = np.ones(2)


class Pace:
    """Two members that read all they can, of 100 records a second for each, tick by tick."""

    def __init__(self, commit_seconds, *, samples=0.0, rhythm=None):
        rhythm = rhythm or Rhythm(commits=commit_seconds, samples=samples)
        self.observed = Observation(2, 2, rhythm)
        self.recent = RecentArrivals(2, 1.0, 60.0)
        self.left = np.zeros(2, np.int64)
        self.now = 0.0

    def tick(self, first=100):
        """The lag of a second in which `first` arrive in the first partition, and what to judge."""
        arrived = np.array([first, 100])
        self.recent.arrive(arrived)
        self.left += arrived
        seen = self.observed.lag(self.left, self.recent.rates(), self.now).copy()
        figures = self.observed.sampled(self.left, OWNER, LIVE, CAPACITY, self.now, self.recent)
        done = np.minimum(self.left, 300)
        self.left -= done
        self.observed.read(done, self.left, OWNER, self.now, 1.0, self.recent)
        self.now += 1.0
        return seen, figures


def test_what_arrives_between_two_commits_is_no_lag() -> None:
    pace = Pace(5.0)
    lags = [pace.tick()[0].max() for _ in range(60)]
    assert max(lags[20:]) <= 100  # what this tick's arrivals add


def test_without_an_interval_the_lag_is_what_is_left() -> None:
    pace = Pace(0.0)
    lags = [pace.tick()[0].tolist() for _ in range(5)]
    assert lags == [[100, 100]] * 5


@pytest.mark.parametrize("interval", [0.0, 5.0])
def test_a_speed_is_learned_from_commits_that_leave_records_waiting(interval: float) -> None:
    pace = Pace(interval)
    for _ in range(10):
        pace.tick()
    assert np.isnan(pace.observed.speeds).all()
    samples = [pace.tick(first=3_000 if number == 0 else 100)[1] for number in range(20)]
    waits = [figures.waiting for _, figures in samples]
    speed = pace.observed.speeds
    assert speed[0] == pytest.approx(300, rel=0.05)
    assert np.isnan(speed[1])
    assert not waits[0]
    assert any(waits)


def test_what_a_member_gives_up_is_committed() -> None:
    pace = Pace(5.0)
    for _ in range(11):
        pace.tick()
    pace.left[:] = 0
    pace.observed.moved(np.array([True, True]), OWNER, OWNER[::-1], pace.now)
    assert pace.observed.lag(pace.left, np.zeros(2), pace.now).tolist() == [0, 0]


def test_a_sample_that_the_pipeline_works_on_is_judged_later() -> None:
    pace = Pace(0.0, rhythm=Rhythm(samples=3.0, begin=1.0, delay=2.0))
    judged = [pace.tick()[1] for _ in range(12)]
    assert [None if sample is None else sample[0] for sample in judged] == [
        *[None] * 6,
        1.0,
        *[None] * 2,
        4.0,
        *[None] * 2,
    ]


def test_a_sample_is_judged_when_the_next_one_is_taken() -> None:
    pace = Pace(0.0, samples=2.0)
    judged = [pace.tick()[1] for _ in range(6)]
    assert [None if sample is None else sample[0] for sample in judged] == [
        None,
        None,
        0.0,
        None,
        2.0,
        None,
    ]

"""The rule of skew, case by case: what counts, and when it becomes a trigger."""

from dataclasses import replace

import numpy as np
import pytest

from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.member_loads import RATE_SCALE, MemberLoads
from levelwind.streaming.rules.skew import (
    SkewFigures,
    SkewRule,
    SkewRun,
    next_run,
    skew_counts,
)

RULE = SkewRule(threshold=1.25, floor_seconds=3.0, utilisation=0.85, duration_ms=2_000)
LEVEL = SkewFigures(
    heaviest=20.0,
    best=20.0,
    utilisation=0.0,
    best_utilisation=0.0,
    assumed=False,
    waiting=False,
)
HIGH = replace(LEVEL, heaviest=25.0)
BETWEEN = replace(LEVEL, heaviest=22.6)
LOW = replace(LEVEL, heaviest=22.4)
SMALL = replace(LEVEL, heaviest=2.9, best=0.5)


@pytest.mark.parametrize(
    ("case", "figures", "counts", "holds"),
    [
        ("level", LEVEL, False, False),
        ("above both distances", HIGH, True, True),
        ("half of the ratio holds a trigger", BETWEEN, False, True),
        ("less does not", LOW, False, False),
        ("few seconds", SMALL, False, True),
        ("half of the floor holds a trigger", replace(SMALL, heaviest=1.9), False, False),
        ("one partition is all of it", replace(LEVEL, heaviest=400.0, best=400.0), False, False),
        (
            "a member near its capacity",
            replace(LEVEL, utilisation=0.85, best_utilisation=0.7),
            True,
            True,
        ),
        (
            "a group near its capacity",
            replace(LEVEL, utilisation=0.95, best_utilisation=0.89),
            False,
            True,
        ),
        (
            "a member that has spare capacity",
            replace(LEVEL, utilisation=0.84, best_utilisation=0.4),
            False,
            True,
        ),
        (
            "an assumed capacity says nothing of utilisation",
            replace(LEVEL, utilisation=2.0, best_utilisation=0.5, assumed=True),
            False,
            False,
        ),
    ],
)
def test_skew_counts(case: str, figures: SkewFigures, counts: bool, holds: bool) -> None:
    assert skew_counts(RULE, figures, active=False) is counts
    assert skew_counts(RULE, figures, active=True) is holds


@pytest.mark.parametrize(
    ("case", "samples", "since", "active"),
    [
        ("first seen", [(0, HIGH)], 0, False),
        ("not yet long enough", [(0, HIGH), (1, HIGH)], 0, False),
        ("long enough", [(0, HIGH), (1, HIGH), (2, HIGH)], 0, True),
        ("a level sample breaks it", [(0, HIGH), (1, LEVEL), (2, HIGH)], 2, False),
        ("half of the distance begins none", [(0, BETWEEN), (1, HIGH), (2, HIGH)], 1, False),
        ("half of the distance holds it", [(0, HIGH), (2, HIGH), (9, BETWEEN)], 0, True),
        ("it ends at once", [(0, HIGH), (2, HIGH), (3, LOW)], UNKNOWN, False),
        ("sparse samples count", [(0, HIGH), (10, HIGH)], 0, True),
        ("silence breaks it", [(0, HIGH), (16, HIGH)], 16, False),
        ("silence clears no trigger", [(0, HIGH), (2, HIGH), (90, HIGH)], 0, True),
        ("a clock that is set back breaks it", [(100, HIGH), (20, HIGH)], 20, False),
    ],
)
def test_skew_becomes_a_trigger(
    case: str, samples: list[tuple[int, SkewFigures]], since: int, active: bool
) -> None:
    run = SkewRun()
    for second, figures in samples:
        run = next_run(RULE, run, figures, at=second * 1000)
    assert run.since == (since if since == UNKNOWN else since * 1000)
    assert run.active is active
    assert run.evaluated_at == samples[-1][0] * 1000


def test_assumed_seconds_are_no_trigger_before_records_have_shown_to_wait() -> None:
    guess = replace(HIGH, assumed=True)
    run = SkewRun()
    for second in range(10):
        run = next_run(RULE, run, guess, at=second * 1000)
        assert not run.active
    assert run.since == 0
    assert next_run(RULE, run, replace(guess, waiting=True), at=10_000).active
    assert next_run(RULE, run, HIGH, at=10_000).active


def loads(lag: list[int], rate: list[float], owner: list[int], speed: list[float]) -> MemberLoads:
    return MemberLoads.of(
        lag=np.array(lag),
        rate=np.array([round(figure * RATE_SCALE) for figure in rate]),
        owner=np.array(owner),
        announced=np.ones(len(speed)),
        speed=np.array(speed),
    )


def test_a_backlog_on_one_members_partitions_counts_in_its_seconds() -> None:
    of_group = loads([9_000, 9_000, 0, 0], [75] * 4, [0, 0, 1, 1], [300, 300])
    figures = of_group.figures(waiting=False)
    assert of_group.horizon == pytest.approx(18_000 / (600 - 300))
    assert figures.best == pytest.approx(60)
    assert figures.heaviest == pytest.approx((18_000 + 150 * 60) / 300)
    assert figures.utilisation == pytest.approx(0.5)
    assert not figures.assumed
    assert skew_counts(RULE, figures, active=False)


UNKNOWN_SPEEDS = [float("nan")] * 2


@pytest.mark.parametrize(
    ("lag", "rate", "waits"),
    [
        pytest.param(6_000, 75, True, id="twenty seconds at twice the pace"),
        pytest.param(5_999, 75, False, id="less"),
        pytest.param(60_000, 0, False, id="nothing usually arrives, so no pace is known"),
        pytest.param(1_999, 1, False, id="an idle group reads a hundred a second at least"),
    ],
)
def test_a_long_lag_waits_beyond_doubt(lag: int, rate: float, *, waits: bool) -> None:
    of_group = loads([lag, 0, 0, 0], [rate] * 4, [0, 0, 1, 1], UNKNOWN_SPEEDS)
    assert of_group.figures(waiting=False).waiting is waits
    assert of_group.figures(waiting=True).waiting


def test_a_partition_that_cannot_be_split_is_the_best_that_can_be_reached() -> None:
    figures = loads([18_000, 0, 0], [0] * 3, [0, 1, 1], [300, 300]).figures(waiting=True)
    assert figures.heaviest == figures.best == pytest.approx(60)
    assert not skew_counts(RULE, figures, active=False)


def test_beside_a_partition_that_cannot_be_split_what_the_others_could_share_counts() -> None:
    lag, owner = [100_000, 22_500, 22_500, 22_500, 22_500, 0], [0, 1, 1, 1, 1, 2]
    figures = loads(lag, [0] * 6, owner, [300] * 3).figures(waiting=True)
    # The largest load is that of one partition, 333 s; b has 300 s of which c could take half.
    assert (figures.heaviest, figures.best) == (300, 150)
    assert skew_counts(RULE, figures, active=False)
    shared = loads(lag, [0] * 6, [0, 1, 1, 2, 2, 2], [300] * 3).figures(waiting=True)
    assert not skew_counts(RULE, shared, active=True)


def test_a_member_beyond_its_capacity_counts_before_its_lag_has_grown() -> None:
    figures = loads([0] * 4, [200, 130, 60, 30], [0, 0, 1, 1], [300, 300]).figures(waiting=False)
    assert figures.utilisation == pytest.approx(1.1)
    assert figures.best_utilisation == pytest.approx(0.7)
    assert skew_counts(RULE, figures, active=False)


def test_a_slow_member_counts_with_its_own_speed() -> None:
    slow = loads([0] * 4, [60] * 4, [0, 0, 1, 1], [100, 500]).figures(waiting=False)
    assert slow.utilisation == pytest.approx(1.2)
    assert slow.best_utilisation == pytest.approx(0.4)
    assert skew_counts(RULE, slow, active=False)


def test_arrivals_alone_say_nothing_while_no_speed_is_known() -> None:
    unknown = [float("nan")] * 2
    figures = loads([0] * 4, [60, 60, 1, 1], [0, 0, 1, 1], unknown).figures(waiting=False)
    assert figures.assumed
    run = SkewRun()
    for second in range(10):
        run = next_run(RULE, run, figures, at=second * 1000)
    assert not run.active

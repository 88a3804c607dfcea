"""Brokers, members and the daemon under random faults, checked offline."""

from dataclasses import replace

import pytest

from levelwind_testing.chaos.chaos_plan import ChaosPlan
from levelwind_testing.chaos.chaos_run import run
from levelwind_testing.drawn_seeds import drawn_seed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SECONDS, LONG_SECONDS = 40.0, 140.0
"""Lengths of the faults; the start, the last commits and the check take another minute."""
SEED = 11


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(ChaosPlan(seconds=SECONDS, seed=SEED, pause=1.5), id="short"),
        pytest.param(ChaosPlan(seconds=LONG_SECONDS, seed=SEED), id="long", marks=pytest.mark.rare),
    ],
)
def test_nobody_shares_a_partition_and_nothing_is_lost_whatever_fails(plan, tmp_path):
    """Only safety is judged: how long something takes depends on the machine."""
    report = run(replace(plan, seed=drawn_seed(plan.seed)), tmp_path / "run")
    print(report.text())
    assert report.violations == []
    # The run means something: all kinds of faults, and groups that work in between.
    assert report.missing == []
    assert report.faults.total() > plan.seconds / 10
    for findings in report.findings.values():
        assert findings.counts["end"] > plan.seconds
        assert findings.counts["lost"] > 0

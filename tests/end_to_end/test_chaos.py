"""Brokers, members and the daemon under random faults for three minutes, checked offline."""

import pytest

from levelwind_testing.chaos.chaos_plan import ChaosPlan
from levelwind_testing.chaos.chaos_run import run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SECONDS = 140.0
"""Length of the faults; the start, the last commits and the check take another minute."""
SEED = 11


def test_nobody_shares_a_partition_and_nothing_is_lost_whatever_fails(tmp_path):
    """Only safety is judged: how long something takes depends on the machine."""
    report = run(ChaosPlan(seconds=SECONDS, seed=SEED), tmp_path / "run")
    print(report.text())
    assert report.violations == []
    # The run means something: all kinds of faults, and groups that work in between.
    assert report.missing == []
    assert report.faults.total() > SECONDS / 10
    for findings in report.findings.values():
        assert findings.counts["end"] > SECONDS
        assert findings.counts["lost"] > 0

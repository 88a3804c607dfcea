"""Verdicts of the simulation's benchmark: who won, by how much, and runs that are saved."""

import runpy
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = runpy.run_path(str(Path(__file__).with_name("bench_simulation.py")))
HOURS = 6


def played(seed: int, **parts: list[float]) -> dict[Any, dict[str, Any]]:
    """One run, with what each hour adds to the mean wait under each strategy."""
    play = BENCHMARK["BenchWorld"](
        scenario="day", seed=seed, partitions=20, members=4, hours=float(HOURS), utilisation=0.6
    )
    waits = {
        name.replace("_", "-"): BENCHMARK["WaitsByHour"](mean=sum(hours), by_hour=tuple(hours))
        for name, hours in parts.items()
    }
    return {play: waits}


def test_a_strategy_that_waits_less_is_named_and_the_goal_is_missed() -> None:
    behind = played(1, optimal=[0.2] * HOURS, lag_global=[0.1] * HOURS, lag=[0.9] * HOURS)
    ahead = played(2, optimal=[0.1] * HOURS, lag_global=[0.2] * HOURS, lag=[0.9] * HOURS)
    assert BENCHMARK["goal_missed"](behind)
    assert not BENCHMARK["goal_missed"](ahead)
    text = BENCHMARK["summary"](behind | ahead)
    assert "ahead in 1 of 2 runs, behind in 1 (day 1)" in text
    assert "goal MISSED" in text
    assert "day: lag-global comes closest to optimal, which leads it by 0.0000" in text
    [(play, waits)] = behind.items()
    assert "(lag-global): BEHIND, by 0.6000 ± 0.0000 s" in BENCHMARK["verdict"](play, waits)


def test_less_than_a_millisecond_is_a_tie() -> None:
    tie = played(1, optimal=[0.1] * HOURS, lag=[0.0999] * HOURS)
    assert "0 of 1 runs, behind in 0" in BENCHMARK["summary"](tie)
    assert not BENCHMARK["goal_missed"](tie)


def test_one_hour_that_outweighs_the_others_is_shown_as_chance() -> None:
    [(play, waits)] = played(1, optimal=[0.0] * HOURS, lag=[0.6] + [0.0] * 5).items()
    assert "ahead, by 0.6000 ± 1.2000 s" in BENCHMARK["verdict"](play, waits)


def test_runs_without_another_strategy_have_no_verdict() -> None:
    alone = played(1, optimal=[0.1] * HOURS)
    assert "ahead in 0 of 0 runs" in BENCHMARK["summary"](alone)


def test_saved_runs_are_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "--partitions", "10", "--members", "2", "--hours", "0.1"]
    command += ["--scenarios", "day", "--results", str(tmp_path / "runs.jsonl")]
    texts = []
    for strategies in ("optimal", "range", "optimal,range"):
        monkeypatch.setattr("sys.argv", [*command, "--strategies", strategies])
        BENCHMARK["main"]()
        texts.append(capsys.readouterr().out)
    assert "time above" in texts[0]
    assert "time above" in texts[1]
    assert "time above" not in texts[2]
    assert "ahead in" in texts[2]

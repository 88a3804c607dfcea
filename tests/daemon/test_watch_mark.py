"""The mark by which the pipeline knows that somebody watches."""

import os
from pathlib import Path

from levelwind.daemon.watch_mark import FILE, RENEW_SECONDS, VALID_SECONDS, WatchMark


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_the_mark_counts_for_a_while_after_the_last_watcher_renewed_it(tmp_path: Path) -> None:
    clock = Clock()
    mark = WatchMark(tmp_path, clock)
    assert not mark.is_valid()
    mark.renew()
    os.utime(tmp_path / FILE, (clock.now, clock.now))
    clock.now += VALID_SECONDS
    assert mark.is_valid()
    clock.now += 1
    assert not mark.is_valid()


def test_the_mark_is_not_written_at_every_look(tmp_path: Path) -> None:
    clock = Clock()
    mark = WatchMark(tmp_path, clock)
    mark.renew()
    (tmp_path / FILE).unlink()
    clock.now += RENEW_SECONDS / 2
    mark.renew()
    assert not (tmp_path / FILE).exists()
    clock.now += RENEW_SECONDS
    mark.renew()
    assert (tmp_path / FILE).exists()


def test_a_mark_of_a_clock_that_was_set_back_does_not_count_for_ever(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / FILE).touch()
    os.utime(tmp_path / FILE, (clock.now + 3600, clock.now + 3600))
    assert not WatchMark(tmp_path, clock).is_valid()


def test_a_watcher_without_the_directory_makes_none(tmp_path: Path) -> None:
    WatchMark(tmp_path / "nowhere").renew()
    assert list(tmp_path.iterdir()) == []

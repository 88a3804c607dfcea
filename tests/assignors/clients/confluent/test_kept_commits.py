"""Commits that are made again: when, and with what."""

from itertools import pairwise

import pytest
from confluent_kafka import TopicPartition

from levelwind.assignors.clients.confluent.committing import kept_commits
from levelwind.assignors.clients.confluent.committing.kept_commits import FIRST_SECONDS, KeptCommits

HOUR = 3600.0


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(kept_commits, "boot_seconds", clock)
    return clock


def test_a_commit_is_made_again_once_an_interval_has_passed_without_another(clock):
    kept = KeptCommits(HOUR)
    kept.made([TopicPartition("t", 0, 7, "note"), TopicPartition("t", 1, 8)])
    clock.now += HOUR - 1
    kept.made([TopicPartition("t", 1, 9)])
    assert kept.due() == ({}, {})
    clock.now += 1
    assert kept.due() == ({("t", 0): 7}, {("t", 0): "note"})
    kept.made([TopicPartition("t", 0, 7, "note")])
    clock.now += HOUR - 1
    assert kept.due() == ({("t", 1): 9}, {})


def test_what_a_grant_begins_with_is_committed_soon_and_nothing_without_a_commit(clock):
    kept = KeptCommits(HOUR)
    kept.found([TopicPartition("t", 0, 7), TopicPartition("t", 1, -1001)])
    clock.now += FIRST_SECONDS
    assert kept.due() == ({("t", 0): 7}, {})


def test_a_refused_commit_is_tried_again_and_not_at_each_look(clock):
    kept = KeptCommits(HOUR)
    kept.found([TopicPartition("t", 0, 7)])
    tries = []
    for _ in range(10 * int(FIRST_SECONDS)):
        clock.now += 1
        if clock.now >= kept.look_at and kept.due()[0]:
            tries.append(clock.now)
    gaps = {after - before for before, after in pairwise(tries)}
    assert gaps == {FIRST_SECONDS}


def test_a_commit_is_not_made_again_after_another_one_that_nobody_confirmed(clock):
    kept = KeptCommits(HOUR)
    kept.made([TopicPartition("t", 0, 7), TopicPartition("t", 1, 7)])
    kept.sent({("t", 0): 9, ("t", 1): 7})
    clock.now += HOUR
    assert kept.due() == ({("t", 1): 7}, {})
    kept.made([TopicPartition("t", 0, 10)])
    clock.now += HOUR
    assert kept.due()[0] == {("t", 0): 10, ("t", 1): 7}


def test_a_partition_that_was_given_up_is_its_next_owners(clock):
    kept = KeptCommits(HOUR)
    kept.found([TopicPartition("t", 0, 7)])
    kept.forget(("t", 0))
    kept.forget(("t", 1))
    clock.now += HOUR
    assert kept.due() == ({}, {})

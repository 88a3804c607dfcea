"""Who leads: every way for a daemon to stand by, take over and be deposed."""

import pytest

from levelwind.assignors.protocol.records import CanaryRecord, PlannerRecord
from levelwind.daemon.service.leadership import (
    CanaryReadBack,
    CanaryWritten,
    LeadChanged,
    Leadership,
    LeaderSighted,
    LeadPhase,
    ReadUntil,
    TopicsRead,
    sign_of,
)

WITHOUT = Leadership(instance="me", takeover=6.0, interval=1.0, patience=15.0)
GIVEN, TAKEN = LeadChanged(owns=True), LeadChanged(owns=False)
NEW = WITHOUT.after(GIVEN)
"""A daemon that has had the lead from the beginning."""


def canary(number, *, epoch=7, instance="another", state="leading"):
    return CanaryRecord(planner_epoch=epoch, instance=instance, number=number, state=state)


def after(leadership, *events):
    for event in events:
        leadership = leadership.after(event)
    return leadership


def sighted(number, **fields):
    return LeaderSighted(canary=canary(number, **fields))


def reads(start, seconds):
    """An end asked for each second, and read to."""
    return [ReadUntil(asked_at=start + second) for second in range(seconds + 1)]


def test_nobody_takes_over_before_it_has_read_everything():
    assert not NEW.due
    assert not after(NEW, *reads(0, 20)).due


def test_where_nobody_has_led_a_daemon_leads_at_once():
    assert after(NEW, TopicsRead()).due


def test_nobody_takes_over_without_the_lead():
    standing_by = after(WITHOUT, sighted(1), TopicsRead())
    assert not after(standing_by, *reads(0, 600)).due
    assert not after(standing_by, sighted(2, state="stopped")).due
    assert not after(WITHOUT, TopicsRead()).due


def test_a_daemon_that_is_given_the_lead_takes_over_at_once():
    given = after(WITHOUT, sighted(9), TopicsRead(), ReadUntil(asked_at=1.0), GIVEN)
    assert given.due
    assert after(given, sighted(10)).due, "a late canary of the one before"
    assert not after(given, sighted(1, epoch=8)).due, "another has taken over meanwhile"
    assert not after(given, TAKEN).due


def test_a_leader_that_loses_the_lead_goes_on_until_it_is_fenced(leading):
    without = after(leading, TAKEN)
    assert without.phase is LeadPhase.LEADING
    assert after(without, sighted(1, epoch=8)).phase is LeadPhase.STANDING_BY
    assert after(without, GIVEN) == leading


def test_after_a_clean_stop_a_daemon_leads_at_once():
    assert after(NEW, sighted(1), sighted(2, state="stopped"), TopicsRead()).due


def test_a_daemon_that_saw_another_although_it_has_the_lead_waits_for_the_end_of_its_canaries():
    waiting = after(NEW, sighted(9), TopicsRead(), *reads(100, 5))
    assert not waiting.due
    assert after(waiting, ReadUntil(asked_at=106.0)).due


def test_each_canary_of_the_leader_makes_the_others_wait_anew():
    leadership = after(NEW, sighted(1), TopicsRead())
    for number in range(2, 60):
        leadership = after(leadership, sighted(number), ReadUntil(asked_at=float(number)))
        assert not leadership.due
    assert not after(leadership, *reads(60, 4)).due
    assert after(leadership, *reads(60, 6)).due


def test_a_planner_that_failed_before_its_first_canary_counts_as_one_that_led():
    planner = PlannerRecord(planner_epoch=8, instance="another", started_at=1)
    stopped = sighted(50, epoch=7, state="stopped")
    waiting = after(NEW, stopped, LeaderSighted(canary=sign_of(planner)), TopicsRead())
    assert not waiting.due
    assert not after(waiting, sighted(51, epoch=7, state="stopped")).due
    assert after(waiting, *reads(0, 6)).due


def test_the_leader_that_stops_hands_over_at_once():
    standing_by = after(NEW, sighted(1), TopicsRead(), ReadUntil(asked_at=5.0))
    assert after(standing_by, sighted(2, state="stopped")).due


def test_the_same_canary_from_another_partition_is_no_new_sign_of_life():
    waiting = after(NEW, sighted(3), TopicsRead(), *reads(0, 6))
    assert after(waiting, sighted(3), sighted(2)).due


def test_the_stop_is_the_last_of_a_leader_even_where_a_partition_has_an_older_canary():
    assert after(NEW, sighted(3, state="stopped"), sighted(2), TopicsRead()).due


def test_silence_counts_only_while_the_topics_can_be_read():
    waiting = after(NEW, sighted(1), TopicsRead(), *reads(0, 3))
    back = after(waiting, ReadUntil(asked_at=1000.0))  # an outage of 997 s counts as 2 s
    assert not back.due
    assert back.silent == pytest.approx(5.0)
    assert after(back, ReadUntil(asked_at=1001.0)).due


def test_a_group_that_gives_the_lead_to_nobody_is_to_be_joined_anew():
    waiting = after(WITHOUT, TopicsRead(), *reads(0, 15))
    assert not waiting.unled
    unled = waiting.after(ReadUntil(asked_at=16.0))
    assert unled.unled
    assert not unled.after(GIVEN).unled
    assert not unled.after(sighted(1)).unled, "somebody leads"
    assert not after(unled.gave_up(), *reads(17, 15)).unled
    assert after(unled.gave_up(), *reads(17, 16)).unled


@pytest.fixture
def leading():
    return after(NEW, TopicsRead()).led(7)


def test_who_leads_is_not_to_take_over_again(leading):
    assert leading.phase is LeadPhase.LEADING
    assert not after(leading, *reads(0, 60)).due


def test_a_canary_of_a_higher_epoch_deposes(leading):
    deposed = after(leading, sighted(1, epoch=8))
    assert deposed.phase is LeadPhase.STANDING_BY
    assert not deposed.due
    assert deposed.planner_epoch == 0
    assert after(deposed, *reads(0, 6)).due


def test_late_canaries_of_the_planner_before_do_not_depose(leading):
    assert after(leading, sighted(100, epoch=6)) == leading


def test_own_canaries_are_no_signs_of_another(leading):
    own = sighted(5, instance="me")
    assert after(leading, own) == leading
    deposed = leading.deposed()
    assert after(deposed, own) == deposed


def test_who_is_fenced_waits_though_it_knows_no_other_daemon(leading):
    fenced = leading.deposed()
    assert not fenced.due
    assert not after(fenced, *reads(0, 5)).due
    assert after(fenced, *reads(0, 6)).due


def written(partition, start, seconds):
    """A canary that is acknowledged each second."""
    return [CanaryWritten(partition=partition, sent_at=start + n) for n in range(seconds + 1)]


def test_a_leader_that_writes_and_does_not_read_stands_by(leading):
    assert after(leading, *written(0, 100, 14)).phase is LeadPhase.LEADING
    blind = after(leading, *written(0, 100, 15))
    assert blind.phase is LeadPhase.STANDING_BY
    assert blind.planner_epoch == 0
    assert not blind.due
    # Once it can read again, and nobody else leads, it takes over.
    assert after(blind, *written(0, 116, 20), *reads(200, 6)).due


def test_one_partition_that_is_not_read_is_enough(leading):
    for second in range(14):
        leading = after(leading, *written(1, second, 0), *written(0, second, 0))
        leading = after(leading, CanaryReadBack(partition=1))
        assert leading.phase is LeadPhase.LEADING
    assert after(leading, *written(0, 14, 1)).phase is LeadPhase.STANDING_BY


def test_a_canary_that_is_read_back_ends_the_wait(leading):
    for second in range(0, 100, 10):
        leading = after(leading, *written(0, second, 10), CanaryReadBack(partition=0))
        assert leading.phase is LeadPhase.LEADING


def test_who_cannot_write_either_or_stood_still_goes_on_leading(leading):
    assert after(leading, *written(0, 0, 0), *written(0, 1000, 0)).phase is LeadPhase.LEADING
    same = after(leading, *written(0, 5, 0) * 100)
    assert same.phase is LeadPhase.LEADING


def test_the_next_term_counts_anew(leading):
    again = after(leading, *written(0, 0, 15), *reads(100, 6)).led(9)
    assert after(again, *written(0, 110, 14)).phase is LeadPhase.LEADING

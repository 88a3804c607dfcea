"""Transcripts of old samples of lag: they are not planned by."""

from dataclasses import replace

from levelwind.daemon.control.settings import CooldownSettings
from levelwind_testing.control.play import SETTINGS, begun
from levelwind_testing.records import lag, member, request, skew_trigger, topic

DAY_SECONDS = 86_400


def at(play, *, seconds_ago=0):
    """A time before now, in milliseconds."""
    return round((play.now - seconds_ago) * 1000)


def started(now=10.0 * DAY_SECONDS, settings=SETTINGS):
    play = begun(topic(), now=now, settings=settings)
    play.receive("metadata", topic("u"))
    return play


def test_the_lag_of_yesterday_is_not_planned_by_and_that_is_logged_once():
    play = started()
    play.receive("lag", lag(900, 0, 900, 0, at=at(play, seconds_ago=DAY_SECONDS)))
    play.join(member("m0"), member("m1"))
    play.wait(3)
    assert play.plans[0]["lag_at"] is None
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}  # as without lag
    assert play.logged("lag.stale") == [{"group": "g", "topics": ["t"], "age": DAY_SECONDS + 1}]
    play.receive("control", request())
    play.wait(3)
    assert len(play.plans) == 2
    assert len(play.logged("lag.stale")) == 1


def test_a_new_sample_is_planned_by_again_and_the_next_old_one_is_logged_again():
    play = started()
    play.receive("lag", lag(900, 0, 900, 0, at=at(play, seconds_ago=DAY_SECONDS)))
    play.join(member("m0"), member("m1"))
    play.wait(3)
    play.receive("lag", lag(900, 0, 900, 0, at=at(play)))
    play.receive("control", request(at=1))
    assert play.plans[-1]["lag_at"] is not None
    play.wait(SETTINGS.lag_max_age + 1)
    play.receive("control", request(at=2))
    assert play.plans[-1]["lag_at"] is None
    assert len(play.logged("lag.stale")) == 2


def test_only_the_topic_whose_sample_is_old_counts_as_without_lag():
    play = started()
    play.receive("lag", lag(900, 0, 900, 0, at=at(play, seconds_ago=DAY_SECONDS)))
    play.receive("lag", lag(0, 70, 0, 70, topic="u", at=at(play, seconds_ago=60)))
    play.join(member("m0", topics=("t", "u")), member("m1", topics=("t", "u")))
    play.wait(3)
    assert play.plans[0]["lag_at"] == at(play, seconds_ago=63)
    assert play.logged("lag.stale")[0]["topics"] == ["t"]


def test_a_skew_of_yesterday_gets_no_plan():
    settings = replace(SETTINGS, cooldown=CooldownSettings(duration=2.0))
    play = started(settings=settings)
    play.join(member("m0"), member("m1"))
    play.wait(3)
    old = at(play, seconds_ago=DAY_SECONDS)
    play.receive("lag", lag(60_000, 0, 50_000, 0, at=old))
    play.receive("triggers", skew_trigger(at=old, since=old))
    play.wait(20)
    assert len(play.plans) == 1
    assert [s["reason"] for s in play.logged("plan.suppressed")] == [
        "its lag is older than control.lag_max_age"
    ]
    play.receive("lag", lag(60_000, 0, 50_000, 0, at=at(play)))
    play.wait(5)
    assert [plan["cause"] for plan in play.plans] == ["membership", "skew"]

import pytest

from levelwind.daemon.pipeline.liveness.signs_of_life import (
    FIRST_SIGN_SECONDS,
    LATEST_WATCH_SECONDS,
    QUIET_SECONDS,
    CountedSigns,
    ExecutorWatch,
    SignsOfLife,
)
from levelwind.streaming.spark.failure_diagnosis import FailureCause, diagnose


def started(now=0.0):
    return SignsOfLife.of_start(now, answer_timeout=60.0, progress_timeout=300.0)


def looked_at(signs, until, *, answered=False, progressed=False, **sign):
    """The signs after a look in every second up to a time."""
    while (now := signs.watched_at) < until:
        signs = signs.look(now + 1.0, answered=answered, progressed=progressed, **sign)
    return signs


def test_a_process_whose_jvm_answers_and_gets_on_lives():
    assert looked_at(started(), 10_000, answered=True, progressed=True).silence is None


def test_a_start_may_take_minutes_before_its_first_sign():
    assert looked_at(started(), FIRST_SIGN_SECONDS - 1).silence is None
    assert "not answered" in looked_at(started(), FIRST_SIGN_SECONDS).silence


def test_a_jvm_that_stops_answering_is_dead_after_the_timeout():
    signs = looked_at(started(), 20, answered=True, progressed=True)
    assert looked_at(signs, 79).silence is None
    assert looked_at(signs, 80).silence == "the JVM has not answered for 60 s"


def test_a_query_that_stands_still_is_dead_although_its_jvm_answers():
    signs = looked_at(started(), 20, answered=True, progressed=True)
    assert looked_at(signs, 319, answered=True).silence is None
    assert (
        looked_at(signs, 320, answered=True).silence == "the query has made no progress for 300 s"
    )


def test_a_query_that_stands_still_beside_input_is_said_soon_and_dead_after_the_answer_timeout():
    signs = looked_at(started(), 20, answered=True, progressed=True)
    assert looked_at(signs, 20 + QUIET_SECONDS - 1, answered=True, fed=True).quiet is None
    quiet = looked_at(signs, 20 + QUIET_SECONDS, answered=True, fed=True)
    assert QUIET_SECONDS <= 10
    assert "no progress for 10 s although the brokers have input" in quiet.quiet
    assert looked_at(quiet, 79, answered=True, fed=True).silence is None
    assert "although" in looked_at(quiet, 80, answered=True, fed=True).silence


def test_a_partition_that_no_broker_serves_is_named_as_what_the_query_waits_for():
    signs = looked_at(started(), 20, answered=True, progressed=True)
    signs = looked_at(signs, 320, answered=True, unserved="no leader of a/3")
    reason = "the query has made no progress for 300 s: no leader of a/3"
    assert signs.quiet == signs.silence == reason
    assert "leader" not in looked_at(signs, 321, answered=True).silence
    assert "leader" not in looked_at(signs, 400, unserved="no leader of a/3").silence
    counted = CountedSigns(started())
    counted.counts.add(progress=False, unserved="no leader of a/3")
    counted.look(0.0)
    assert counted.signs.unserved == "no leader of a/3"
    counted.counts.add(progress=True)
    counted.look(1.0)
    assert counted.signs.unserved is None


def test_brokers_that_fail_in_between_are_waited_for():
    signs = looked_at(started(), 20, answered=True, progressed=True)
    signs = looked_at(signs, 79, answered=True, fed=True)
    assert looked_at(signs, 319, answered=True).silence is None


def test_what_is_missing_is_said_once_until_it_is_there_again():
    counted = CountedSigns(started())
    said = []
    for now in range(100):
        if now % 50 < 10:
            counted.counts.add(progress=True)
        else:
            counted.counts.add(progress=False, fed=True)
        assert counted.look(float(now)) is None
        said.append(counted.falls_quiet())
    assert [now for now, missing in enumerate(said) if missing] == [19, 69]


def test_a_single_heartbeat_in_between_makes_it_live():
    signs = looked_at(started(), 20, answered=True, progressed=True)
    signs = looked_at(signs, 79).look(79.5, answered=True, progressed=False)
    assert looked_at(signs, 138).silence is None


@pytest.mark.parametrize("pause", [LATEST_WATCH_SECONDS + 1, 1_000.0])
def test_a_watcher_that_was_held_up_blames_itself_first(pause):
    signs = looked_at(started(), 200, answered=True, progressed=True)
    woken = signs.look(200 + pause, answered=False, progressed=False)
    assert woken.silence is None
    assert looked_at(woken, 200 + pause + 60).silence is not None


def test_a_query_without_executors_is_given_up_after_some_patience():
    watch = ExecutorWatch(10.0)
    assert watch.look(0.0, working=True, executors=0) is None
    assert watch.look(9.9, working=True, executors=0) is None
    refused = watch.look(10.0, working=True, executors=0)
    assert refused is not None
    failure = diagnose(refused)
    assert failure.cause is FailureCause.MACHINE
    assert "no executors for 10 s" in failure.summary


def test_executors_or_rest_begin_the_wait_anew():
    watch = ExecutorWatch(10.0)
    for now, working, executors in ((0, True, 0), (9, True, 1), (15, True, 0), (24, False, 0)):
        assert watch.look(now, working=working, executors=executors) is None
    assert watch.look(30.0, working=True, executors=0) is None
    assert watch.look(39.0, working=True, executors=0) is None
    assert watch.look(40.0, working=True, executors=0) is not None

"""Events that are logged once, and events that are logged at intervals."""

from levelwind.daemon.doubling_pause import DoublingPause
from levelwind.daemon.telemetry.throttle import MOST_KEYS, Outage, Throttle, changes


def test_an_outage_begins_once_and_ends_with_its_length():
    outage = Outage()
    assert outage.lost(10.0)
    assert not outage.lost(12.0)
    assert outage.regained(17.5) == 7.5
    assert outage.regained(18.0) is None
    assert outage.lost(20.0)


def test_pauses_double_up_to_the_longest_and_begin_anew_with_the_next_outage():
    outage = Outage(pauses=DoublingPause(1.0, 4.0))
    pauses = []
    now = 100.0
    for _ in range(5):
        outage.lost(now)
        end = next(
            now + tenth / 10 for tenth in range(1, 1000) if not outage.pausing(now + tenth / 10)
        )
        pauses.append(round(end - now, 1))
        now = end
    assert pauses == [1.0, 2.0, 4.0, 4.0, 4.0]
    outage.regained(now)
    assert not outage.pausing(now)
    outage.lost(now)
    assert outage.pausing(now + 0.9)
    assert not outage.pausing(now + 1.0)


def test_a_throttle_lets_one_through_and_counts_the_rest_of_each_key():
    throttle = Throttle(interval=10.0)
    assert throttle.allows("a", 0.0) == 0
    assert throttle.allows("a", 1.0) is None
    assert throttle.allows("b", 1.0) == 0
    assert throttle.allows("a", 9.9) is None
    assert throttle.allows("a", 10.0) == 2
    assert throttle.allows("a", 20.0) == 0


def test_a_throttle_forgets_the_key_that_passed_longest_ago_beyond_the_most():
    throttle = Throttle(interval=10.0)
    for key in range(MOST_KEYS):
        throttle.allows(key, 0.0)
    assert throttle.allows(0, 10.0) == 0
    assert throttle.allows(1, 9.0) is None
    assert throttle.allows(MOST_KEYS, 10.0) == 0
    assert throttle.allows(0, 11.0) is None
    assert throttle.allows(1, 9.0) == 0, "it is remembered although there are newer ones"


def test_changes_are_what_is_new_or_different_and_what_has_ended():
    assert changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 9, "d": 4}) == (
        {"b": 9, "d": 4},
        frozenset({"c"}),
    )

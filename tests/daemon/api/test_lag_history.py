"""The history of lag: a ring for each group, with gaps where nothing was measured."""

from levelwind.daemon.api.views.lag_history import LagHistory, LagPoint


def test_the_oldest_point_is_overwritten():
    history = LagHistory(points=3)
    for number in range(5):
        history.add(number, {"g": LagPoint(number * 10, number / 2)})
    assert history.times() == [2, 3, 4]
    assert history.series("g") == ([20, 30, 40], [1.0, 1.5, 2.0])
    assert history.series("g", 2) == ([30, 40], [1.5, 2.0])


def test_a_group_that_began_later_or_was_not_measured_has_gaps():
    history = LagHistory(points=4)
    history.add(1, {"a": LagPoint(1, None)})
    history.add(2, {"a": LagPoint(None, None), "b": LagPoint(7, 0.5)})
    assert history.series("a") == ([1, None], [None, None])
    assert history.series("b") == ([None, 7], [None, 0.5])
    assert history.series("unknown") == ([None, None], [None, None])


def test_a_group_that_is_gone_for_a_whole_ring_is_forgotten():
    history = LagHistory(points=2)
    history.add(1, {"a": LagPoint(1, None), "b": LagPoint(1, None)})
    for at in (2, 3):
        history.add(at, {"b": LagPoint(1, None)})
    assert history._rings.keys() == {"b"}


def test_the_number_of_groups_is_bounded():
    history = LagHistory(points=2, most_groups=3)
    history.add(1, {f"g{number}": LagPoint(number, None) for number in range(10)})
    assert len(history._rings) == 3

"""The newest decisions, whatever the order in which partitions are read."""

from daemon.decisions.encoding import DecisionEntry
from daemon.decisions.reading import newest


def entry(at, name="x", group="g"):
    return DecisionEntry(
        group=group, id=name, at=at, outcome="published", cause="skew", plan_id=None, body={}
    )


def test_old_orders_about_all_groups_that_are_read_last_displace_nothing_newer():
    read = [*(entry(at) for at in (10, 11, 12)), entry(1, group="*"), entry(2, group="*")]
    assert [each.at for each in newest(read, 3)] == [10, 11, 12]


def test_of_one_time_the_decisions_that_came_last_are_kept_in_their_order():
    read = [entry(5, "a"), entry(5, "b"), entry(5, "c"), entry(4, "d")]
    assert [each.id for each in newest(iter(read), 2)] == ["b", "c"]
    assert [each.id for each in newest(read, 9)] == ["d", "a", "b", "c"]

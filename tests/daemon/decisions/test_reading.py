"""The newest decisions, whatever the order in which partitions are read."""

from dataclasses import replace

from levelwind.daemon.config.settings import load
from levelwind.daemon.decisions import reading
from levelwind.daemon.decisions.encoding import DecisionEntry
from levelwind.daemon.decisions.reading import find_decision, newest


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


def test_the_name_of_a_plan_means_its_decision_and_no_order_to_go_back_to_it(monkeypatch):
    plan = replace(entry(1, "1-plan"), plan_id="7-a", body={"target": {"m0": {"t": "0-3"}}})
    order = replace(entry(2, "2-order"), plan_id="7-a", body={"kind": "lever"}, outcome="ordered")
    monkeypatch.setattr(reading, "_entries", lambda *_: iter([plan, order]))
    assert find_decision(load(), "7-a", "g") is plan
    assert find_decision(load(), "2-order", "g") is order

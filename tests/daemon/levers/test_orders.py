"""Orders are whole or refused; what they would do is said before they act."""

import json

import pytest

from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.api.order_models import OrderRequest
from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.levers.acting import act
from levelwind.daemon.levers.orders import Operator, OperatorOrder, OrderError, parse_target
from levelwind.daemon.levers.preview import levers_in_force, preview
from levelwind_testing.records import assignment, lag, lever, member, proposal, topic

ME = Operator(name="me@here")


def records(*more, owned=("0-3", "")):
    """A group of two members, of which the first may own everything."""
    told = []
    for name, text in zip(("m0", "m1"), owned, strict=True):
        partitions = {"t": tuple(range(4))} if text else {}
        told += [
            ("members", member(name, state="active", owned=partitions)),
            ("assignments", assignment(name, partitions, group="g")),
        ]
    return [("metadata", topic()), ("lag", lag(10, 10, 10, 10)), *told, *more]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"action": "explode", "group": "g"}, "is unknown"),
        ({"action": "pause", "group": ""}, "name a group"),
        ({"action": "pin", "group": "*", "subject": "t/0", "value": "m"}, "one group at a time"),
        ({"action": "pin", "group": "g", "subject": "t0", "value": "m"}, "no partition"),
        ({"action": "pin", "group": "g", "subject": "t/03", "value": "m"}, "no partition"),
        ({"action": "pin", "group": "g", "subject": "t/0"}, "name the member"),
        ({"action": "drain", "group": "g"}, "name what it is about"),
        ({"action": "pause", "group": "g", "subject": "x"}, "it has no subject"),
        ({"action": "apply", "group": "g"}, "give the assignment"),
    ],
)
def test_an_order_that_is_not_whole_is_refused_with_what_it_lacks(fields, text):
    with pytest.raises(OrderError, match=text):
        OperatorOrder(**fields)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"m": {"t": "3-1"}}, "member 'm'"),
        ({"m": {"t": 3}}, "member 'm' needs ranges"),
        ({"m": []}, "member 'm' needs ranges"),
        ({}, "give the partitions"),
        (None, "give the partitions"),
    ],
)
def test_a_target_that_is_none_is_refused(fields, text):
    with pytest.raises(OrderError, match=text):
        parse_target(fields)


def test_the_api_takes_an_order_as_it_is_written():
    order = OperatorOrder(action="apply", group="g", target={"m": {"t": (0, 1, 4)}})
    taken = OrderRequest.model_validate(json.loads(json.dumps(order.as_json())))
    assert parse_target(taken.target) == order.target
    assert (taken.action, taken.group, taken.subject, taken.value) == ("apply", "g", "", "")


def test_a_dry_run_says_what_would_follow_and_writes_nothing():
    order = OperatorOrder(action="drain", group="g", subject="m0")
    outcome = act(load(), order, ME, records=records())  # no broker is there to write to
    assert not outcome.executed
    assert [lever.kind for lever in outcome.after] == ["drain"]
    moves = outcome.preview.as_json()["moves"]
    assert [(move["partition"], move["from"], move["to"]) for move in moves] == [
        (number, "m0", "m1") for number in range(4)
    ]
    assert json.dumps(outcome.as_json())


def test_a_release_previews_the_plan_without_the_lever():
    known = records(("control", lever("drain", "m1")))
    assert levers_in_force(known, "g")[0].subject == "m1"
    outcome = act(
        load(), OperatorOrder(action="undrain", group="g", subject="m1"), ME, records=known
    )
    assert outcome.after == ()
    assert len(outcome.preview.moves) == 2


def test_a_released_lever_is_not_in_force():
    known = [("control", lever("pause")), ("control", Tombstone(lever("pause").key))]
    assert levers_in_force(known) == []


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"action": "pause", "group": "h"}, NotFoundError, "no group 'h'"),
        ({"action": "resume", "group": "g"}, NotFoundError, "has no lever 'pause'"),
        ({"action": "undrain", "group": "g", "subject": "m1"}, NotFoundError, "for all groups"),
        ({"action": "pin", "group": "g", "subject": "t/4", "value": "m0"}, OrderError, "it has 4"),
        ({"action": "strategy", "group": "g", "value": "best"}, OrderError, "is no strategy"),
        ({"action": "approve", "group": "g", "subject": "p1"}, NotFoundError, "no plan of group"),
    ],
)
def test_an_order_that_does_not_fit_is_refused_and_says_why(fields, error, text):
    known = records(("control", lever("drain", "m1", group="*")))
    with pytest.raises(error, match=text):
        act(load(), OperatorOrder(**fields), ME, records=known)


def test_a_strategy_without_pins_refuses_them():
    known = records(("control", lever("strategy", setting="range")))
    order = OperatorOrder(action="pin", group="g", subject="t/0", value="m1")
    with pytest.raises(OrderError, match="levelwind strategy g optimal"):
        act(load(), order, ME, records=known)


def test_what_is_absent_is_noted_and_the_lever_waits_for_it():
    order = OperatorOrder(action="drain", group="g", subject="m9")
    outcome = act(load(), order, ME, records=records())
    assert outcome.notes == ("no member 'm9' is there now: the drain waits for it",)


def test_an_assignment_is_previewed_and_one_that_does_not_fit_refused():
    target = {"m0": {"t": (0, 1)}, "m1": {"t": (2, 3)}}
    outcome = act(
        load(), OperatorOrder(action="apply", group="g", target=target), ME, records=records()
    )
    assert [move["partition"] for move in outcome.preview.moves] == [2, 3]
    part = OperatorOrder(action="apply", group="g", target={"m0": {"t": (0, 1)}})
    with pytest.raises(OrderError, match="does not fit the group"):
        act(load(), part, ME, records=records())


def test_a_proposal_is_approved_by_its_name():
    target = {"m0": {"t": (0, 1)}, "m1": {"t": (2, 3)}}
    waiting = proposal(target, plan_id="p2-1", basis="other")
    known = records(("control", waiting))
    with pytest.raises(NotFoundError, match="p2-1 does"):
        act(load(), OperatorOrder(action="approve", group="g", subject="p9"), ME, records=known)
    with pytest.raises(OrderError, match="stale"):
        act(load(), OperatorOrder(action="approve", group="g", subject="p2-1"), ME, records=known)


def test_a_preview_needs_members():
    known = [("metadata", topic()), ("lag", lag(1, 1, 1, 1))]
    with pytest.raises(NotFoundError, match="no members"):
        preview(load(), known, "g")


def test_an_assignment_that_no_single_message_holds_is_refused_before_anything_is_written():
    every_other = {"m0": {"t": tuple(range(0, 400_000, 2))}, "m1": {"t": (1,)}}
    order = OperatorOrder(action="apply", group="g", target=every_other)
    for execute in (False, True):
        with pytest.raises(OrderError, match=r"takes 1,\d+,\d+ bytes, and a request has 999,000"):
            act(load(), order, ME, execute=execute, records=records())


@pytest.mark.parametrize("execute", [False, True])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"action": "pause"}, "caf\udce9"),
        ({"action": "resume"}, "caf\udce9"),
        ({"action": "rebalance"}, "caf\udce9"),
        ({"action": "drain", "subject": "m\udce9"}, ""),
        ({"action": "evacuate", "subject": "rack\udce9"}, ""),
        ({"action": "pin", "subject": "t/0", "value": "m\udce9"}, ""),
    ],
)
def test_an_order_that_no_record_holds_is_refused_by_the_dry_run_too(fields, reason, execute):
    order = OperatorOrder(group="g", **fields)
    known = records(("control", lever("pause")))
    with pytest.raises(OrderError, match=f"{order.action}: cannot be written"):
        act(load(), order, ME, reason=reason, execute=execute, records=known)


def test_the_name_of_the_operator_is_one_that_a_record_holds(monkeypatch):
    monkeypatch.setenv("LOGNAME", "ren\udce9")
    assert Operator.of_command_line().name.startswith("ren\\udce9@")

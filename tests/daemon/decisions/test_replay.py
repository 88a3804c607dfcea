"""Decisions of the audit trail: written, read, and computed again."""

import json
from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from levelwind.assignors.optimal.model import work_budget
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import DecisionPart, decode, encode
from levelwind.assignors.registry import STRATEGIES
from levelwind.daemon.control.plan_inputs import PlanInputs
from levelwind.daemon.control.settings import PlanSettings
from levelwind.daemon.decisions import encoding
from levelwind.daemon.decisions.encoding import assemble, parts
from levelwind.daemon.decisions.replay import replay
from levelwind.daemon.errors import NotFoundError
from levelwind_testing.control.play import begun
from levelwind_testing.records import lag, member, racks_trigger, request, skew_trigger, topic


def drafts_of(strategy="optimal", *, options=None, sizes=None, partitions=40, members=5, seed=1):
    """Decisions of a group with lag, racks and speeds."""
    random = Random(seed)
    racks = [[random.choice("abc")] for _ in range(partitions)]
    play = begun(
        topic(racks=racks),
        planning=PlanSettings(strategy=strategy, options=options or {}, record_bytes=sizes or {}),
    )
    behind = [random.randrange(50_000) for _ in range(partitions)]
    rates = tuple(random.random() * 1000 for _ in range(partitions))
    play.receive("lag", structs.replace(lag(*behind, at=play.now * 1000), rate=rates))
    play.join(*(member(f"m{n}", rack="abc"[n % 3]) for n in range(members)))
    play.wait(3)
    play.receive("control", request(at=1))
    play.receive("triggers", skew_trigger())
    play.wait(5)
    return play.drafts


def recorded(draft):
    """A decision as it comes back from the topic."""
    read = [decode("decisions", *encode(part)) for part in parts(draft)]
    assert all(isinstance(part, DecisionPart) for part in read)
    (entry,) = assemble(read)
    return entry


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_plan_comes_out_of_its_recorded_inputs_byte_by_byte(strategy):
    drafts = [draft for draft in drafts_of(strategy) if draft.plan is not None]
    assert len(drafts) >= 2
    for draft in drafts:
        result = replay(recorded(draft))
        assert result.identical, (strategy, result.differences)
        assert result.note == ""


def test_options_racks_and_bytes_are_part_of_the_inputs():
    options = {"pins": {"t": {"3": "m1"}}, "drain": ["m0"], "max_moves": 2, "time_budget": 0.5}
    drafts = drafts_of(options=options, sizes={"*": 700.0})
    for draft in drafts:
        if draft.plan is not None:
            assert replay(recorded(draft)).identical


def test_figures_that_the_recording_version_did_not_know_are_not_compared():
    entry = recorded(next(draft for draft in drafts_of() if draft.plan is not None))
    body = json.loads(json.dumps(entry.body))
    for score in (body["before"], body["after"]):
        del score["wait_seconds"]
    del body["certificate"]["objectives"]["wait"]
    body["certificate"]["summary"] = [
        line for line in body["certificate"]["summary"] if not line.startswith("mean wait")
    ]
    assert replay(replace(entry, body=body)).identical
    body["certificate"]["objectives"]["load"]["value"] += 1
    assert list(replay(replace(entry, body=body)).differences) == ["certificate"]


def test_what_the_recorded_inputs_do_not_give_is_said():
    entry = recorded(next(draft for draft in drafts_of() if draft.plan is not None))
    target = dict(entry.body["target"])
    (first, share), (second, other), *_ = sorted(target.items())
    swapped = replace(entry, body={**entry.body, "target": {**target, first: other, second: share}})
    result = replay(swapped)
    assert not result.identical
    assert list(result.differences) == ["target"]
    assert result.moved_otherwise > 0


def test_a_decision_without_a_plan_has_nothing_to_replay():
    entry = recorded(next(draft for draft in drafts_of() if draft.plan is not None))
    body = {name: value for name, value in entry.body.items() if name != "inputs"}
    with pytest.raises(NotFoundError, match="computed no plan"):
        replay(replace(entry, body=body))


def test_a_decision_without_a_plan_has_no_assignment_to_go_back_to():
    draft = next(draft for draft in drafts_of() if draft.plan is not None)
    entry = recorded(draft)
    assert {name: ranges.pairs(own) for name, own in entry.target.items()} == draft.plan.target
    without = {name: value for name, value in entry.body.items() if name != "target"}
    with pytest.raises(NotFoundError, match=f"decision {entry.id} computed no plan"):
        _ = replace(entry, body=without).target


class StoppingClock:
    """A performance counter that stands still for some calls, and then runs far ahead."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self):
        self.left -= 1
        return 1.0 if self.left >= 0 else 1e9 - self.left


@pytest.mark.parametrize("calls", [1, 3, 10, 40])
def test_a_plan_that_the_clock_cut_is_replayed_byte_by_byte_with_the_same_cuts(calls, monkeypatch):
    sizes = {"partitions": 200, "members": 12}
    with monkeypatch.context() as slow:
        slow.setattr(work_budget, "perf_counter", StoppingClock(calls))
        drafts = [draft for draft in drafts_of(**sizes) if draft.plan is not None]
    cut = [entry for entry in map(recorded, drafts) if entry.body["cut_by_clock"]]
    assert cut
    for entry in cut:
        result = replay(entry)
        assert result.identical, result.differences
        assert "cut at the same points" in result.note


def test_a_plan_whose_cuts_were_not_recorded_says_that_nothing_can_repeat_it():
    entry = recorded(next(draft for draft in drafts_of() if draft.plan is not None))
    body = {name: value for name, value in entry.body.items() if name != "clock_cuts"}
    cut = replace(entry, body={**body, "cut_by_clock": True})
    assert "no replay can repeat it" in replay(cut).note
    with pytest.raises(NotFoundError, match="recorded no cuts"):
        replay(replace(entry, body={**entry.body, "clock_cuts": [1]}))


def test_recorded_inputs_are_a_problem_that_assign_solves():
    entry = recorded(next(draft for draft in drafts_of() if draft.plan is not None))
    from levelwind.assignors.json_problems import solve_lines  # noqa: PLC0415 - here alone

    (answer,) = map(json.loads, solve_lines([json.dumps(entry.body["inputs"])]))
    assert "error" not in answer


def test_a_large_decision_is_cut_and_assembled_and_one_that_lacks_a_part_is_left_out(monkeypatch):
    monkeypatch.setattr(encoding, "PART_CHARACTERS", 300)
    one, two = [draft for draft in drafts_of() if draft.plan is not None][:2]
    first, second = parts(one), parts(two)
    assert len(first) > 3
    assert [entry.id for entry in assemble([*first, *second])] == [first[0].id, second[0].id]
    assert [entry.id for entry in assemble([*first[:2], *first[3:], *second])] == [second[0].id]
    torn = structs.replace(first[1], body="!" * 300)
    assert list(assemble([first[0], torn, *first[2:]])) == []


def test_a_refusal_is_recorded_once_for_each_cause_and_reason():
    play = begun(topic(racks=(("a",),) * 4), planning=PlanSettings(strategy="optimal"))
    play.join(member("m0", rack="a"), member("m1", rack="a"))
    play.wait(3)
    play.receive("lag", lag(5, 5, 5, 5, at=play.now * 1000))
    play.receive("triggers", skew_trigger())
    play.wait(300)
    outcomes = [(draft.outcome, draft.reason) for draft in play.drafts]
    assert len(outcomes) == len(set(outcomes)) == 2
    assert outcomes[1][0] == "suppressed"
    play.receive("triggers", racks_trigger())
    play.wait(5)
    assert play.drafts[-1].outcome in {"confirmed", "suppressed"}


def test_inputs_without_lag_or_racks_are_read_back():
    inputs = PlanInputs(topics={}, members=(), strategy="range", pause=1.0)
    assert inputs.as_json()["topics"] == {}

"""Decisions of the scripted installation: plans, and orders of operators."""

from collections.abc import Iterator

from levelwind.assignors.protocol.records import DecisionPart
from levelwind.daemon.decisions.encoding import entry_parts
from levelwind_testing.page.scripted_groups import NAMES

OUTCOMES = ("published", "suppressed", "published", "proposed", "confirmed", "failed")
CAUSES = ("skew", "membership", "racks", "topics", "operator")
REASONS = {
    "suppressed": "too little gain",
    "failed": "the strategy gave a partition to nobody",
    "proposed": "the group asks for approval",
}
STEP_MS = 47_000


def scripted_decisions(at: int, count: int = 40) -> Iterator[DecisionPart]:
    """The parts of some decisions, the last one at a time in milliseconds since the epoch."""
    for number in range(count):
        when = at - (count - 1 - number) * STEP_MS
        group = NAMES[number * 3 % 5]
        if number % 9 == 4:
            order = {"action": "drain", "group": group, "subject": "orders-001", "value": ""}
            body = {"kind": "lever", "by": "token:anna", "reason": "disk at 95 %", "order": order}
            yield from entry_parts(
                group=group, at=when, outcome="ordered", cause="drain", plan_id=None, body=body
            )
            continue
        outcome = OUTCOMES[number % len(OUTCOMES)]
        seconds = 2.0 + number % 7
        certificate = {
            "complete": True,
            "cut_by": [],
            "objectives": {
                "load": {"value": seconds, "bound": seconds, "bound_kind": "mean load"},
                "moves": {"value": 9.0, "bound": 9.0, "bound_kind": "matching"},
            },
            "summary": [f"load: {seconds} s for the most loaded member; no plan can do better"],
        }
        plan = {
            "strategy": "optimal",
            "before": {"drain_seconds": seconds * 3.1, "skew": 2.41, "cross_rack": 0.31},
            "after": {"drain_seconds": seconds, "skew": 1.02, "cross_rack": 0.04, "moved": 9},
            "moves": 9 + number,
            "certificate": certificate,
            "target": {},
            "inputs": {},
        }
        yield from entry_parts(
            group=group,
            at=when,
            outcome=outcome,
            cause=CAUSES[number % len(CAUSES)],
            plan_id=None if outcome in {"suppressed", "failed"} else f"{number}-c0ffee00",
            body={
                "kind": "plan",
                "planner_epoch": 3,
                "group_epoch": number,
                "reason": REASONS.get(outcome),
                **({} if outcome == "failed" else plan),
            },
        )

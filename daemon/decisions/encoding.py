"""Decisions as records of `levelwind.decisions`, and the way back.

A decision is one JSON object, compressed and cut into parts that fit a message. The parts of one
decision follow each other in one partition, written in one transaction.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.canonical_json import dumps
from levelwind.assignors.protocol.records import DecisionPart
from levelwind.daemon.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records import Outcome
    from levelwind.daemon.control.audit.decision_draft import DecisionDraft
    from levelwind.daemon.control.planning import ComputedPlan

PART_CHARACTERS = 512 * 1024
"""The most characters of a part's body: a message may have a million bytes."""

MOST_BODY_BYTES = 512 * 1024 * 1024
"""The most bytes of a decision once it is decompressed; no group needs as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEntry:
    """One decision as the audit trail has it."""

    group: str
    """The group; `*` for an order about every group."""
    id: str
    at: int
    """When it was decided, in milliseconds since the epoch."""
    outcome: Outcome
    cause: str
    plan_id: str | None
    body: Mapping[str, Any]
    """Everything else; see `decision_body` and `levelwind.daemon.levers.acting`."""

    @property
    def target(self) -> dict[str, Partitions]:
        """The assignment of the plan that was computed, by member and topic.

        Raises:
            NotFoundError: the decision computed no plan.
        """
        if "target" not in self.body:
            raise NotFoundError(f"decision {self.id} computed no plan")
        return {
            member: {topic: ranges.parse(text) for topic, text in share.items()}
            for member, share in self.body["target"].items()
        }

    def as_json(self, *, inputs: bool = False) -> dict[str, Any]:
        """Return the decision as `levelwind decisions` shows it.

        Args:
            inputs: whether to repeat what the plan was computed from, and the whole assignment.
        """
        left_out = set() if inputs else {"inputs", "target"}
        return {
            "group": self.group,
            "id": self.id,
            "at": self.at,
            "outcome": self.outcome,
            "cause": self.cause,
            "plan_id": self.plan_id,
            **{name: value for name, value in self.body.items() if name not in left_out},
        }


def parts(draft: DecisionDraft) -> list[DecisionPart]:
    """Return the records of a decision of the planner."""
    return entry_parts(
        group=draft.group,
        at=draft.at,
        outcome=draft.outcome,
        cause=draft.cause,
        plan_id=draft.plan_id,
        body=decision_body(draft),
    )


def entry_parts(
    *,
    group: str,
    at: int,
    outcome: Outcome,
    cause: str,
    plan_id: str | None,
    body: Mapping[str, Any],
) -> list[DecisionPart]:
    """Return the records of a decision, or of an operator's order."""
    plain = dumps(body)
    digest = hashlib.sha256(repr((group, at, outcome, cause)).encode() + plain).hexdigest()
    text = base64.b64encode(zlib.compress(plain, level=1)).decode()
    pieces = [text[i : i + PART_CHARACTERS] for i in range(0, len(text), PART_CHARACTERS)]
    return [
        DecisionPart(
            group=group,
            id=f"{at}-{digest[:8]}",
            part=number,
            parts=len(pieces),
            at=at,
            outcome=outcome,
            cause=cause,
            plan_id=plan_id,
            body=piece,
        )
        for number, piece in enumerate(pieces)
    ]


def decision_body(draft: DecisionDraft) -> dict[str, Any]:
    """Return what the audit trail says of a decision beside its outcome."""
    request = draft.request
    plan = draft.plan
    return {
        "kind": "plan",
        "planner_epoch": draft.planner_epoch,
        "group_epoch": draft.group_epoch,
        "reason": draft.reason,
        "levers": draft.levers,
        "lag_at": draft.lag_at,
        "metadata_at": draft.metadata_at,
        "version": _version(),
        "request": None if request is None else {"by": request.by, "reason": request.reason},
        **({} if plan is None else plan_body(plan)),
    }


def plan_body(plan: ComputedPlan) -> dict[str, Any]:
    """Return a computed plan: its figures, its assignment, and what it was computed from."""
    inputs = plan.inputs.as_json()
    certificate = plan.certificate
    cuts = [] if certificate is None else [list(cut) for cut in certificate.clock_cuts]
    settings = dumps({"strategy": inputs["strategy"], "options": inputs["options"]})
    return {
        "strategy": plan.strategy,
        "settings": hashlib.sha256(settings).hexdigest()[:16],
        "moved": ranges.texts(ranges.by_topic(plan.moved)),
        "moves": len(plan.moved),
        "before": plan.before.as_json(),
        "after": plan.after.as_json(),
        "waiting": plan.waiting.as_json(),
        "certificate": None if certificate is None else certificate.as_json(),
        "cut_by_clock": bool(cuts),
        "clock_cuts": cuts,
        "target": _target_texts(plan),
        "inputs": inputs,
    }


def _target_texts(plan: ComputedPlan) -> dict[str, dict[str, str]]:
    """Return the partitions of each instance by topic, as ranges."""
    return {
        member: ranges.texts(ranges.by_topic(share))
        for member, share in sorted(plan.target.items())
    }


@cache
def _version() -> str:
    return version("levelwind")


def assemble(records: Iterable[DecisionPart]) -> Iterator[DecisionEntry]:
    """Yield the decisions that parts make up, in their order; what lacks a part is left out."""
    begun = BegunDecisions()
    return (entry for part in records if (entry := begun.add(part)) is not None)


@dataclass(slots=True)
class BegunDecisions:
    """Decisions of which some parts were read."""

    most: float = math.inf
    """Of more, the oldest are given up."""
    _parts: OrderedDict[tuple[str, str], list[DecisionPart]] = field(default_factory=OrderedDict)

    def add(self, part: DecisionPart) -> DecisionEntry | None:
        """Return the decision that a part completes; None for one that cannot be read, too."""
        name = part.group, part.id
        if part.part == 0:
            self._parts[name] = []
        found = self._parts.get(name)
        if found is None or part.part != len(found):
            self._parts.pop(name, None)
            return None
        found.append(part)
        if len(found) == part.parts:
            del self._parts[name]
            return _entry(found)
        if len(self._parts) > self.most:
            self._parts.popitem(last=False)
        return None


def _entry(found: list[DecisionPart]) -> DecisionEntry | None:
    first = found[0]
    try:
        packed = base64.b64decode("".join(part.body for part in found), validate=True)
        reader = zlib.decompressobj()
        plain = reader.decompress(packed, MOST_BODY_BYTES)
        body = json.loads(plain)
    except (ValueError, zlib.error, RecursionError):
        return None
    if reader.unconsumed_tail or not isinstance(body, dict):
        return None
    return DecisionEntry(
        group=first.group,
        id=first.id,
        at=first.at,
        outcome=first.outcome,
        cause=first.cause,
        plan_id=first.plan_id,
        body=body,
    )

"""Orders, previews and decisions as text for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol.records import ALL_GROUPS
from levelwind.daemon.console import borderless_table, counted, stdout_console

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.records import LeverRecord
    from levelwind.daemon.decisions.encoding import DecisionEntry
    from levelwind.daemon.decisions.replay import ReplayResult
    from levelwind.daemon.levers.acting import OrderOutcome
    from levelwind.daemon.levers.preview import PlanPreview


def print_outcome(outcome: OrderOutcome) -> None:
    """Print what an order changes, or would change."""
    console = stdout_console()
    before, after = set(outcome.before), set(outcome.after)
    for lever in outcome.before:
        if lever not in after:
            console.print(f"- {lever_text(lever)}", soft_wrap=True)
    for lever in outcome.after:
        sign = " " if lever in before else "+"
        console.print(f"{sign} {lever_text(lever)}", soft_wrap=True)
    if outcome.preview is not None:
        print_preview(outcome.preview)
    for note in outcome.notes:
        console.print(note, soft_wrap=True)
    console.print(
        "executed: the daemon that leads follows it"
        if outcome.executed
        else "dry run: nothing was changed; --execute acts"
    )


def lever_text(lever: LeverRecord) -> str:
    """Return a lever in words."""
    subject = "" if lever.kind in {"pause", "strategy"} else f" {lever.subject}"
    setting = "" if lever.setting is None else f" to {lever.setting}"
    group = "all groups" if lever.group == ALL_GROUPS else lever.group
    why = f": {lever.reason}" if lever.reason else ""
    return f"{lever.kind}{subject}{setting} for {group}, by {lever.by}{why}"


def print_preview(shown: PlanPreview) -> None:
    """Print a plan that was computed: its scores, its bounds, and how many partitions it moves."""
    from levelwind.daemon.inspection.tables import print_scores  # noqa: PLC0415 - see the package

    console = stdout_console()
    moves = counted(len(shown.moves), "partition")
    console.print(f"plan of {shown.group} by {shown.plan.strategy}: {moves} would move")
    print_scores(shown.plan.before.as_json(), shown.plan.after.as_json())
    for line in shown.summary:
        console.print(f"  {line}", soft_wrap=True)


def print_moves(moves: Iterable[Mapping[str, Any]]) -> None:
    """Print moves as a table."""
    table = borderless_table(
        ("TOPIC", False), ("PARTITION", True), ("FROM", False), ("TO", False), ("LAG", True)
    )
    for move in moves:
        lag = move.get("lag")
        table.add_row(
            str(move["topic"]),
            str(move["partition"]),
            str(move["from"] or "-"),
            str(move["to"] or "-"),
            "-" if lag is None else f"{lag:,}",
        )
    if table.row_count:
        stdout_console().print(table)


def print_decisions(entries: Iterable[DecisionEntry]) -> None:
    """Print the audit trail, the newest last."""
    table = borderless_table(
        ("TIME", False),
        ("GROUP", False),
        ("DECISION", False),
        ("OUTCOME", False),
        ("CAUSE", False),
        ("PLAN", False),
        ("MOVES", True),
        ("BY", False),
        ("WHY", False),
        least=("WHY", "BY", "PLAN", "MOVES", "CAUSE"),
    )
    for entry in entries:
        request = entry.body.get("request") or {}
        moves = entry.body.get("moves")
        table.add_row(
            datetime.fromtimestamp(entry.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            entry.group,
            entry.id,
            entry.outcome,
            _cause(entry),
            entry.plan_id or "-",
            "-" if moves is None else f"{moves:,}",
            str(entry.body.get("by") or request.get("by") or "-"),
            str(entry.body.get("reason") or request.get("reason") or "-"),
        )
    if table.row_count:
        stdout_console().print(table)


def _cause(entry: DecisionEntry) -> str:
    order = entry.body.get("order")
    if not isinstance(order, dict):
        return entry.cause
    words = [entry.cause, str(order.get("subject") or ""), str(order.get("value") or "")]
    return " ".join(word for word in words if word)


def print_replay(result: ReplayResult) -> None:
    """Print how a plan that was computed again compares with the recorded one."""
    from levelwind.daemon.inspection.tables import print_scores  # noqa: PLC0415 - see the package

    console = stdout_console()
    name = f"decision {result.id} of {result.group}"
    if result.identical:
        console.print(f"{name}: identical, byte by byte")
    else:
        fields = ", ".join(sorted(result.differences))
        console.print(
            f"{name}: differs in {fields}; {result.moved_otherwise:,} partitions have another owner"
        )
        for field in ("before", "after"):
            if field in result.differences:
                recorded, computed = result.differences[field]
                console.print(f"{field}: recorded → computed")
                print_scores(recorded or {}, computed or {})
    if result.note:
        console.print(result.note, soft_wrap=True)

"""Groups as text for people: tables, and triggers in words.

Guarantees: names are printed verbatim and whole, also where the output is not a terminal; nothing
in a name is interpreted as markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol.declared.declaration import as_document
from levelwind.daemon.console import age_text, borderless_table, counted, stdout_console
from levelwind.daemon.printable import one_line
from levelwind.daemon.shown_groups.group_documents import group_summary, member_documents
from levelwind.daemon.shown_groups.offset_rows import offset_rows, offset_table
from levelwind.daemon.shown_groups.partition_rows import partition_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.table import Table

    from levelwind.assignors.problem.drain import DrainFigures
    from levelwind.daemon.control.snapshot import GroupLag
    from levelwind.daemon.shown_groups.group_view import GroupView
    from levelwind.daemon.shown_groups.shown_group import ShownGroup
    from levelwind.daemon.wire.describe_requests import DescribedMember


WHOLE_FROM_SECONDS = 100
"""Figures from here on are shown without decimals."""


def describe_trigger(evidence: Mapping[str, Any], *, seconds: float) -> str:
    """The reason of a trigger in words.

    Args:
        evidence: the trigger's evidence, as its record has it.
        seconds: how long the condition had lasted when the trigger was raised.
    """
    if "skew" not in evidence:
        return f"the replica racks of {counted(evidence['partitions'], 'partition')} changed"
    behind = f"{evidence['backlog']:,} records behind"
    assumed = ", speeds not known yet" if evidence["assumed"] else ""
    if _drains_unevenly(evidence):
        return (
            f"the heaviest member would drain in {evidence['heaviest']:.1f} s,"
            f" {evidence['best']:.1f} s could be reached, for {seconds:.0f} s, {behind}{assumed}"
        )
    return (
        f"a member needs {evidence['utilisation']:.0%} of its capacity for what arrives,"
        f" {evidence['best_utilisation']:.0%} could be reached, for {seconds:.0f} s, {behind}"
    )


def _drains_unevenly(evidence: Mapping[str, Any]) -> bool:
    """Whether the members' times to drain raised a trigger; otherwise a utilisation did."""
    more: float = evidence["heaviest"] - evidence["best"]
    share: float = evidence["best"] * (evidence["threshold"] - 1)
    return bool(more >= max(evidence["floor_seconds"], share))


def load_lines(drain: DrainFigures | None) -> Iterator[str]:
    """The load of a group in words, with its parts; nothing where nothing is to be read."""
    if drain is None or not drain.mean:
        return
    assumed = " (assumed: no member's speed is known yet)" if drain.assumed else ""
    heaviest, best, horizon = map(seconds_text, (drain.heaviest, drain.best, drain.horizon))
    yield f"load {heaviest} of the most loaded member, {best} at best, {horizon} for the group"
    yield (
        f"  {drain.arrivals:,.0f} records/s arrive, {drain.capacity:,.0f}/s can be read{assumed};"
        f" the busiest member needs {drain.utilisation:.0%} of its capacity"
    )
    if drain.members_wanted is not None and not drain.assumed:
        yield f"  the group cannot drain: it wants {drain.members_wanted} members of today's speed"


def print_groups(groups: Iterable[ShownGroup]) -> None:
    """Print the groups, the one with the largest lag first."""
    rows = sorted(
        map(group_summary, groups),
        key=lambda row: (*_largest_first(row["lag"], row["unknown"]), row["group"]),
    )
    planned = any(row["planned"] for row in rows)
    table = borderless_table(
        ("GROUP", False),
        ("MODE", False),
        ("STRATEGY", False),
        ("EPOCH", True),
        ("MEMBERS", True),
        ("TOPICS", True),
        ("LAG", True),
        ("DRAIN", True),
        ("SKEW", True),
        *([("AS PLANNED", True)] if planned else []),
        ("TRIGGERS", False),
        least=("TOPICS", "EPOCH", "STRATEGY", "AS PLANNED", "MODE", "TRIGGERS", "DRAIN"),
    )
    for row in rows:
        table.add_row(
            str(row["group"]),
            str(row["mode"]),
            str(row["strategy"] or "-"),
            str(row["group_epoch"] or "-"),
            str(row["members"]),
            str(row["topics"]),
            lag_text(row["lag"], row["unknown"]),
            seconds_text(row["drain_seconds"]),
            f"{row['skew']:.2f}" if isinstance(row["skew"], float) else "-",
            *([_planned_text(row["planned"])] if planned else []),
            _listed(row["triggers"]) or "-",
        )
    stdout_console().print(table)


def _listed(names: object) -> str:
    return ", ".join(names) if isinstance(names, list) else ""


def _planned_text(figures: object) -> str:
    return f"{figures['as_planned']}/{figures['partitions']}" if isinstance(figures, dict) else "-"


def print_group(
    shown: ShownGroup,
    now: int,
    described: Mapping[str, DescribedMember] | None = None,
    *,
    by_lag: bool = False,
) -> None:
    """Print the plan, triggers, members and partitions of one group.

    Args:
        shown: the group.
        now: the time, in milliseconds since the epoch.
        described: its members as the brokers describe them, by instance or else by member id.
        by_lag: whether the partitions with the largest lag come first.
    """
    from rich.text import Text  # noqa: PLC0415 - see levelwind.daemon.console

    console = stdout_console()
    records, lag = shown.records, shown.measured.lag
    name = Text(one_line(shown.name), style="bold")
    console.print(name.append(f"  {_lag_line(lag)}", "not bold"))
    for line in load_lines(lag.drain):
        console.print(line, soft_wrap=True)
    if records.plan:
        plan = records.plan
        ago = age_text(max(now - plan.computed_at, 0) / 1000)
        console.print(
            f"plan {plan.plan_id} (epoch {plan.group_epoch}) by {plan.strategy}, "
            f"because of {plan.cause}, {ago} ago"
        )
        if planned := planned_line(shown):
            console.print(planned, soft_wrap=True)
        if proxy := proxy_line(records, now):
            console.print(proxy, soft_wrap=True)
        print_scores(plan.before or {}, plan.after or {})
        if records.leader_only_brokers and (plan.after or {}).get("cross_rack") is not None:
            brokers = ", ".join(map(str, records.leader_only_brokers))
            effective = shown.measured.crossing.effective
            in_effect = (
                "" if effective is None else f"; in effect it is {figure_text(effective)} now"
            )
            console.print(
                "  cross_rack is nominal: consumers fetch from leaders alone, since brokers"
                f" {brokers} have no replica.selector.class{in_effect}",
                soft_wrap=True,
            )
        for line in plan.certificate.summary if plan.certificate else ():
            console.print(f"  {line}", soft_wrap=True)
    for line in _pipeline_lines(shown, now):
        console.print(line, soft_wrap=True)
    console.print(_member_table(shown))
    if records.lags:
        console.print(_partition_table(shown, described, by_lag=by_lag))


def print_scores(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Print scores before and after, one a line."""
    console = stdout_console()
    for name in sorted({*before, *after}):
        was, becomes = figure_text(before.get(name)), figure_text(after.get(name))
        console.print(f"  {name:20} {was} → {becomes}")


def _pipeline_lines(shown: ShownGroup, now: int) -> Iterator[str]:
    """The topics that a group left, its triggers, and what the pipeline could not publish of it."""
    if left := shown.left_topics:
        yield f"left: {', '.join(left)}; no member reads there, and no lag counts"
    for kind, trigger in sorted(shown.records.triggers.items()):
        words = describe_trigger(
            as_document(trigger.evidence), seconds=(trigger.at - trigger.since) / 1000
        )
        active_for = age_text(max(now - trigger.since, 0) / 1000)
        yield f"trigger {kind}, active for {active_for}: {words}"
    for name in shown.records.unwritten_names:
        yield f"{name} is not published: raise max.message.bytes of the topic for such records"


def planned_line(shown: ShownGroup) -> str | None:
    """How far a watched group is as planned, in words; None where no plan states an assignment."""
    figures, plan = shown.planned_figures, shown.records.plan
    if figures is None or plan is None:
        return None
    shares = f"{figures.as_planned:,} of {figures.partitions:,} planned partitions"
    if plan.mode == "advisory":
        return f"{plan.mode}: nobody applies the plan; {shares} are where it recommends"
    return f"{plan.mode}: {shares} are with their planned members"


def proxy_line(records: GroupView, now: int) -> str | None:
    """How the leader proxy stands to a group, in words; None where none is to lead it."""
    if records.plan is None or records.plan.mode != "proxy":
        return None
    if records.proxy is None:
        return "leader proxy: not in the group yet"
    lasted = age_text(max(now - records.proxy.at, 0) / 1000)
    reason = f": {records.proxy.reason}" if records.proxy.reason else ""
    return f"leader proxy: {records.proxy.standing} for {lasted}{reason}"


def _member_table(shown: ShownGroup) -> Table:
    watched = shown.records.watched
    table = borderless_table(
        ("MEMBER", False),
        ("RACK", False),
        *(
            [("OWNED", False), ("PLANNED", False)]
            if watched
            else [("STATE", False), ("ASSIGNED", False), ("PENDING", False), ("REVOKING", False)]
        ),
        ("LAG", True),
        ("LOAD", True),
        ("SPEED", True),
        least=("SPEED", "REVOKING", "PENDING", "RACK", "LOAD"),
    )
    parts = ("owned", "planned") if watched else ("assigned", "pending", "revoking")
    for row in member_documents(shown):
        speed = row["speed"]
        table.add_row(
            str(row["instance"]),
            str(row["rack"] or "-"),
            *([] if watched else [str(row["state"])]),
            *(_ranges_text(row[part]) for part in parts),
            lag_text(row["lag"], row["unknown"]),
            seconds_text(row["load_seconds"]),
            f"{speed:,.0f}/s" if isinstance(speed, float) else "-",
        )
    return table


def _partition_table(
    shown: ShownGroup, described: Mapping[str, DescribedMember] | None, *, by_lag: bool
) -> Table:
    """Return the columns of `kafka-consumer-groups`, and what else is known of a partition."""
    rows = offset_rows(shown, described, by_lag=by_lag)
    known = {(row["topic"], row["partition"]): row for row in partition_rows(shown)}
    beside = [known.get((row.topic, row.partition), {}) for row in rows]
    extras = {
        "PLANNED": [str(row.get("planned") or "-") for row in beside],
        "REPLICA-RACKS": [_racks_text(row.get("racks")) for row in beside],
        "NOTE": [str(row.get("note") or "-") for row in beside],
    }
    filled = {name: column for name, column in extras.items() if set(column) - {"-"}}
    return offset_table(rows, filled)


def _racks_text(racks: object) -> str:
    return ",".join(racks) if isinstance(racks, list) and racks else "-"


def _lag_line(measured: GroupLag) -> str:
    if measured.total is None:
        return "lag not known yet"
    lag = f"lag {lag_text(measured.total, measured.unknown)}"
    if measured.unknown:
        lag += f" (that of {measured.unknown:,} of its partitions is not known)"
    return f"{lag}  skew {figure_text(measured.skew)}"


def _largest_first(lag: object, unknown: object) -> tuple[bool, int, bool]:
    """The key that sorts by lag: the largest first, what is not known last."""
    return not isinstance(lag, int), -lag if isinstance(lag, int) else 0, not unknown


def lag_text(lag: object, unknown: object) -> str:
    """Records behind; - where nothing is known, and ≥ before a sum that is partial."""
    if not isinstance(lag, int):
        return "-"
    return f"≥{lag:,}" if unknown else f"{lag:,}"


def figure_text(value: float | None) -> str:
    """A figure with at most two decimals; - where there is none."""
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def seconds_text(value: object) -> str:
    """Seconds with one decimal below a hundred; - where there is no figure."""
    if not isinstance(value, int | float):
        return "-"
    return f"{value:,.1f} s" if value < WHOLE_FROM_SECONDS else f"{value:,.0f} s"


def _ranges_text(texts: object) -> str:
    """Partitions by topic, as texts of ranges; - where there are none."""
    if not isinstance(texts, dict):
        return "-"
    return " ".join(f"{topic}:{text}" for topic, text in texts.items()) or "-"

"""The assessment in words and cells, the same for the terminal and for HTML. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from levelwind.daemon.assessment.following import NEEDS
from levelwind.daemon.assessment.observed_groups import CONSUMER_PROTOCOL
from levelwind.daemon.console import age_text, bytes_text, counted
from levelwind.daemon.inspection.tables import lag_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from levelwind.daemon.assessment.assessment import Assessment, GroupAssessment
    from levelwind.daemon.assessment.gain import CrossRack

UNKNOWN = "-"
ARROW = "→"
MOST_LINES = 5
"""The most rights or failures of one kind that are listed one by one."""

WHOLE_MINUTES_FROM = 600
"""Seconds from which a time to drain is given in larger units."""
LEAST_UNEVEN = 1.05
"""Share of the mean from which the busiest member is named."""

COLUMNS = (
    ("GROUP", False),
    ("ASSIGNOR", False),
    ("MEMBERS", True),
    ("PARTITIONS", True),
    ("LAG", True),
    ("ARRIVES", True),
    ("READ", True),
    ("DRAINS IN", True),
    ("BUSIEST", True),
    ("CROSS-RACK", True),
    ("MOVES", True),
    ("RISKS", True),
    ("CAN FOLLOW BY", False),
)
"""Each column's name, and whether it has figures."""
LEAST = ("PARTITIONS", "MOVES", "READ", "ARRIVES", "ASSIGNOR", "MEMBERS", "RISKS", "CAN FOLLOW BY")
"""Columns that a narrow terminal goes without, the first one first."""
LEGEND = (
    f"now {ARROW} at best with `optimal`; {UNKNOWN} is not known. Busiest: work of the busiest"
    " member over the mean. Cross-rack: share of partitions."
)


def cells(group: GroupAssessment) -> tuple[str, ...]:
    """The texts of a group's row."""
    now, best = group.gain.now, group.gain.best or group.gain.now
    return (
        group.name,
        assignor_text(group),
        f"{len(group.group.members):,}",
        f"{group.partitions:,}",
        lag_text(group.lag.total, len(group.lag.unknown)),
        rate_text(group.arrivals),
        rate_text(group.consumed),
        _change(_at_least(group, now.drain), _at_least(group, best.drain)),
        _change(ratio_text(now.busiest), ratio_text(best.busiest)),
        _change(cross_rack_text(now.cross_rack), cross_rack_text(best.cross_rack)),
        UNKNOWN if group.gain.best is None else f"{group.gain.moves:,}",
        f"{len(group.risks):,}",
        ways_text(group),
    )


def assignor_text(group: GroupAssessment) -> str:
    """The assignor of a group, or its state where it has none now."""
    if not group.group.assignor:
        return group.group.state
    protocol = " (KIP-848)" if group.group.type == CONSUMER_PROTOCOL else ""
    return group.group.assignor + protocol


def _at_least(group: GroupAssessment, seconds: float | None) -> str:
    """A time to drain; marked where the lag of some partitions is not known."""
    mark = "≥" if group.lag.unknown and seconds is not None and seconds < math.inf else ""
    return mark + drain_text(seconds)


def drain_text(seconds: float | None) -> str:
    """A time to drain in words."""
    if seconds is None:
        return UNKNOWN
    if seconds == math.inf:
        return "never"
    if seconds <= 0:
        return "at pace"
    return f"{max(seconds, 1):,.0f} s" if seconds < WHOLE_MINUTES_FROM else age_text(seconds)


def ratio_text(ratio: float | None) -> str:
    """A share of the mean."""
    return UNKNOWN if ratio is None else f"{ratio:.1f}x"


def cross_rack_text(cross: CrossRack) -> str:
    """The share in effect; where that is not known the nominal one, marked."""
    if cross.effective is not None:
        return f"{cross.effective:.0%}"
    return UNKNOWN if cross.nominal is None else f"~{cross.nominal:.0%}"


def rate_text(rate: float | None) -> str:
    """Records a second."""
    if rate is None:
        return UNKNOWN
    return f"{rate:,.1f}/s" if 0 < rate < 10 else f"{rate:,.0f}/s"


def ways_text(group: GroupAssessment) -> str:
    """The modes that fit; with ? where that depends on what the brokers do not tell."""
    found = [f"{way.mode}{'' if way.fits else '?'}" for way in group.ways if way.fits is not False]
    return ", ".join(found) or UNKNOWN


def _change(before: str, after: str) -> str:
    """Two figures, or one where they are equal."""
    return before if after == before else f"{before} {ARROW} {after}"


def headlines(assessment: Assessment) -> Iterator[str]:
    """What was asked, and for how long."""
    racks = f"racks {', '.join(assessment.racks)}" if assessment.racks else "no racks"
    with_members = sum(bool(group.group.members) for group in assessment.groups)
    yield (
        f"{assessment.cluster}: {counted(assessment.brokers, 'broker')}, {racks};"
        f" {counted(len(assessment.groups) + len(assessment.unseen), 'group')},"
        f" {with_members:,} with members"
    )
    if assessment.samples > 1:
        yield (
            f"observed for {age_text(assessment.seconds)} in {assessment.samples} samples until"
            f" {assessment.at}; no group was joined, and nothing was written"
        )
    else:
        yield (
            f"one sample at {assessment.at}, so no rates and no times to drain; no group was"
            " joined, and nothing was written"
        )


def group_lines(group: GroupAssessment) -> Iterator[str]:
    """What is to be known of a group beside its row: risks, and what stands behind its figures."""
    now, best, members = group.gain.now, group.gain.best, len(group.group.members)
    for risk in group.risks:
        yield f"at risk: {risk.text}"
    if group.lag.unknown:
        held = group.lag.held
        yield (
            f"lag: not known of {counted(len(group.lag.unknown), 'partition')} without a commit or"
            f" a log end{'' if held is None else f', which hold {held:,} records'}"
        )
    if now.busiest_member is not None and (now.busiest or 0) >= LEAST_UNEVEN:
        yield f"busiest member: {now.busiest_member}, {ratio_text(now.busiest)} the mean"
    if group.gain.unplanned:
        yield f"not planned: {group.gain.unplanned}"
    if group.pace.seconds and now.drain is None and members:
        yield "time to drain: no member was behind for long enough to show its speed"
    elif now.drain == math.inf and best is not None and best.drain is None:
        yield "time to drain at best: not every member was behind and showed its speed"
    known = group.racks_known
    if members and known < members:
        yield f"racks: {known:,} of {counted(members, 'member')} tell a client.rack"
    yield from _crossing(now.cross_rack, best.cross_rack if best else None)
    load, racks = group.gain.proof[:1], group.gain.proof[1:2]
    for line in (*(() if group.gain.assumed else load), *racks):
        yield f"at best: {line}"


def _crossing(now: CrossRack, best: CrossRack | None) -> Iterator[str]:
    """What crosses racks a second."""
    if not now.records:
        return
    text = f"across racks: {now.records:,.0f} records/s"
    text += f" ({bytes_text(now.bytes)}/s)" if now.bytes is not None else " (bytes not known)"
    if best is not None and best.records is not None:
        text += f", at best {best.records:,.0f} records/s"
        text += f" ({bytes_text(best.bytes)}/s)" if best.bytes is not None else ""
    yield text


def way_lines(group: GroupAssessment) -> Iterator[str]:
    """By which modes a group can follow, and why not by the others."""
    fitting = [way.mode for way in group.ways if way.fits]
    perhaps = [way.mode for way in group.ways if way.fits is None]
    if fitting or perhaps:
        texts = [", ".join(fitting), f"perhaps {', '.join(perhaps)}" if perhaps else ""]
        yield f"can follow by {'; '.join(filter(None, texts))}"
    reasons: dict[str, list[str]] = {}
    for way in group.ways:
        if way.fits is False:
            reasons.setdefault(way.reason, []).append(way.mode)
    for reason, modes in reasons.items():
        yield f"not by {', '.join(modes)}: {reason}"


def need_lines(assessment: Assessment) -> Iterator[str]:
    """What the ways need that any group can go."""
    modes = {way.mode for group in assessment.groups for way in group.ways if way.fits is not False}
    for mode, text in NEEDS.items():
        if mode in modes:
            yield f"{mode}: {text.replace('{group}', 'GROUP')}"


def unknown_lines(assessment: Assessment) -> Iterator[str]:
    """What is not known, and the right to grant where that would help."""
    losses: dict[str, list[str]] = {}
    for lack in assessment.lacks:
        losses.setdefault(lack.loss, []).append(lack.right.label)
    for loss, labels in losses.items():
        yield f"{loss}: grant {_listed(labels)}"
    failures = sorted(assessment.failures.items())
    for name, reason in failures[:MOST_LINES]:
        yield f"{name}: {reason}"
    if len(failures) > MOST_LINES:
        yield f"and {len(failures) - MOST_LINES:,} more"
    if assessment.racks_unknown:
        yield f"racks of members: {assessment.racks_unknown}"
    if assessment.follower_fetching is False:
        yield (
            "cross-rack reads are those of leaders: not all brokers have a replica.selector.class,"
            " and consumers fetch from leaders alone"
        )
    if assessment.follower_fetching is None:
        yield "cross-rack shares with ~ are nominal: where consumers may fetch is not known"


def _listed(labels: list[str]) -> str:
    more = len(labels) - MOST_LINES
    return ", ".join(labels[:MOST_LINES]) + (f" and {more:,} more like it" if more > 0 else "")

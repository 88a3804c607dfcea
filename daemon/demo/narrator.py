"""Narration of a demo: the daemon's events and the group's lag, one a line, as text or JSON."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from assignors.protocol import partition_ranges as ranges
from daemon.inspection.tables import describe_trigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from daemon.inspection.group_view import GroupView

LAG_EVERY_SECONDS = 2.0
BAR_WIDTH = 24
COLOURS = {
    "trigger": "yellow",
    "plan": "bold green",
    "settled": "green",
    "lag": "cyan",
    "error": "bold red",
}


class Narrator:
    """Writes the narration; may be called from any thread."""

    def __init__(self, console: Console, *, as_json: bool) -> None:
        self._console = console
        self._as_json = as_json
        self._lock = threading.Lock()
        self._started_at = time.monotonic()
        self._next_lag_at = 0.0

    def start_clock(self) -> None:
        """Count the seconds of the narration from now on."""
        self._started_at = time.monotonic()

    def narrate(self, subject: str, text: str, **fields: object) -> None:
        """Write one line."""
        seconds = time.monotonic() - self._started_at
        with self._lock:
            if self._as_json:
                line = {"seconds": round(seconds, 2), "subject": subject, "text": text, **fields}
                self._console.out(json.dumps(line, sort_keys=True), highlight=False)
            else:
                style = COLOURS.get(subject, "dim")
                self._console.print(
                    f"{seconds:7.1f}s [{style}]{subject:10}[/] {escape(text)}", soft_wrap=True
                )

    def narrate_event(self, event: Mapping[str, Any]) -> None:
        """Write an event of the daemon's log, if the event is worth narrating."""
        name = event.get("event")
        match name:
            case "trigger.raised":
                self.narrate("trigger", _trigger(event), event=dict(event))
            case "plan.published":
                self.narrate("plan", _plan(event), event=dict(event))
            case (
                "plan.suppressed"
                | "plan.evaluated"
                | "partition.unsplittable"
                | "plan.confirmed"
                | "group.frozen"
            ):
                self.narrate(
                    name.split(".")[0], f"{name.split('.')[1]}: {_fields(event)}", event=dict(event)
                )
            case "handover.settled":
                self.narrate(
                    "settled",
                    f"every partition is owned as planned, after {event['seconds']} s",
                )
            case "daemon.leading":
                self.narrate(
                    "daemon",
                    f"leads as planner epoch {event['planner_epoch']}, "
                    f"with {event['groups']} groups",
                )
            case "pipeline.starting":
                self.narrate("pipeline", "Spark is starting; this takes a while")
            case "pipeline.started":
                self.narrate("pipeline", f"the query runs, after {event['seconds']} s")
            case _ if event.get("level") in {"error", "critical"}:
                self.narrate("error", f"{name}: {_fields(event)}", event=dict(event))
            case _:
                pass

    def narrate_handover(
        self, worker: str, verb: str, partitions: Sequence[tuple[str, int]]
    ) -> None:
        """Write which partitions a consumer gained or lost."""
        ranges_text = " ".join(
            f"{topic}:{text}" for topic, text in ranges.texts(ranges.by_topic(partitions)).items()
        )
        self.narrate(
            "hand-over", f"{worker} {verb} {ranges_text}", worker=worker, partitions=ranges_text
        )

    def narrate_lag(self, view: GroupView | None) -> None:
        """Write the group's lag, at most once in `LAG_EVERY_SECONDS`."""
        if view is None or not view.current_lags() or time.monotonic() < self._next_lag_at:
            return
        self._next_lag_at = time.monotonic() + LAG_EVERY_SECONDS
        lags, skew = view.member_lags(), view.skew
        most = max([*lags.values(), 1])
        bars = "  ".join(
            f"{name.rpartition('-')[2]} {_bar(lag / most)} {lag:>6,}"
            for name, lag in sorted(lags.items())
        )
        skewed = "-" if skew is None else f"{skew:.2f}"
        self.narrate(
            "lag",
            f"{view.name} {view.lag:>7,} behind, skew {skewed}  {bars}",
            lag=view.lag,
            skew=skew,
            members=lags,
        )


def _bar(share: float) -> str:
    return "█" * round(share * BAR_WIDTH / 4) + "·" * (
        BAR_WIDTH // 4 - round(share * BAR_WIDTH / 4)
    )


def _trigger(event: Mapping[str, Any]) -> str:
    return describe_trigger(event["evidence"], seconds=(event["at"] - event["since"]) / 1000)


def _plan(event: Mapping[str, Any]) -> str:
    before, after = event["before"], event["after"]
    figures = ", ".join(
        f"{name} {_figure(before.get(name))} → {_figure(after[name])}" for name in sorted(after)
    )
    epoch, strategy, cause = event["group_epoch"], event["strategy"], event["cause"]
    return f"epoch {epoch} by {strategy} because of {cause}: {figures}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _fields(event: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value}"
        for name, value in event.items()
        if name not in {"event", "time", "level", "before", "after"}
    )

"""Tells a demo's story: the daemon's events and the group's lag, a line each, for a terminal or as JSON."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from assignors.protocol import partition_ranges as ranges
from daemon.inspection.tables import trigger_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from daemon.inspection.group_view import GroupView

SHOW_EVERY = 2.0
BAR = 24
COLOURS = {
    "trigger": "yellow",
    "plan": "bold green",
    "settled": "green",
    "lag": "cyan",
    "error": "bold red",
}


class Narrator:
    """Writes the story; may be called from any thread."""

    def __init__(self, console: Console, *, as_json: bool) -> None:
        self._console = console
        self._as_json = as_json
        self._lock = threading.Lock()
        self._zero = time.monotonic()
        self._show_at = 0.0

    def clock_starts(self) -> None:
        """Count the seconds from now: the brokers are ready."""
        self._zero = time.monotonic()

    def say(self, subject: str, text: str, **fields: object) -> None:
        """Tell one thing."""
        seconds = time.monotonic() - self._zero
        with self._lock:
            if self._as_json:
                line = {"seconds": round(seconds, 2), "subject": subject, "text": text, **fields}
                self._console.out(json.dumps(line, sort_keys=True), highlight=False)
            else:
                style = COLOURS.get(subject, "dim")
                self._console.print(
                    f"{seconds:7.1f}s [{style}]{subject:10}[/] {escape(text)}", soft_wrap=True
                )

    def hear(self, event: Mapping[str, Any]) -> None:
        """Tell an event of the daemon's log, if it belongs to the story."""
        name = event.get("event")
        match name:
            case "trigger.raised":
                self.say("trigger", _trigger(event), event=dict(event))
            case "plan.published":
                self.say("plan", _plan(event), event=dict(event))
            case (
                "plan.suppressed"
                | "plan.evaluated"
                | "partition.unsplittable"
                | "plan.confirmed"
                | "group.frozen"
            ):
                self.say(
                    name.split(".")[0], f"{name.split('.')[1]}: {_fields(event)}", event=dict(event)
                )
            case "handover.settled":
                self.say(
                    "settled",
                    f"every partition is where the plan wants it, after {event['seconds']} s",
                )
            case "daemon.leading":
                self.say(
                    "daemon",
                    f"leads as planner epoch {event['planner_epoch']}, knows {event['groups']} groups",
                )
            case "pipeline.starting":
                self.say("pipeline", "Spark is starting, which takes a while")
            case "pipeline.started":
                self.say("pipeline", f"the query runs, after {event['seconds']} s")
            case _ if event.get("level") in {"error", "critical"}:
                self.say("error", f"{name}: {_fields(event)}", event=dict(event))
            case _:
                pass

    def handed_over(self, worker: str, verb: str, partitions: Sequence[tuple[str, int]]) -> None:
        """Tell what a consumer gained or lost."""
        places = " ".join(
            f"{t}:{text}" for t, text in ranges.texts(ranges.by_topic(partitions)).items()
        )
        self.say("hand-over", f"{worker} {verb} {places}", worker=worker, partitions=places)

    def show(self, view: GroupView | None) -> None:
        """Tell the group's lag, at most every two seconds."""
        if view is None or not view.current_lags() or time.monotonic() < self._show_at:
            return
        self._show_at = time.monotonic() + SHOW_EVERY
        lags, skew = view.member_lags(), view.skew
        most = max([*lags.values(), 1])
        bars = "  ".join(
            f"{name.rpartition('-')[2]} {_bar(lag / most)} {lag:>6,}"
            for name, lag in sorted(lags.items())
        )
        skewed = "-" if skew is None else f"{skew:.2f}"
        self.say(
            "lag",
            f"{view.name} {view.lag:>7,} behind, skew {skewed}  {bars}",
            lag=view.lag,
            skew=skew,
            members=lags,
        )


def _bar(share: float) -> str:
    return "█" * round(share * BAR / 4) + "·" * (BAR // 4 - round(share * BAR / 4))


def _trigger(event: Mapping[str, Any]) -> str:
    return trigger_in_words(event["evidence"], held=(event["at"] - event["since"]) / 1000)


def _plan(event: Mapping[str, Any]) -> str:
    before, after = event["before"], event["after"]
    figures = ", ".join(
        f"{name} {_figure(before.get(name))} → {_figure(after[name])}" for name in sorted(after)
    )
    return f"epoch {event['group_epoch']} by {event['strategy']} because of {event['cause']}: {figures}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _fields(event: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value}"
        for name, value in event.items()
        if name not in {"event", "time", "level", "before", "after"}
    )

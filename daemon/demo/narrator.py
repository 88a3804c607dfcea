"""Narration of a demo: the daemon's events, one a line, and the panes of both groups."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.markup import escape

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.demo.panes import panes_line, panes_side_by_side
from levelwind.daemon.inspection.tables import describe_trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from levelwind.daemon.demo.panes import Pane

PANES_EVERY_SECONDS = 2.0
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
        self._next_panes_at = 0.0
        self._live: Live | None = None

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
                self.narrate("trigger", f"{event['group']}: {_trigger(event)}", event=dict(event))
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
            case "http.listening":
                self.narrate("page", f"{event['url']} shows all of this")
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

    def narrate_rebalance(
        self, worker: str, verb: str, partitions: Sequence[tuple[str, int]]
    ) -> None:
        """Write how many partitions Kafka's assignor gave to a consumer, or took from it."""
        if partitions:
            self.narrate("kafka", f"{worker} {verb} {len(partitions)} partitions", worker=worker)

    def show_panes(self, panes: Callable[[], Sequence[Pane]]) -> None:
        """Show both groups, at most once in `PANES_EVERY_SECONDS`.

        On a terminal they stay below the other lines, elsewhere they are a line of their own.
        """
        if time.monotonic() < self._next_panes_at:
            return
        self._next_panes_at = time.monotonic() + PANES_EVERY_SECONDS
        shown = panes()
        if self._as_json:
            for pane in shown:
                self.narrate(
                    "lag",
                    f"{pane.title}: {pane.summary()}",
                    group=pane.group,
                    lag=pane.lag,
                    members=dict(pane.lags),
                    p99_delay=pane.p99,
                )
        elif self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False)
                self._live.start()
            self._live.update(panes_side_by_side(shown), refresh=True)
        else:
            self.narrate("lag", panes_line(shown))

    def close(self) -> None:
        """Leave the panes as they are, and write further lines below them."""
        if self._live is not None:
            self._live.stop()
            self._live = None


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

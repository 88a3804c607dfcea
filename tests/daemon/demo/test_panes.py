"""The demo's panes: the same workload under Kafka's assignor and under levelwind."""

import io
import json

import pytest
from rich.console import Console

from levelwind.daemon.demo.narrator import Narrator
from levelwind.daemon.demo.panes import Pane, member_lags, p99_delay, panes_line, panes_side_by_side
from levelwind.daemon.demo.workload import TOPICS, hot_partitions

KAFKA = Pane(
    title="cooperative-sticky",
    style="yellow",
    group="orders-kafka",
    lags={"kafka-0": 0, "kafka-1": 8_000},
    p99=31.24,
)
OURS = Pane(
    title="levelwind",
    style="green",
    group="orders",
    lags={"worker-0": 1_000, "worker-1": 1_200},
    p99=None,
)


def test_a_consumer_is_behind_by_what_its_partitions_are():
    lags = {("a", 0): 5, ("a", 1): 7, ("b", 0): 1}
    owned = {"y": frozenset({("a", 0), ("b", 0)}), "x": frozenset({("a", 1)}), "z": frozenset()}
    assert member_lags(lags, owned) == {"x": 7, "y": 6, "z": 0}


def test_a_lag_that_is_not_known_is_not_zero():
    owned = {"x": frozenset({("a", 1), ("c", 9)}), "y": frozenset({("a", 1)})}
    lags = member_lags({("a", 1): 7}, owned)
    assert lags == {"x": None, "y": 7}
    pane = Pane(title="levelwind", style="", group="g", lags=lags, p99=None)
    assert pane.lag is None
    assert panes_line([pane]) == "levelwind           █ lag not known yet, no records yet"
    console = Console(file=io.StringIO(), width=110)
    console.print(panes_side_by_side([pane]))
    (row,) = (line for line in console.file.getvalue().splitlines() if " x " in line)
    assert row.rstrip("│ ").endswith("-")


def test_the_p99_delay_is_one_that_a_record_had():
    assert p99_delay([]) is None
    assert p99_delay([3.0]) == 3.0
    assert p99_delay([float(n) for n in range(1, 201)]) == 198.0


def test_both_panes_stand_in_one_line_on_one_scale():
    assert panes_line([KAFKA, OURS]) == (
        "cooperative-sticky ▁█ 8,000 behind, p99 delay 31.2 s"
        "  |  levelwind          ▂▂ 2,200 behind, no records yet"
    )


def test_a_pane_without_lag_has_empty_bars():
    idle = Pane(title="idle", style="", group="g", lags={"x": 0}, p99=0.0)
    assert "▁ 0 behind, p99 delay 0.0 s" in panes_line([idle])


def test_on_a_terminal_the_panes_stand_beside_each_other():
    console = Console(file=io.StringIO(), width=110)
    console.print(panes_side_by_side([KAFKA, OURS]))
    lines = console.file.getvalue().splitlines()
    (title,) = (line for line in lines if "cooperative-sticky: group orders-kafka" in line)
    assert "levelwind: group orders" in title
    (row,) = (line for line in lines if "kafka-1" in line)
    assert "8,000" in row
    assert "worker-1" in row
    assert row.count("█") == 22 + 3  # the longest bar, and 1,200 of 8,000 of it


def narrated(*, as_json: bool, terminal: bool) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=terminal)
    narrator = Narrator(console, as_json=as_json)
    for _ in range(3):
        narrator.show_panes(lambda: [KAFKA, OURS])
    narrator.narrate("plan", "another line")
    narrator.close()
    narrator.narrate("stopped", "the end")
    return console.file.getvalue()


def test_without_a_terminal_the_panes_are_a_line_and_not_too_often():
    lines = narrated(as_json=False, terminal=False).splitlines()
    assert [line.split()[1] for line in lines] == ["lag", "plan", "stopped"]
    assert panes_line([KAFKA, OURS]) in lines[0]


def test_on_a_terminal_the_panes_stay_below_the_other_lines():
    text = narrated(as_json=False, terminal=True)
    assert text.index("another line") < text.rindex("orders-kafka") < text.index("the end")


@pytest.mark.parametrize("terminal", [False, True])
def test_as_json_each_pane_is_an_object(terminal):
    lines = [json.loads(line) for line in narrated(as_json=True, terminal=terminal).splitlines()]
    assert [line["subject"] for line in lines] == ["lag", "lag", "plan", "stopped"]
    assert lines[0]["group"] == "orders-kafka"
    assert lines[0]["members"] == {"kafka-0": 0, "kafka-1": 8_000}
    assert (lines[0]["lag"], lines[0]["p99_delay"]) == (8_000, 31.24)
    assert lines[1]["p99_delay"] is None


def owned(**numbers: list[int]) -> dict[str, frozenset]:
    topic = next(iter(TOPICS))
    return {name: frozenset((topic, n) for n in ns) for name, ns in numbers.items()}


def test_hot_partitions_are_of_one_consumer_and_of_one_of_the_other_group_where_they_can_be():
    ours = owned(a=[0, 1, 2, 3, 4], b=[5, 6, 7, 8, 9])
    kafka = owned(x=[0, 2, 5, 6, 8], y=[1, 3, 4, 7, 9])
    hot, owners = hot_partitions([ours, kafka], 4, lambda: 0.5)
    assert owners in ({"a": 4, "y": 3}, {"b": 4, "x": 3})
    assert len(hot) == 4
    assert hot == sorted(hot)


def test_hot_partitions_are_of_the_consumer_that_has_enough():
    hot, owners = hot_partitions(
        [owned(a=[0], b=[1, 2, 3]), owned(x=[0, 1], y=[2, 3])], 2, lambda: 0.5
    )
    assert hot == [2, 3]
    assert owners == {"b": 2, "y": 2}


def test_a_trigger_is_narrated_with_its_group():
    console = Console(file=io.StringIO(), width=120)
    event = {"event": "trigger.raised", "group": "orders", "at": 5_000, "since": 0}
    Narrator(console, as_json=False).narrate_event({**event, "evidence": {"partitions": 2}})
    assert "trigger    orders: the replica racks of 2 partitions" in console.file.getvalue()


def test_the_address_of_the_page_is_narrated():
    out = io.StringIO()
    console = Console(file=out, width=120)
    url = "http://127.0.0.1:9470/"
    Narrator(console, as_json=False).narrate_event({"event": "http.listening", "url": url})
    assert f"{url} shows all of this" in out.getvalue()

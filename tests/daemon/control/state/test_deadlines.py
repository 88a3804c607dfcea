"""A control that looks at groups by their deadlines, beside one that looks at all of them.

Both live through the same random story; the second one looks at every group at every tick, and
takes in every announcement and sample in full. They must have the same effects at the same times.
"""

from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.daemon.control import controller
from levelwind.daemon.control.boundary.control_events import Ticked
from levelwind.daemon.control.schedule import ticking
from levelwind.daemon.control.state.deadlines import Deadlines
from levelwind.daemon.control.state.group_table import GroupTable
from levelwind_testing.control.deadline_story import Story
from levelwind_testing.control.play import begun
from levelwind_testing.examples import examples
from levelwind_testing.records import member, topic


def all_groups(table, _now, _clocks):
    return [group for group in table.values() if not group.idle]


class EveryGroup(ExitStack):
    """A control that knows no deadlines."""

    def __enter__(self):
        for target, name, twin in (
            (GroupTable, "take_due", all_groups),
            (Deadlines, "passed", lambda *_: True),
            (controller, "repeated", lambda *_, **__: False),
            (controller, "sampled", lambda *_: False),
            (ticking, "with_moderate_demand", lambda group, _now: group),
        ):
            self.enter_context(patch.object(target, name, twin))
        return self


@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=examples(40))
def test_a_look_between_deadlines_would_change_nothing(seed):
    by_deadlines = Story(seed).tell(40)
    with EveryGroup():
        by_every_tick = Story(seed).tell(40)
    for at, (one, other) in enumerate(zip(by_deadlines, by_every_tick, strict=False)):
        assert one == other, (at, by_deadlines[max(at - 3, 0) : at])
    assert len(by_deadlines) == len(by_every_tick)


@pytest.mark.parametrize("groups", [5, 20])
def test_a_tick_looks_at_no_group_without_a_deadline(groups, monkeypatch):
    play = begun(topic(), strategy="sticky")
    play.join(*(member("m0", group=f"g{number:02}") for number in range(groups)))
    play.wait(6)
    play.now += 1
    play.update("m0", "i1")
    looked_at = []
    look = ticking.check_liveness

    def check_liveness(group, *rest):
        looked_at.append(group.name)
        return look(group, *rest)

    monkeypatch.setattr(ticking, "check_liveness", check_liveness)
    play._do(Ticked())
    assert looked_at == []

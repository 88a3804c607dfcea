"""The transport problem of racks, beside a twin that looks at every class for each step."""

from collections import deque
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.sticky.rack_flow import RackFlow, _path_to
from levelwind_testing.steps import counted_steps


class LookingAtAllClasses(RackFlow):
    """The same search, which finds the classes with flow to a rack by looking at all of them."""

    __slots__ = ()

    def _augmenting_path(self, flow, rack_class, _closed):
        reached_from = dict.fromkeys(self.racks[rack_class], (rack_class, None))
        queue = deque(reached_from)
        while queue:
            rack = queue.popleft()
            if self._room(rack) > 0:
                return _path_to(reached_from, rack)
            for other, sent in enumerate(flow):
                if sent.get(rack, 0) > 0:
                    for onward in self.racks[other]:
                        if onward not in reached_from:
                            reached_from[onward] = (other, rack)
                            queue.append(onward)
        return []


@st.composite
def transports(draw):
    count = draw(st.integers(1, 9))
    racks = st.integers(0, count - 1)
    classes = draw(st.lists(st.sets(racks, max_size=4).map(sorted), max_size=20))
    numbers = st.integers(0, 6)
    return {
        "supply": [draw(numbers) for _ in classes],
        "racks": classes,
        "base": [draw(numbers) for _ in range(count)],
        "extra": [draw(numbers) for _ in range(count)],
        "pool": draw(numbers),
    }


def copied(transport):
    return {
        name: list(figures) if isinstance(figures, list) else figures
        for name, figures in transport.items()
    }


@given(transports())
def test_the_flow_is_that_of_a_search_through_all_classes(transport):
    quick, slow = RackFlow(**copied(transport)), LookingAtAllClasses(**copied(transport))
    assert [list(sent.items()) for sent in quick.solve()] == [
        list(sent.items()) for sent in slow.solve()
    ]
    assert (quick.supply, quick.base, quick.pool) == (slow.supply, slow.base, slow.pool)


def test_many_racks_cost_few_steps_for_each_class():
    """Each two racks of 30 have a class, and there is less room than partitions."""
    classes = [list(pair) for pair in combinations(range(30), 2)]
    flow = RackFlow(
        supply=[2] * len(classes),
        racks=classes,
        base=[5 + rack for rack in range(30)],
        extra=[1] * 30,
        pool=12,
    )
    _, steps = counted_steps(flow.solve)
    assert steps < 300 * len(classes)

"""Standbys against a twin that tries every placement, and on a grid of applications."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.kafka_streams import StreamsSettings, assign
from levelwind.assignors.kafka_streams.application import Application
from levelwind.assignors.kafka_streams.standbys import assign_standbys
from levelwind_testing.examples import examples
from levelwind_testing.groups.applications import process, tasks_of


def unevenness(app, active, standbys):
    """Sum over the copies of those that the process had before, per thread."""
    load = Counter([*active, *(name for of_task in standbys for name in of_task)])
    return sum(
        Fraction(count * (count - 1), int(app.threads[number])) for number, count in load.items()
    )


def random_application(random):
    """A few tasks, each active on a random process, with standbys left over from before."""
    tasks = tasks_of(1, random.randint(1, 5), end=0)
    names = [task.id for task in tasks]
    processes = [
        process(
            f"p{number}",
            threads=random.randint(1, 3),
            standby=random.sample(names, random.randint(0, len(names))),
        )
        for number in range(random.randint(2, 4))
    ]
    chosen = StreamsSettings(standby_replicas=random.randint(1, 2))
    active = [random.randrange(len(processes)) for _ in tasks]
    return Application.build(tasks, processes, chosen), active, chosen


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=examples(150))
def test_no_placement_of_the_standbys_has_more_even_copies_per_thread(random):
    app, active, chosen = random_application(random)
    found = assign_standbys(app, np.array(active), chosen).processes
    wanted = min(chosen.standby_replicas, len(app.processes) - 1)
    every = product(
        *(
            combinations([each for each in range(len(app.processes)) if each != runs], wanted)
            for runs in active
        )
    )
    best = min(unevenness(app, active, standbys) for standbys in every)
    assert unevenness(app, active, found) == best


def test_three_tasks_on_three_processes_have_two_copies_each():
    """The last task finds room only where it runs: another standby makes way for its own."""
    plan = assign(tasks_of(1, 3, end=0), three(), StreamsSettings(standby_replicas=1))
    assert Counter(name for name, *_ in plan.rows()) == {"p0": 2, "p1": 2, "p2": 2}


def three():
    return [process(f"p{number}") for number in range(3)]


@pytest.mark.parametrize("standbys", [1, 2, 3])
@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_from_scratch_no_process_has_two_copies_more_than_another(count, standbys):
    processes = [process(f"p{number}") for number in range(count)]
    for partitions in range(1, 14):
        plan = assign(
            tasks_of(1, partitions, end=0), processes, StreamsSettings(standby_replicas=standbys)
        )
        copies = Counter(name for name, *_ in plan.rows())
        loads = [copies[each.id] for each in processes]
        assert max(loads) - min(loads) <= 1, (partitions, loads)

"""The flow of active tasks against a twin that tries every assignment of small problems."""

from collections import Counter
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.kafka_streams import assign
from levelwind.assignors.kafka_streams.actives import (
    NOTHING,
    RAN,
    _ActiveFlow,
    _copy_states,
    assign_active,
)
from levelwind.assignors.kafka_streams.application import Application
from levelwind.assignors.kafka_streams.quotas import task_quotas
from levelwind_testing.examples import examples
from levelwind_testing.groups.applications import apply_plan, random_case


def cost_of(app, chosen, assignment, load, settings):
    """Cost of an assignment by the planner's guarantees; None if it breaks the quotas."""
    count = np.bincount(assignment, minlength=len(app.processes))
    quotas = task_quotas(len(chosen), load, app.threads)
    surplus = count - quotas.guaranteed
    if (surplus < 0).any() or (surplus > quotas.tied).any():
        return None
    beyond = 0
    if settings.rack_strategy != "min_traffic":
        by_cell = Counter(
            (int(app.subtopology[task]), process)
            for task, process in zip(chosen, assignment, strict=True)
        )
        total = Counter(int(app.subtopology[task]) for task in chosen)
        threads = int(app.threads.sum())
        for (subtopology, process), tasks in by_cell.items():
            part = -(-total[subtopology] * int(app.threads[process]) // threads)
            beyond += max(tasks - part, 0)
    cost = state = 0
    for task, process in zip(chosen, assignment, strict=True):
        held = _copy_states(app, int(task)).get(process, NOTHING)
        if settings.rack_strategy != "none":
            cost += settings.traffic_cost * int(app.input_misses[task, app.rack[process]])
        cost += settings.non_overlap_cost * (held != RAN)
        state += held
    return beyond, cost, state


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=examples(40))
def test_no_assignment_of_all_is_better_than_the_flow(random):
    case = random_case(random, tasks=3, processes=3)
    tasks = case.tasks[:5]
    app = Application.build(tasks, case.processes, case.settings)
    load = np.array([random.randint(0, 2) for _ in app.processes])
    chosen = np.arange(len(tasks))
    found = assign_active(app, chosen, load, case.settings).tolist()
    every = (
        cost_of(app, chosen, assignment, load, case.settings)
        for assignment in product(range(len(app.processes)), repeat=len(tasks))
    )
    assert cost_of(app, chosen, found, load, case.settings) == min(
        process for process in every if process is not None
    )


@pytest.mark.integration
@pytest.mark.parametrize("seed", range(25))
def test_no_assignment_of_all_is_better_than_the_flow_with_more_tasks(seed):
    random = Random(seed)
    case = random_case(random, tasks=4, processes=4)
    tasks = case.tasks[:7]
    app = Application.build(tasks, case.processes, case.settings)
    load = np.zeros(len(app.processes), dtype=np.int64)
    chosen = np.arange(len(tasks))
    found = assign_active(app, chosen, load, case.settings).tolist()
    every = (
        cost_of(app, chosen, assignment, load, case.settings)
        for assignment in product(range(len(app.processes)), repeat=len(tasks))
    )
    assert cost_of(app, chosen, found, load, case.settings) == min(
        process for process in every if process is not None
    )


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=examples(40))
def test_where_nothing_is_to_move_the_flow_says_so_too(random):
    case = random_case(random)
    processes = case.processes
    for _ in range(2):
        processes = apply_plan(processes, assign(case.tasks, processes, case.settings))
    app = Application.build(case.tasks, processes, case.settings)
    chosen = np.flatnonzero(app.stateful)
    load = np.zeros(len(app.processes), dtype=np.int64)
    found = assign_active(app, chosen, load, case.settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ActiveFlow, "unchanged", lambda *_: None)
        assert (assign_active(app, chosen, load, case.settings) == found).all()


def random_loads(random):
    return [random.randint(0, 9) for _ in range(random.randint(1, 6))]


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=examples(100))
def test_shares_are_those_of_giving_one_by_one_to_the_least_loaded(random):
    load = random_loads(random)
    threads = [random.randint(1, 4) for _ in load]
    count = random.randint(0, 30)
    quotas = task_quotas(count, np.array(load), np.array(threads))
    got = list(load)
    for _ in range(count):
        got[
            min(
                range(len(got)),
                key=lambda process: (got[process] / threads[process], -threads[process]),
            )
        ] += 1
    given_ = [after - before for after, before in zip(got, load, strict=True)]
    assert sum(quotas.guaranteed.tolist()) + quotas.spare == count
    assert all(
        0 <= given - guaranteed <= tied
        for given, guaranteed, tied in zip(given_, quotas.guaranteed, quotas.tied, strict=True)
    )


def test_a_process_that_leaves_lowers_nobodys_share():
    threads = np.array([1, 2, 3, 5])
    for count in range(60):
        before = task_quotas(count, np.zeros(4, dtype=np.int64), threads)
        after = task_quotas(count, np.zeros(3, dtype=np.int64), threads[1:])
        assert (after.guaranteed + after.tied >= (before.guaranteed + before.tied)[1:]).all()

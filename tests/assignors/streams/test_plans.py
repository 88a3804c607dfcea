"""Properties of every plan of `streams`."""

from collections import Counter
from random import Random
from secrets import randbelow

import pytest
from applications import Case, carried_out, places, process, random_case, shuffled, tasks_of
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors.streams import Settings, assign
from assignors.streams.application import Application
from assignors.streams.assign import where_stateful
from assignors.streams.invariants import violations

MANY = 60
ROUNDS = 60


def seeds():
    return st.integers(0, 2**32).map(Random)


def planned(case: Case):
    return assign(case.tasks, case.processes, case.settings)


@given(seeds())
@settings(max_examples=MANY)
def test_each_task_is_active_once_with_its_standbys_elsewhere_and_the_budget_held(random):
    case = random_case(random)
    assert violations(case.tasks, case.processes, case.settings, planned(case)) == []


@given(seeds())
@settings(max_examples=MANY)
def test_the_order_of_the_input_changes_nothing(random):
    case = random_case(random)
    other = shuffled(case, random)
    plan, same = planned(case), planned(other)
    assert plan == same
    assert plan.awaited == same.awaited


@given(seeds())
@settings(max_examples=MANY)
def test_it_settles_in_bounded_rounds_and_then_nothing_moves(random):
    case = random_case(random)
    people = case.processes
    plan = planned(case)
    copies = len(case.tasks) * (1 + case.settings.standby_replicas)
    for _ in range(copies // case.settings.max_warmups + 3):
        people = carried_out(people, plan)
        before, plan = plan, assign(case.tasks, people, case.settings)
        if not plan.probing and not before.probing:
            break
    assert not plan.probing
    people = carried_out(people, plan)
    again = assign(case.tasks, people, case.settings)
    assert again.processes == plan.processes
    assert not again.probing


@given(seeds())
@settings(max_examples=MANY)
def test_the_settled_plan_is_balanced_over_threads(random):
    case = random_case(random)
    people, plan = case.processes, planned(case)
    for _ in range(ROUNDS):
        if not plan.probing:
            break
        people = carried_out(people, plan)
        plan = assign(case.tasks, people, case.settings)
    stateful = {task.id for task in case.tasks if task.stateful}
    for among in (stateful, {task.id for task in case.tasks}):
        loads = [
            sum(task in among for task in mine.active)
            for consumers in plan.processes.values()
            for mine in consumers.values()
        ]
        assert max(loads) - min(loads) <= 1


@given(seeds())
@settings(max_examples=MANY)
def test_tasks_of_a_subtopology_are_spread(random):
    case = random_case(random)
    if case.settings.rack_strategy == "min_traffic":
        return
    case = Case(
        tasks=case.tasks,
        processes=[process(each.id, rack=each.rack, tags=each.tags) for each in case.processes],
        settings=case.settings,
    )
    where = places(planned(case))
    for stateful in (True, False):
        for subtopology in {task.subtopology for task in case.tasks if task.stateful == stateful}:
            mine = [task.id for task in case.tasks if task.subtopology == subtopology]
            count = Counter(where[task] for task in mine)
            if stateful:  # one thread each: the exact part can be held
                assert max(count.values()) <= -(-len(mine) // len(case.processes))


@given(seeds())
@settings(max_examples=MANY)
def test_no_task_waits_on_a_process_that_is_behind_while_another_is_caught_up(random):
    case = random_case(random)
    app = Application.build(case.tasks, case.processes, case.settings)
    where = places(planned(case))
    for index, name in enumerate(app.tasks):
        here = app.processes.index(where[name])
        if any(copy.caught_up for copy in app.copies[index]):
            assert app.caught_up(index, here)


@given(seeds())
@settings(max_examples=MANY)
def test_probing_is_wanted_exactly_while_some_copy_is_not_where_it_belongs(random):
    case = random_case(random)
    app = Application.build(case.tasks, case.processes, case.settings)
    belongs = {
        name: app.processes[process]
        for name, process in zip(app.tasks, where_stateful(app, case.settings).tolist(), strict=True)
        if process >= 0
    }
    plan = planned(case)
    away = {name for name, process in places(plan).items() if process != belongs.get(name, process)}
    assert away == {each.task for each in plan.awaited if each.role == "active"}
    warming = sum(each.warming for each in plan.awaited)
    warmups = sum(kind == "warmup" for _, _, kind, _ in plan.rows())
    assert warmups <= warming  # a swapped standby is warming without being a warm-up


@pytest.mark.integration
@pytest.mark.parametrize(
    "law",
    [
        test_each_task_is_active_once_with_its_standbys_elsewhere_and_the_budget_held,
        test_the_order_of_the_input_changes_nothing,
        test_it_settles_in_bounded_rounds_and_then_nothing_moves,
        test_the_settled_plan_is_balanced_over_threads,
        test_tasks_of_a_subtopology_are_spread,
        test_no_task_waits_on_a_process_that_is_behind_while_another_is_caught_up,
        test_probing_is_wanted_exactly_while_some_copy_is_not_where_it_belongs,
    ],
    ids=lambda law: law.__name__.removeprefix("test_"),
)
def test_it_holds_from_many_fresh_seeds(law):
    first = randbelow(2**40)
    print(f"seeds from {first}")  # pytest shows it where one fails
    for seed in range(first, first + 500):
        law.hypothesis.inner_test(Random(seed))


def test_an_application_without_tasks_or_processes_is_planned_too():
    assert assign([], [process("A")]).processes["A"]["A-1"].active == ()
    assert assign([], []).processes == {}
    assert assign(tasks_of(1, 2), []).warnings == ("processes: there are none, so 2 tasks are nobody's",)


@pytest.mark.parametrize("strategy", ["none", "min_traffic", "balance_subtopology"])
def test_a_wide_application_is_valid(strategy):
    tasks = tasks_of(7, 40)
    people = [
        process(f"p{number:03}", threads=1 + number % 3, rack="abc"[number % 3]) for number in range(50)
    ]
    chosen = Settings(standby_replicas=2, rack_strategy=strategy)
    assert violations(tasks, people, chosen, assign(tasks, people, chosen)) == []

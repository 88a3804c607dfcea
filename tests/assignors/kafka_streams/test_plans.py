"""Properties of every plan of `streams`."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.kafka_streams import StreamsSettings, assign
from levelwind.assignors.kafka_streams.application import Application
from levelwind.assignors.kafka_streams.assign import assign_stateful
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.examples import examples
from levelwind_testing.groups.applications import (
    StreamsCase,
    apply_plan,
    process,
    processes_by_task,
    random_case,
    shuffled,
    tasks_of,
)
from levelwind_testing.groups.plan_violations import plan_violations

MANY = 40
ROUNDS = 60


def seeds():
    return st.integers(0, 2**32).map(Random)


def plan_case(case: StreamsCase):
    return assign(case.tasks, case.processes, case.settings)


@given(seeds())
@settings(max_examples=examples(MANY))
def test_each_task_is_active_once_with_its_standbys_elsewhere_and_the_budget_held(random):
    case = random_case(random)
    assert plan_violations(case.tasks, case.processes, case.settings, plan_case(case)) == []


@given(seeds())
@settings(max_examples=examples(MANY))
def test_the_order_of_the_input_changes_nothing(random):
    case = random_case(random)
    other = shuffled(case, random)
    plan, same = plan_case(case), plan_case(other)
    assert plan == same
    assert plan.awaited == same.awaited


@given(seeds())
@settings(max_examples=examples(MANY))
def test_it_settles_in_bounded_rounds_and_then_nothing_moves(random):
    case = random_case(random)
    processes = case.processes
    plan = plan_case(case)
    copies = len(case.tasks) * (1 + case.settings.standby_replicas)
    for _ in range(copies // case.settings.max_warmups + 3):
        processes = apply_plan(processes, plan)
        before, plan = plan, assign(case.tasks, processes, case.settings)
        if not plan.probing and not before.probing:
            break
    assert not plan.probing
    processes = apply_plan(processes, plan)
    again = assign(case.tasks, processes, case.settings)
    assert again.processes == plan.processes
    assert not again.probing


@pytest.mark.parametrize("seed", [141, 205, 219])
def test_standbys_that_are_as_good_as_new_ones_stay(seed):
    """Placed anew from where they are, these would come out otherwise, and no better."""
    test_it_settles_in_bounded_rounds_and_then_nothing_moves.hypothesis.inner_test(Random(seed))


def test_tasks_of_a_subtopology_that_ran_together_are_spread_again():
    processes = [process("A", active=["0_0", "0_1"]), process("B", active=["1_0", "1_1"])]
    plan = assign(tasks_of(2, 2, end=0), processes)
    where = processes_by_task(plan)
    assert where["0_0"] != where["0_1"]
    assert where["1_0"] != where["1_1"]
    assert sum(where[task] == "A" for task in ("0_0", "0_1")) == 1  # two change places, two stay
    together = processes_by_task(
        assign(tasks_of(2, 2, end=0), processes, StreamsSettings(rack_strategy="min_traffic"))
    )
    assert together == {"0_0": "A", "0_1": "A", "1_0": "B", "1_1": "B"}


@given(seeds())
@settings(max_examples=examples(MANY))
def test_claims_of_tasks_that_are_gone_change_nothing(random):
    case = random_case(random)
    gone = [
        replace(
            each,
            consumers=[
                replace(
                    consumer,
                    active=[*consumer.active, "7_7"],
                    standby=[*consumer.standby, "0_99"],
                )
                for consumer in each.consumers
            ],
            lags={**each.lags, "7_7": 5},
            offset_sums={**each.offset_sums, "0_99": 5},
        )
        for each in case.processes
    ]
    assert assign(case.tasks, gone, case.settings) == plan_case(case)


def test_a_task_that_two_claim_to_have_run_is_nobodys_and_goes_where_its_state_is():
    both = [process("A", active=["0_0"]), process("B", active=["0_0"])]
    plan = assign(tasks_of(1, 1), [*both, process("C", lags={"0_0": 800_000})])
    assert processes_by_task(plan) == {"0_0": "C"}
    assert not plan.probing


def test_a_task_that_waits_for_its_warm_up_goes_on_where_it_runs_not_on_another_copy():
    names = [f"0_{number}" for number in range(6)]
    processes = [
        process("A", active=names[:4]),
        process("B"),
        process("C", active=names[4:], lags=dict.fromkeys(names[:4], 0)),
    ]
    plan = assign(tasks_of(1, 6), processes)
    assert [processes_by_task(plan)[name] for name in names] == ["A", "A", "A", "A", "C", "C"]
    assert {name for (name,) in processes_by_task(plan, "warmup").values()} == {"B"}


def test_a_standby_stays_on_a_caught_up_copy_until_it_is_caught_up_where_it_belongs():
    chosen = StreamsSettings(standby_replicas=1, rack_aware_tags=("zone",))
    processes = [
        process("A", active=["0_0"], tags={"zone": "1"}),
        process("B", standby=["0_0"], lags={"0_0": 0}, tags={"zone": "1"}),
        process("C", tags={"zone": "2"}),
    ]
    plan = assign(tasks_of(1, 1), processes, chosen)
    assert processes_by_task(plan, "standby") == {"0_0": ["B"]}
    assert processes_by_task(plan, "warmup") == {"0_0": ["C"]}
    (awaited,) = plan.awaited
    assert (awaited.process, awaited.role, awaited.warming, awaited.lag) == (
        "C",
        "standby",
        True,
        1_000_000,
    )
    after = assign(tasks_of(1, 1), apply_plan(processes, plan), chosen)
    assert processes_by_task(after, "standby") == {"0_0": ["C"]}
    assert not after.probing


@given(seeds())
@settings(max_examples=examples(MANY))
def test_the_settled_plan_is_balanced_over_threads(random):
    case = random_case(random)
    processes, plan = case.processes, plan_case(case)
    for _ in range(ROUNDS):
        if not plan.probing:
            break
        processes = apply_plan(processes, plan)
        plan = assign(case.tasks, processes, case.settings)
    stateful = {task.id for task in case.tasks if task.stateful}
    for among in (stateful, {task.id for task in case.tasks}):
        loads = [
            sum(task in among for task in assignment.active)
            for consumers in plan.processes.values()
            for assignment in consumers.values()
        ]
        assert max(loads) - min(loads) <= 1


@given(seeds())
@settings(max_examples=examples(MANY))
def test_tasks_of_a_subtopology_are_spread(random):
    case = random_case(random)
    if case.settings.rack_strategy == "min_traffic":
        return
    case = StreamsCase(
        tasks=case.tasks,
        processes=[process(each.id, rack=each.rack, tags=each.tags) for each in case.processes],
        settings=case.settings,
    )
    where = processes_by_task(plan_case(case))
    for stateful in (True, False):
        for subtopology in {task.subtopology for task in case.tasks if task.stateful == stateful}:
            task_ids = [task.id for task in case.tasks if task.subtopology == subtopology]
            count = Counter(where[task] for task in task_ids)
            if stateful:  # one thread each: the exact part can be held
                assert max(count.values()) <= -(-len(task_ids) // len(case.processes))


@given(seeds())
@settings(max_examples=examples(MANY))
def test_no_task_waits_on_a_process_that_is_behind_while_another_is_caught_up(random):
    case = random_case(random)
    app = Application.build(case.tasks, case.processes, case.settings)
    where = processes_by_task(plan_case(case))
    for index, name in enumerate(app.tasks):
        here = app.processes.index(where[name])
        if any(copy.caught_up for copy in app.copies[index]):
            assert app.caught_up(index, here)


def test_a_process_that_joins_takes_no_role_from_a_caught_up_standby():
    """Four tasks, each active on A or B and followed by the other one; C begins with nothing."""
    chosen = StreamsSettings(standby_replicas=1)
    processes = [process("A"), process("B")]
    settled = apply_plan(processes, assign(tasks_of(1, 4), processes, chosen))
    plan = assign(tasks_of(1, 4), [*settled, process("C")], chosen)
    active, standby = processes_by_task(plan), processes_by_task(plan, "standby")
    assert all({active[task], *standby[task]} == {"A", "B"} for task in active)
    assert sum(len(names) for names in processes_by_task(plan, "warmup").values()) == 2
    assert plan.probing


def test_a_process_that_joins_builds_each_of_its_copies_once_and_no_other_does():
    """A warm-up that is done stays where it is: no other task's old standby takes its place."""
    chosen = StreamsSettings(standby_replicas=1, max_warmups=4)
    names = [f"0_{number}" for number in range(5)]
    processes = [
        process("A", active=names[::2], standby=names[1::2], lags=dict.fromkeys(names[1::2], 0)),
        process("B", active=names[1::2], standby=names[::2], lags=dict.fromkeys(names[::2], 0)),
        process("C"),
    ]
    had = {each.id: set(names) if each.id != "C" else set() for each in processes}
    built = []
    for _ in range(ROUNDS):
        plan = assign(tasks_of(1, 5), processes, chosen)
        has = {each.id: set() for each in processes}
        for name, _, _, task in plan.rows():
            has[name].add(task)
        built += [(name, task) for name in has for task in has[name] - had[name]]
        had, processes = has, apply_plan(processes, plan)
        if not plan.probing:
            break
    assert sorted(built) == [("C", task) for task in sorted(had["C"])]


@given(seeds())
@settings(max_examples=examples(MANY))
def test_no_caught_up_copy_is_without_a_role_while_another_copy_is_behind_in_one(random):
    case = random_case(random)
    app = Application.build(case.tasks, case.processes, case.settings)
    plan = plan_case(case)
    active, standby = processes_by_task(plan), processes_by_task(plan, "standby")
    for index, name in enumerate(app.tasks):
        roles = {app.processes.index(each) for each in (active[name], *standby.get(name, ()))}
        if not all(app.caught_up(index, process) for process in roles):
            assert {copy.process for copy in app.copies[index] if copy.caught_up} <= roles


@given(seeds())
@settings(max_examples=examples(MANY))
def test_probing_is_wanted_exactly_while_some_copy_is_not_where_it_belongs(random):
    case = random_case(random)
    app = Application.build(case.tasks, case.processes, case.settings)
    belongs = {
        name: app.processes[process]
        for name, process in zip(
            app.tasks, assign_stateful(app, case.settings).tolist(), strict=True
        )
        if process >= 0
    }
    plan = plan_case(case)
    away = {
        name
        for name, process in processes_by_task(plan).items()
        if process != belongs.get(name, process)
    }
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
        test_no_caught_up_copy_is_without_a_role_while_another_copy_is_behind_in_one,
        test_probing_is_wanted_exactly_while_some_copy_is_not_where_it_belongs,
    ],
    ids=lambda law: law.__name__.removeprefix("test_"),
)
def test_it_holds_from_many_seeds(law):
    first = drawn_seed()
    for seed in range(first, first + 500):
        law.hypothesis.inner_test(Random(seed))


def test_an_application_without_tasks_or_processes_is_planned_too():
    assert assign([], [process("A")]).processes["A"]["A-1"].active == ()
    assert assign([], []).processes == {}
    assert assign(tasks_of(1, 2), []).warnings == (
        "processes: there are none, so 2 tasks run nowhere",
    )


@pytest.mark.parametrize("strategy", ["none", "min_traffic", "balance_subtopology"])
def test_a_wide_application_is_valid(strategy):
    tasks = tasks_of(7, 40)
    processes = [
        process(f"p{number:03}", threads=1 + number % 3, rack="abc"[number % 3])
        for number in range(50)
    ]
    chosen = StreamsSettings(standby_replicas=2, rack_strategy=strategy)
    assert plan_violations(tasks, processes, chosen, assign(tasks, processes, chosen)) == []

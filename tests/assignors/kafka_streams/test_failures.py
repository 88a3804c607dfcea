"""Failures of an application: who takes over, what moves, and how it settles."""

from dataclasses import replace

import pytest

from levelwind.assignors.kafka_streams import StreamsProcess, StreamsSettings, assign
from levelwind_testing.groups.applications import apply_plan, process, processes_by_task, tasks_of
from levelwind_testing.groups.plan_violations import plan_violations

FAR_BEHIND_RECORDS = 500_000
TASKS = tasks_of(2, 6)  # twelve stateful tasks
SETTINGS = StreamsSettings(standby_replicas=1, max_warmups=2)


def at_rest(names, settings=SETTINGS, tasks=TASKS, **fields):
    """Processes that run a settled plan, and the plan."""
    processes = [
        process(name, **{key: value(name) for key, value in fields.items()}) for name in names
    ]
    plan = assign(tasks, processes, settings)
    assert not plan.probing
    processes = apply_plan(processes, plan)
    assert assign(tasks, processes, settings).processes == plan.processes
    return processes, plan


def to_rest(tasks, processes, settings, *, catch_up=0):
    """The plans until probing ends, each carried out, and the processes after the last.

    Copies that are not active are `catch_up` records behind after each plan.
    """
    plans = [assign(tasks, processes, settings)]
    while plans[-1].probing:
        assert len(plans) < 60
        assert plan_violations(tasks, processes, settings, plans[-1]) == []
        processes = apply_plan(processes, plans[-1], lag=catch_up)
        plans.append(assign(tasks, processes, settings))
    return plans, apply_plan(processes, plans[-1])


def test_a_dead_process_is_replaced_by_its_standbys_and_nothing_else_moves():
    processes, before = at_rest("ABCD")
    ran, followed = processes_by_task(before), processes_by_task(before, "standby")
    for dead in "ABCD":
        alive = [each for each in processes if each.id != dead]
        now = processes_by_task(assign(TASKS, alive, SETTINGS))
        assert all(now[task] == name for task, name in ran.items() if name != dead)
        assert all(now[task] == followed[task][0] for task, name in ran.items() if name == dead)


def test_standbys_that_died_are_built_anew_and_the_others_stay():
    processes, before = at_rest("ABCD")
    alive = [each for each in processes if each.id != "D"]
    after = assign(TASKS, alive, SETTINGS)
    assert plan_violations(TASKS, alive, SETTINGS, after) == []
    for task, (name,) in processes_by_task(before, "standby").items():
        untouched = "D" not in (name, processes_by_task(before)[task])
        if untouched:
            assert processes_by_task(after, "standby")[task] == [name]


def test_a_process_that_comes_back_warms_up_within_the_budget_and_is_handed_its_tasks():
    processes, _ = at_rest("ABCD")
    three = [each for each in processes if each.id != "D"]
    _, three = to_rest(TASKS, three, SETTINGS)
    back = process("D", lags={task.id: FAR_BEHIND_RECORDS for task in TASKS})
    first = assign(TASKS, [*three, back], SETTINGS)
    assert first.probing
    assert "D" not in processes_by_task(first).values()  # nobody waits for it
    settled = processes_by_task(first)
    assert settled == processes_by_task(assign(TASKS, three, SETTINGS))
    plans, _ = to_rest(TASKS, [*three, back], SETTINGS)
    loads = [sum(name == each for name in processes_by_task(plans[-1]).values()) for each in "ABCD"]
    assert loads == [3, 3, 3, 3]
    assert (
        len(plans) <= (3 + 3) // SETTINGS.max_warmups + 2
    )  # three tasks and three standbys to move
    handed = {task for task, name in processes_by_task(plans[-1]).items() if settled[task] != name}
    assert len(handed) == 3  # what it is due, and no more


def test_a_warm_up_that_is_not_caught_up_goes_on_and_no_other_is_begun():
    processes, _ = at_rest("ABC", StreamsSettings(max_warmups=2))
    late = [*processes, process("D", lags={task.id: FAR_BEHIND_RECORDS for task in TASKS})]
    settings = StreamsSettings(max_warmups=2)
    first = assign(TASKS, late, settings)
    again = assign(TASKS, apply_plan(late, first, lag=FAR_BEHIND_RECORDS // 2), settings)
    assert processes_by_task(again, "warmup") == processes_by_task(first, "warmup")
    assert processes_by_task(again) == processes_by_task(first)
    assert len(processes_by_task(first, "warmup")) == 2


def test_a_warmed_up_task_is_handed_over_and_leaves_where_it_ran():
    processes, _ = at_rest("AB", StreamsSettings(max_warmups=4))
    late = [*processes, process("C", lags={task.id: FAR_BEHIND_RECORDS for task in TASKS})]
    first = assign(TASKS, late, StreamsSettings(max_warmups=4))
    warmed = processes_by_task(first, "warmup")
    assert len(warmed) == 4
    second = assign(TASKS, apply_plan(late, first), StreamsSettings(max_warmups=4))
    assert not second.probing
    assert {task for task, name in processes_by_task(second).items() if name == "C"} == set(warmed)
    assert processes_by_task(second, "warmup") == {}


def test_a_process_that_restarts_with_its_state_gets_its_tasks_back_at_once():
    processes, before = at_rest("ABC")
    tasks_of_a = [task for task, name in processes_by_task(before).items() if name == "A"]
    again = [
        replace(
            each,
            consumers=[replace(c, active=[], standby=[]) for c in each.consumers],
            lags=dict.fromkeys(tasks_of_a, 5),
        )
        if each.id == "A"
        else each
        for each in processes
    ]
    after = assign(TASKS, again, SETTINGS)
    assert {task: processes_by_task(after)[task] for task in tasks_of_a} == dict.fromkeys(
        tasks_of_a, "A"
    )


def test_a_zone_that_is_lost_has_a_standby_of_every_task_elsewhere():
    zone = {name: f"z{number % 3}" for number, name in enumerate("ABCDEF")}
    settings = StreamsSettings(standby_replicas=1, rack_aware_tags=("zone",))
    processes, before = at_rest("ABCDEF", settings, tags=lambda name: {"zone": zone[name]})
    for lost in ("z0", "z1", "z2"):
        alive = [each for each in processes if zone[each.id] != lost]
        after = assign(TASKS, alive, settings)
        followed = processes_by_task(before, "standby")
        for task, name in processes_by_task(before).items():
            survivor = name if zone[name] != lost else followed[task][0]
            assert processes_by_task(after)[task] == survivor


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_a_second_half_of_processes_is_taken_in_within_moves_over_budget_rounds(budget):
    settings = StreamsSettings(max_warmups=budget)
    processes, _ = at_rest("ABC", settings)
    late = [
        *processes,
        *(process(name, lags={task.id: FAR_BEHIND_RECORDS for task in TASKS}) for name in "DEF"),
    ]
    plans, _ = to_rest(TASKS, late, settings)
    moves = 6
    assert len(plans) <= -(-moves // budget) + 1
    loads = [
        sum(name == each for name in processes_by_task(plans[-1]).values()) for each in "ABCDEF"
    ]
    assert loads == [2] * 6


def test_threads_keep_their_tasks_when_another_process_leaves():
    processes = [process(name, threads=3) for name in "ABC"]
    plan = assign(TASKS, processes, SETTINGS)
    processes = apply_plan(processes, plan)
    after = assign(TASKS, processes[:2], SETTINGS)
    for name in "AB":
        for consumer, assignment in plan.processes[name].items():
            assert set(assignment.active) <= set(after.processes[name][consumer].active)


def test_a_thread_that_ends_gives_its_tasks_to_its_own_process():
    processes = apply_plan(
        [process("A", threads=3)], assign(TASKS, [process("A", threads=3)], SETTINGS)
    )
    fewer = [StreamsProcess(id="A", consumers=processes[0].consumers[:2])]
    plan = assign(TASKS, fewer, SETTINGS)
    assert [len(assignment.active) for assignment in plan.processes["A"].values()] == [6, 6]
    for consumer in fewer[0].consumers:
        assert set(consumer.active) <= set(plan.processes["A"][consumer.id].active)

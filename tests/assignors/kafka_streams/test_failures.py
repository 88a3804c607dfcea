"""An application through failures: who takes over, what moves meanwhile, and how it comes to rest."""

from dataclasses import replace

import pytest

from assignors.kafka_streams import (
    StreamsProcess,
    StreamsSettings,
    assign,
)
from assignors.kafka_streams.evaluation import plan_violations
from levelwind_testing.groups.applications import (
    carried_out,
    process,
    processes_by_task,
    tasks_of,
)

FAR = 500_000
TASKS = tasks_of(2, 6)  # twelve stateful tasks
CHOSEN = StreamsSettings(standby_replicas=1, max_warmups=2)


def at_rest(names, chosen=CHOSEN, tasks=TASKS, **fields):
    """Processes that run a settled plan, and the plan."""
    people = [
        process(name, **{key: value(name) for key, value in fields.items()}) for name in names
    ]
    plan = assign(tasks, people, chosen)
    assert not plan.probing
    people = carried_out(people, plan)
    assert assign(tasks, people, chosen).processes == plan.processes
    return people, plan


def to_rest(tasks, people, chosen, *, catch_up=0):
    """The plans from now until probing ends, each carried out, copies caught up between two rounds."""
    plans = [assign(tasks, people, chosen)]
    while plans[-1].probing:
        assert len(plans) < 60
        assert plan_violations(tasks, people, chosen, plans[-1]) == []
        people = carried_out(people, plans[-1], lag=catch_up)
        plans.append(assign(tasks, people, chosen))
    return plans, carried_out(people, plans[-1])


def test_a_dead_process_is_replaced_by_its_standbys_and_nothing_else_moves():
    people, before = at_rest("ABCD")
    ran, followed = processes_by_task(before), processes_by_task(before, "standby")
    for dead in "ABCD":
        alive = [each for each in people if each.id != dead]
        now = processes_by_task(assign(TASKS, alive, CHOSEN))
        assert all(now[task] == name for task, name in ran.items() if name != dead)
        assert all(now[task] == followed[task][0] for task, name in ran.items() if name == dead)


def test_standbys_that_died_are_built_anew_and_the_others_stay():
    people, before = at_rest("ABCD")
    alive = [each for each in people if each.id != "D"]
    after = assign(TASKS, alive, CHOSEN)
    assert plan_violations(TASKS, alive, CHOSEN, after) == []
    for task, (name,) in processes_by_task(before, "standby").items():
        untouched = "D" not in (name, processes_by_task(before)[task])
        if untouched:
            assert processes_by_task(after, "standby")[task] == [name]


def test_a_process_that_comes_back_warms_up_within_the_budget_and_is_handed_its_tasks():
    people, _ = at_rest("ABCD")
    three = [each for each in people if each.id != "D"]
    _, three = to_rest(TASKS, three, CHOSEN)
    back = process("D", lags={task.id: FAR for task in TASKS})
    first = assign(TASKS, [*three, back], CHOSEN)
    assert first.probing
    assert "D" not in processes_by_task(first).values()  # nobody waits for it
    settled = processes_by_task(first)
    assert settled == processes_by_task(assign(TASKS, three, CHOSEN))
    plans, _ = to_rest(TASKS, [*three, back], CHOSEN)
    loads = [sum(name == each for name in processes_by_task(plans[-1]).values()) for each in "ABCD"]
    assert loads == [3, 3, 3, 3]
    assert len(plans) <= (3 + 3) // CHOSEN.max_warmups + 2  # three tasks and three standbys to move
    handed = {task for task, name in processes_by_task(plans[-1]).items() if settled[task] != name}
    assert len(handed) == 3  # what it is due, and no more


def test_a_warm_up_that_is_not_caught_up_goes_on_and_no_other_is_begun():
    people, _ = at_rest("ABC", StreamsSettings(max_warmups=2))
    late = [*people, process("D", lags={task.id: FAR for task in TASKS})]
    chosen = StreamsSettings(max_warmups=2)
    first = assign(TASKS, late, chosen)
    again = assign(TASKS, carried_out(late, first, lag=FAR // 2), chosen)
    assert processes_by_task(again, "warmup") == processes_by_task(first, "warmup")
    assert processes_by_task(again) == processes_by_task(first)
    assert len(processes_by_task(first, "warmup")) == 2


def test_a_warmed_up_task_is_handed_over_and_leaves_where_it_ran():
    people, _ = at_rest("AB", StreamsSettings(max_warmups=4))
    late = [*people, process("C", lags={task.id: FAR for task in TASKS})]
    first = assign(TASKS, late, StreamsSettings(max_warmups=4))
    warmed = processes_by_task(first, "warmup")
    assert len(warmed) == 4
    second = assign(TASKS, carried_out(late, first), StreamsSettings(max_warmups=4))
    assert not second.probing
    assert {task for task, name in processes_by_task(second).items() if name == "C"} == set(warmed)
    assert processes_by_task(second, "warmup") == {}


def test_a_process_that_restarts_with_its_state_gets_its_tasks_back_at_once():
    people, before = at_rest("ABC")
    mine = [task for task, name in processes_by_task(before).items() if name == "A"]
    again = [
        replace(
            each,
            consumers=[replace(c, active=[], standby=[]) for c in each.consumers],
            lags=dict.fromkeys(mine, 5),
        )
        if each.id == "A"
        else each
        for each in people
    ]
    after = assign(TASKS, again, CHOSEN)
    assert {task: processes_by_task(after)[task] for task in mine} == dict.fromkeys(mine, "A")


def test_a_zone_that_is_lost_has_a_standby_of_every_task_elsewhere():
    zone = {name: f"z{number % 3}" for number, name in enumerate("ABCDEF")}
    chosen = StreamsSettings(standby_replicas=1, rack_aware_tags=("zone",))
    people, before = at_rest("ABCDEF", chosen, tags=lambda name: {"zone": zone[name]})
    for lost in ("z0", "z1", "z2"):
        alive = [each for each in people if zone[each.id] != lost]
        after = assign(TASKS, alive, chosen)
        followed = processes_by_task(before, "standby")
        for task, name in processes_by_task(before).items():
            survivor = name if zone[name] != lost else followed[task][0]
            assert processes_by_task(after)[task] == survivor


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_a_second_half_of_processes_is_taken_in_within_moves_over_budget_rounds(budget):
    chosen = StreamsSettings(max_warmups=budget)
    people, _ = at_rest("ABC", chosen)
    late = [*people, *(process(name, lags={task.id: FAR for task in TASKS}) for name in "DEF")]
    plans, _ = to_rest(TASKS, late, chosen)
    moves = 6
    assert len(plans) <= -(-moves // budget) + 1
    loads = [
        sum(name == each for name in processes_by_task(plans[-1]).values()) for each in "ABCDEF"
    ]
    assert loads == [2] * 6


def test_threads_keep_their_tasks_when_another_process_leaves():
    people = [process(name, threads=3) for name in "ABC"]
    plan = assign(TASKS, people, CHOSEN)
    people = carried_out(people, plan)
    after = assign(TASKS, people[:2], CHOSEN)
    for name in "AB":
        for consumer, mine in plan.processes[name].items():
            assert set(mine.active) <= set(after.processes[name][consumer].active)


def test_a_thread_that_ends_gives_its_tasks_to_its_own_process():
    people = carried_out(
        [process("A", threads=3)], assign(TASKS, [process("A", threads=3)], CHOSEN)
    )
    fewer = [StreamsProcess(id="A", consumers=people[0].consumers[:2])]
    plan = assign(TASKS, fewer, CHOSEN)
    assert [len(mine.active) for mine in plan.processes["A"].values()] == [6, 6]
    for consumer in fewer[0].consumers:
        assert set(consumer.active) <= set(plan.processes["A"][consumer.id].active)

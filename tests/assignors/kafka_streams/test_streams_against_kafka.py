"""The same applications through the group coordinator's streams assignor.

Kafka's has no racks, lags and warm-ups, so here no process has anything to restore and racks do
not count. A fixed seed finds the same every time; `make rare` draws a further one and prints it.
"""

from collections import Counter
from random import Random

import numpy as np
import pytest

from levelwind.assignors.kafka_streams import (
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Task,
    assign,
)
from levelwind.assignors.kafka_streams.quotas import task_quotas
from levelwind_testing.drawn_seeds import fixed_and_fresh_seeds
from levelwind_testing.groups.applications import apply_plan
from levelwind_testing.groups.plan_violations import plan_violations
from levelwind_testing.kafka.streams_oracle import StreamsCoordinator

pytestmark = pytest.mark.integration
seeds = fixed_and_fresh_seeds(fixed=200, fresh=600)


@pytest.fixture(scope="module")
def coordinator_of_streams(kafka):
    return StreamsCoordinator(kafka)


def tasks_at_random(random, *, mixed):
    """Subtopologies of one kind, or of both; nothing to restore anywhere."""
    all_stateful = random.random() < 0.7
    return [
        Task(
            subtopology=str(subtopology),
            partition=partition,
            stateful=(random.random() < 0.5) if mixed and not partition else all_stateful,
            end_offset_sum=0,
        )
        for subtopology in range(random.randint(1, 4))
        for partition in range(random.randint(1, 9))
    ]


def of_one_kind(tasks):
    """All tasks of a subtopology are what its first one is."""
    kind = {task.subtopology: task.stateful for task in tasks if not task.partition}
    return [
        Task(
            subtopology=t.subtopology,
            partition=t.partition,
            stateful=kind[t.subtopology],
            end_offset_sum=0,
        )
        for t in tasks
    ]


def fresh(name, threads):
    return StreamsProcess(
        id=name, consumers=[StreamsConsumer(id=f"{name}-{n}") for n in range(threads)]
    )


def changed(random, processes):
    """Some leave, some come, some have a thread less."""
    stay = [each for each in processes if random.random() < 0.8] or processes[:1]
    come = [fresh(f"n{n}", random.randint(1, 3)) for n in range(random.randint(0, 2))]
    return stay + come


def plan_and_apply(tasks, processes, settings):
    return apply_plan(processes, assign(tasks, processes, settings))


def settings_for(random):
    return StreamsSettings(standby_replicas=random.randint(0, 2), rack_strategy="min_traffic")


def active_by_process(processes):
    return {
        each.id: [task for consumer in each.consumers for task in consumer.active]
        for each in processes
    }


def copies_by_process(processes):
    return {
        each.id: [
            task for consumer in each.consumers for task in (*consumer.active, *consumer.standby)
        ]
        for each in processes
    }


def loads(processes, held):
    """The fewest tasks per thread of a process, and then the most: less is more even."""
    loads_per_thread = [len(held[each.id]) / len(each.consumers) for each in processes]
    return -min(loads_per_thread), max(loads_per_thread)


def shared_by_the_least_loaded(processes, held, count):
    """Whether each process has what Kafka's rule gives it: the next task to the least loaded."""
    quotas = task_quotas(
        count,
        np.zeros(len(processes), dtype=np.int64),
        np.array([len(each.consumers) for each in processes]),
    )
    more = np.array([len(held[each.id]) for each in processes]) - quotas.guaranteed
    return bool((more >= 0).all() and (more <= quotas.tied).all())


def thread_loads(processes):
    return sorted(
        (len(consumer.active) for each in processes for consumer in each.consumers), reverse=True
    )


def kept(before, after):
    held = active_by_process(before)
    now = active_by_process(after)
    return sum(task in held.get(name, ()) for name, tasks in now.items() for task in tasks)


def kept_standbys(before, after):
    held = {each.id: {t for c in each.consumers for t in c.standby} for each in before}
    return sum(
        t in held.get(each.id, ()) for each in after for c in each.consumers for t in c.standby
    )


def standby_count(processes):
    return Counter(
        task for each in processes for consumer in each.consumers for task in consumer.standby
    )


@pytest.mark.parametrize("mixed", [False, True], ids=["one kind", "stateful and stateless"])
def test_from_scratch_it_is_as_even_and_as_covered_as_kafkas(coordinator_of_streams, seeds, mixed):
    for seed in seeds:
        random = Random(seed)
        tasks = of_one_kind(tasks_at_random(random, mixed=mixed))
        processes = [fresh(f"p{n}", random.randint(1, 3)) for n in range(random.randint(1, 6))]
        settings = settings_for(random)
        plan = assign(tasks, processes, settings)
        assert plan_violations(tasks, processes, settings, plan) == [], f"seed {seed}"
        after_ours = apply_plan(processes, plan)
        after_kafkas = coordinator_of_streams.assign(tasks, processes, settings)
        assert thread_loads(after_ours) <= thread_loads(after_kafkas), f"seed {seed}"
        assert loads(after_ours, active_by_process(after_ours)) <= loads(
            after_kafkas, active_by_process(after_kafkas)
        ), f"seed {seed}"
        assert standby_count(after_ours).total() >= standby_count(after_kafkas).total(), (
            f"seed {seed}"
        )


def test_after_a_change_it_keeps_no_less_and_is_as_even(
    coordinator_of_streams, seeds, note_in_summary
):
    """Compared one by one where Kafka's answer is as even as its own rule.

    Kafka also lets threads below a quota keep more.
    """
    figures = Counter()
    for seed in seeds:
        random = Random(seed)
        tasks = of_one_kind(tasks_at_random(random, mixed=False))
        settings = settings_for(random)
        processes = [fresh(f"p{n}", random.randint(1, 3)) for n in range(random.randint(1, 6))]
        before = changed(random, coordinator_of_streams.assign(tasks, processes, settings))
        after_ours = plan_and_apply(tasks, before, settings)
        after_kafkas = coordinator_of_streams.assign(tasks, before, settings)
        assert thread_loads(after_ours) <= thread_loads(after_kafkas), f"seed {seed}"
        even = [loads(each, active_by_process(each)) for each in (after_ours, after_kafkas)]
        assert even[0][0] <= even[1][0], f"seed {seed}: {even}"
        figures["fewest a thread more"] += even[0][0] < even[1][0]
        figures["most a thread less"] += even[0][1] < even[1][1]
        figures["most a thread more"] += even[0][1] > even[1][1]
        stayed = kept(before, after_ours), kept(before, after_kafkas)
        figures["kept"] += stayed[0]
        figures["kept by Kafka"] += stayed[1]
        if shared_by_the_least_loaded(after_kafkas, active_by_process(after_kafkas), len(tasks)):
            figures["compared one by one"] += 1
            assert stayed[0] >= stayed[1], f"seed {seed}: {stayed}"
        assert standby_count(after_ours).total() >= standby_count(after_kafkas).total(), (
            f"seed {seed}"
        )
        figures["standbys kept"] += kept_standbys(before, after_ours)
        figures["standbys kept by Kafka"] += kept_standbys(before, after_kafkas)
        total = [loads(each, copies_by_process(each))[1] for each in (after_ours, after_kafkas)]
        figures["copies evener"] += total[0] < total[1]
        figures["copies less even"] += total[0] > total[1]
    note_in_summary(", ".join(f"{name} {count}" for name, count in figures.items()))


def test_nothing_changed_and_nothing_moves_in_either(coordinator_of_streams, seeds):
    for seed in seeds:
        random = Random(seed)
        tasks = of_one_kind(tasks_at_random(random, mixed=True))
        settings = settings_for(random)
        processes = [fresh(f"p{n}", random.randint(1, 3)) for n in range(random.randint(1, 6))]
        first = plan_and_apply(tasks, processes, settings)
        assert plan_and_apply(tasks, first, settings) == first, f"seed {seed}"

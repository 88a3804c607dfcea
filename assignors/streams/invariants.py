"""What makes a plan correct, said once: the tests hold every plan to it, and so may who carries one out."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from assignors.streams.model import Process, Settings, Task
from assignors.streams.plan import Plan


def violations(
    tasks: Iterable[Task], processes: Iterable[Process], settings: Settings, plan: Plan
) -> list[str]:
    """Everything that is wrong with a plan, in words; empty when it is right."""
    known = {task.id: task for task in tasks}
    people = {process.id: process for process in processes}
    wrong = _strangers(known, people, plan)
    active: dict[str, list[str]] = defaultdict(list)
    others: dict[str, list[str]] = defaultdict(list)
    standbys: Counter[str] = Counter()
    warmups = 0
    for process, _, role, name in plan.rows():
        (active if role == "active" else others)[name].append(process)
        standbys[name] += role == "standby"
        warmups += role == "warmup"
    for name, task in known.items() if people else ():
        if len(active[name]) != 1:
            wrong.append(f"task {name!r}: active on {active[name]}; it must be on one process")
        copies = active[name] + others[name]
        if len(set(copies)) < len(copies):
            wrong.append(f"task {name!r}: two copies on one process: {copies}")
        wanted = min(settings.standby_replicas, len(people) - 1) if task.stateful else 0
        if standbys[name] != wanted:
            wrong.append(f"task {name!r}: {standbys[name]} standbys where {wanted} are wanted")
        if not task.stateful and others[name]:
            wrong.append(f"task {name!r}: has no state, yet copies on {others[name]}")
    if warmups > settings.max_warmups:
        wrong.append(f"{warmups} warm-ups are more than the budget of {settings.max_warmups}")
    return wrong


def _strangers(tasks: dict[str, Task], processes: dict[str, Process], plan: Plan) -> list[str]:
    wrong = [f"task {task!r}: is unknown" for _, _, _, task in plan.rows() if task not in tasks]
    if plan.processes.keys() != processes.keys():
        return [*wrong, f"processes: the plan is for {sorted(plan.processes)}, not {sorted(processes)}"]
    for name, process in processes.items():
        consumers = {consumer.id for consumer in process.consumers}
        if plan.processes[name].keys() != consumers:
            wrong.append(
                f"process {name!r}: the plan is for {sorted(plan.processes[name])}, not {sorted(consumers)}"
            )
    return wrong

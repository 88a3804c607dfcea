"""A `streams` problem as a line of JSON.

```
{"id": "s1", "strategy": "streams",
 "topics": {"orders": {"partitions": 2, "replica_racks": [["a"], ["b"]]},
            "counts-changelog": {"partitions": 2}},
 "tasks": {"0": {"sources": ["orders"], "changelogs": ["counts-changelog"],
                 "end_offset_sums": [900, 1000]}},
 "processes": {"A": {"rack": "a", "tags": {"zone": "z1"},
                     "consumers": {"A-1": {"active": ["0_0"], "standby": []}},
                     "lags": {"0_0": 0}, "offset_sums": {"0_1": 10}}},
 "options": {"standby_replicas": 1}, "repeat": 1}
```
`tasks` are given by subtopology: it has as many as its largest source has partitions. A subtopology
of unknown topics may have `"partitions": 2, "stateful": true` instead. `consumers` may be a number
of threads. Options are `StreamsSettings`.

The answer: `assignment` by process, consumer and role; `probing`, with the copies that are
`awaited`; `warnings`; `score`; times.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from time import perf_counter_ns
from typing import Any

from levelwind.assignors.json_fields import json_list, json_object, run_times
from levelwind.assignors.kafka_streams.application import Application
from levelwind.assignors.kafka_streams.assign import plan_application
from levelwind.assignors.kafka_streams.evaluation import score_plan
from levelwind.assignors.kafka_streams.task_model import (
    SourceTopic,
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Subtopology,
    Task,
    TaskPlan,
)
from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.problem.validation import MAX_PARTITIONS

MAX_THREADS = 100_000
"""Threads of a process owner consumers are given as a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsProblem:
    """A parsed line."""

    tasks: tuple[Task, ...]
    processes: tuple[StreamsProcess, ...]
    settings: StreamsSettings
    repeat: int
    """Number of times that the plan is computed, to measure the time that it takes."""


def parse_streams_problem(fields: Mapping[str, Any], repeat: int = 1) -> StreamsProblem:
    """Parse a problem from the fields of a line.

    Raises:
        ProblemError: the message names the field at fault.
    """
    topics = {
        name: _source(name, each)
        for name, each in json_object("topics", fields.get("topics") or {}).items()
    }
    tasks = [
        task
        for name, each in json_object("tasks", fields.get("tasks")).items()
        for task in _subtopology(name, each, topics)
    ]
    return StreamsProblem(
        tasks=tuple(tasks),
        processes=tuple(
            _process(name, each)
            for name, each in json_object("processes", fields.get("processes")).items()
        ),
        settings=_settings(json_object("options", fields.get("options") or {})),
        repeat=repeat,
    )


def solve_streams_problem(problem: StreamsProblem) -> dict[str, Any]:
    """Return the answer with its times: the plan alone, and from names to names."""
    plans: list[float] = []
    totals: list[float] = []
    for _ in range(problem.repeat):
        started = perf_counter_ns()
        app = Application.build(problem.tasks, problem.processes, problem.settings)
        built = perf_counter_ns()
        plan = plan_application(app, problem.settings)
        done = perf_counter_ns()
        plans.append((done - built) / 1000)
        totals.append((done - started) / 1000)
    return _answer(problem, plan) | run_times(plans, totals)


def _answer(problem: StreamsProblem, plan: TaskPlan) -> dict[str, Any]:
    return {
        "assignment": {
            process.id: {
                consumer.id: {
                    role: list(tasks)
                    for role, tasks in asdict(plan.processes[process.id][consumer.id]).items()
                }
                for consumer in process.consumers
            }
            for process in problem.processes
        },
        "probing": plan.probing,
        "awaited": [asdict(each) for each in plan.awaited],
        "warnings": list(plan.warnings),
        "score": score_plan(problem.tasks, problem.processes, plan).as_json(),
    }


def _source(name: str, value: Any) -> SourceTopic:
    fields = json_object(f"topic {name!r}", value)
    partitions = _count(f"topic {name!r}: partitions", fields.get("partitions"), MAX_PARTITIONS)
    racks = fields.get("replica_racks")
    if racks is not None:
        racks = [
            _names(f"topic {name!r}: replica_racks", each)
            for each in json_list(f"topic {name!r}: replica_racks", racks)
        ]
        if len(racks) != partitions:
            raise ProblemError(
                f"topic {name!r}: replica_racks has {len(racks)} entries"
                f" for {partitions} partitions; give one for each"
            )
    return SourceTopic(partitions=partitions, replica_racks=racks)


def _subtopology(name: str, value: Any, topics: Mapping[str, SourceTopic]) -> list[Task]:
    fields = json_object(f"tasks of {name!r}", value)
    stateful = fields.get("stateful")
    if stateful is not None and not isinstance(stateful, bool):
        raise ProblemError(f"tasks of {name!r}: stateful must be true or false, not {stateful!r}")
    sums = fields.get("end_offset_sums")
    sources = _names(f"tasks of {name!r}: sources", fields.get("sources") or [])
    if not sources:
        if "partitions" not in fields:
            raise ProblemError(
                f"tasks of {name!r}: name its sources among the topics, or give its partitions"
            )
        stand_in = f"the source of {name}"
        partitions = _count(f"tasks of {name!r}: partitions", fields["partitions"], MAX_PARTITIONS)
        topics = {**topics, stand_in: SourceTopic(partitions=partitions)}
        sources = [stand_in]
    return Subtopology(
        id=name,
        sources=sources,
        changelogs=_names(f"tasks of {name!r}: changelogs", fields.get("changelogs") or []),
        stateful=stateful,
        end_offset_sums=None
        if sums is None
        else json_list(f"tasks of {name!r}: end_offset_sums", sums),
    ).tasks(topics)


def _process(name: str, value: Any) -> StreamsProcess:
    fields = json_object(f"process {name!r}", value)
    return StreamsProcess(
        id=name,
        rack=fields.get("rack"),
        tags=json_object(f"process {name!r}: tags", fields.get("tags") or {}),
        consumers=_consumers(name, fields.get("consumers")),
        lags=json_object(f"process {name!r}: lags", fields.get("lags") or {}),
        offset_sums=json_object(f"process {name!r}: offset_sums", fields.get("offset_sums") or {}),
    )


def _consumers(process: str, value: Any) -> list[StreamsConsumer]:
    if isinstance(value, int):
        count = _count(f"process {process!r}: consumers", value, MAX_THREADS)
        return [StreamsConsumer(id=f"{process}-{number}") for number in range(1, count + 1)]
    consumers = []
    for name, each in json_object(f"process {process!r}: consumers", value).items():
        owner = f"process {process!r}: consumer {name!r}"
        fields = json_object(owner, each)
        consumers.append(
            StreamsConsumer(
                id=name,
                active=_names(f"{owner}: active", fields.get("active") or []),
                standby=_names(f"{owner}: standby", fields.get("standby") or []),
            )
        )
    return consumers


def _settings(options: Mapping[str, Any]) -> StreamsSettings:
    names = [field.name for field in dataclass_fields(StreamsSettings)]
    given = {name: options[name] for name in names if name in options}
    if "rack_aware_tags" in given:
        given["rack_aware_tags"] = tuple(_names("option rack_aware_tags", given["rack_aware_tags"]))
    return StreamsSettings(**given)


def _names(what: str, value: Any) -> list[str]:
    for name in json_list(what, value):
        if not isinstance(name, str):
            raise ProblemError(f"{what}: must be a list of strings, but has {name!r}")
    return list(value)


def _count(what: str, value: Any, maximum: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
        raise ProblemError(f"{what}: must be an integer from 0 to {maximum}, not {value!r}")
    return value

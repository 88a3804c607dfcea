"""Problems and answers as JSON lines, to try strategies on any problem.

Guarantees: each line gives one answer for each of its strategies. An invalid line gives an error of
its own, and the next line is solved. Unknown fields are ignored, so that one file serves several
tools.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, NoReturn

from levelwind.assignors.json_fields import json_list, json_object, run_times
from levelwind.assignors.kafka_streams.json_tasks import (
    parse_streams_problem,
    solve_streams_problem,
)
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.registry import CertifiedStrategy, certified_strategy
from levelwind.assignors.solver import SolverMissingError

MAX_LINE_LENGTH = 256 * 1024 * 1024
"""Characters or bytes: far above a million partitions with racks and lags."""

MAX_REPEAT = 10_000

STREAMS = "streams"
"""Strategy of Kafka Streams problems: tasks and processes instead of topics and members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonProblem:
    """Problem of one line, with the strategies that are to solve it."""

    id: Any
    """Identity that the answers repeat; None without one."""
    strategies: tuple[Any, ...]
    """Names of strategies as given, not yet checked."""
    topics: dict[str, Topic]
    """Topics by name."""
    members: list[Member]
    """Members in the order of the line, which the answers keep."""
    repeat: int
    """Number of runs, for timing."""
    options: dict[str, Any]
    """Options of the strategies, not yet checked; each strategy takes those that it knows."""


def solve_lines(lines: Iterable[str | bytes]) -> Iterator[str]:
    """Solve the problem of each line; yield its answers as JSON. Blank lines are skipped."""
    for line in lines:
        if line.strip():
            for answer in _answers(line):
                yield json.dumps(answer, separators=(",", ":"))


def _answers(line: str | bytes) -> Iterator[dict[str, Any]]:
    """Answers of one line, or its error; each strategy that fails has an error of its own."""
    identity: Any = None
    try:
        fields = parse_line(line)
        identity = _identity(fields)
        strategies = _strategies(fields)
        # A line with tasks alone has neither members nor topics to read.
        problem = None if all(name == STREAMS for name in strategies) else parse_problem(fields)
    except ProblemError as error:
        yield {"id": identity, "error": str(error)}
        return
    for name in strategies:
        try:
            if problem is None or name == STREAMS:
                answer = solve_streams_problem(parse_streams_problem(fields, _repeat(fields)))
            else:
                answer = solve_problem(problem, certified_strategy(name, problem.options))
            yield {"id": identity, "strategy": name} | answer
        except (ProblemError, SolverMissingError) as error:
            yield {"id": identity, "strategy": name, "error": str(error)}


def parse_line(line: str | bytes) -> dict[str, Any]:
    """Parse the JSON object of a line.

    Raises:
        ProblemError: the line is too long, not JSON, or not an object.
    """
    if len(line) > MAX_LINE_LENGTH:
        raise ProblemError(
            f"line: {len(line)} characters are more than {MAX_LINE_LENGTH}; cut the problem"
        )
    try:
        fields = json.loads(line, parse_constant=_reject_constant)
    except ProblemError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"line: not valid JSON: {error}") from error
    return json_object("line", fields)


def parse_problem(fields: Mapping[str, Any]) -> JsonProblem:
    """Read a problem from the fields of a line.

    Raises:
        ProblemError: a field is invalid; the message names it and its topic or member.
    """
    lags = json_object("lags", fields.get("lags") or {})
    rates = json_object("rates", fields.get("rates") or {})
    traffic = json_object("bytes", fields.get("bytes") or {})
    return JsonProblem(
        id=_identity(fields),
        strategies=_strategies(fields),
        topics={
            name: _topic(name, value, lags.get(name), rates.get(name), traffic.get(name))
            for name, value in json_object("topics", fields.get("topics")).items()
        },
        members=[
            _member(name, value)
            for name, value in json_object("members", fields.get("members")).items()
        ],
        repeat=_repeat(fields),
        options=json_object("options", fields.get("options") or {}),
    )


def solve_problem(problem: JsonProblem, strategy: CertifiedStrategy) -> dict[str, Any]:
    """Solve a problem by one strategy: its plan, score and times as a JSON object."""
    plan_micros: list[float] = []
    total_micros: list[float] = []
    for _ in range(problem.repeat):
        started = perf_counter_ns()
        group = Group.build(problem.topics, problem.members)
        built = perf_counter_ns()
        assignment, certificate = strategy(group)
        planned = perf_counter_ns()
        names = assignment.to_names(group)
        withheld = assignment.withheld_names(group)
        done = perf_counter_ns()
        plan_micros.append((planned - built) / 1000)
        total_micros.append((done - started) / 1000)
    return {
        "assignment": _in_problem_order(problem, names),
        "withheld": _in_problem_order(problem, withheld),
        "score": score(group, assignment).as_json(),
        **({} if certificate is None else {"certificate": certificate.as_json()}),
    } | run_times(plan_micros, total_micros)


def _in_problem_order(
    problem: JsonProblem, names: dict[str, dict[str, list[int]]]
) -> dict[str, dict[str, list[int]]]:
    """Reorder an assignment by the members of the line."""
    return {member.id: names[member.id] for member in problem.members if member.id in names}


def _strategies(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    given = fields.get("strategy", [])
    strategies = tuple(given) if isinstance(given, list) else (given,)
    if not strategies:
        raise ProblemError("strategy: name one, or a list of them")
    return strategies


def _repeat(fields: Mapping[str, Any]) -> int:
    repeat = fields.get("repeat", 1)
    if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= MAX_REPEAT:
        raise ProblemError(f"repeat: must be an integer from 1 to {MAX_REPEAT}, not {repeat!r}")
    return repeat


def _identity(fields: Mapping[str, Any]) -> str | float | None:
    """Identity of a line; None unless it is a string or a finite number."""
    identity = fields.get("id")
    valid = isinstance(identity, str | int) or (
        isinstance(identity, float) and math.isfinite(identity)
    )
    return identity if valid else None


def _topic(name: str, value: Any, lags: Any, rates: Any, traffic: Any) -> Topic:
    fields = json_object(f"topic {name!r}", value)
    if "partitions" not in fields:
        raise ProblemError(f"topic {name!r}: partitions is missing; say how many it has")
    return Topic(
        partitions=fields["partitions"],
        replica_racks=_list_or_none(f"topic {name!r}: replica_racks", fields.get("replica_racks")),
        lags=_list_or_none(f"topic {name!r}: lags", lags),
        rates=_list_or_none(f"topic {name!r}: rates", rates),
        bytes=_list_or_none(f"topic {name!r}: bytes", traffic),
    )


def _member(name: str, value: Any) -> Member:
    fields = json_object(f"member {name!r}", value)
    topics = fields.get("topics")
    if topics != "*" and not isinstance(topics, list):
        raise ProblemError(
            f'member {name!r}: topics must be a list of names or "*", not {topics!r}'
        )
    owned = fields.get("owned")
    if owned is not None:
        for topic, partitions in json_object(f"member {name!r}: owned", owned).items():
            _list_or_none(f"member {name!r}: owned partitions of {topic!r}", partitions)
    optional = ("rack", "instance_id", "container", "generation", "priority", "capacity", "speed")
    options: dict[str, Any] = {
        field: fields[field] for field in optional if fields.get(field) is not None
    }
    return Member(id=name, topics=topics, owned=owned, **options)


def _list_or_none(where: str, value: Any) -> list[Any] | None:
    return None if value is None else json_list(where, value)


def _reject_constant(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python's parser accepts and JSON does not have."""
    raise ProblemError(f"line: {constant} is no JSON number")

"""`levelwind explain`: why a member owns a partition, for problems of a file or for a live group.

For a problem, the plan of `optimal` is explained; for a live group, what its members own now, so
that an operator sees what another owner would gain or lose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.assignors.json_problems import parse_line, parse_problem
from levelwind.assignors.optimal import explain, optimal_plan
from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.solver import SolverMissingError
from levelwind.daemon.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from levelwind.assignors.optimal import Certificate, Explanation
    from levelwind.assignors.protocol.partition_ranges import TopicPartition


def parse_partition(text: str) -> TopicPartition:
    """Read the partition that is asked for; raises `ConfigurationError` for any other text."""
    try:
        return ranges.parse_partition(text)
    except WireError as error:
        raise ConfigurationError(f"--partition: {error}") from None


def explain_lines(
    lines: Iterable[str | bytes], partition: tuple[str, int]
) -> Iterator[tuple[Explanation, Certificate | None]]:
    """Plan each problem and explain the partition's owner; blank lines are skipped.

    Raises:
        NotFoundError: a problem does not have the partition.
        ConfigurationError: a problem is invalid; the message names the line and the field.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            problem = parse_problem(parse_line(line) | {"strategy": "optimal"})
            group = Group.build(problem.topics, problem.members)
            plan = optimal_plan(group, **problem.options)
        except (ProblemError, SolverMissingError) as wrong:
            raise ConfigurationError(f"line {number}: {wrong}") from wrong
        yield _explained(group, plan.assignment, partition, problem.options), plan.certificate


def explain_group(
    group: Group, partition: tuple[str, int], options: Mapping[str, Any]
) -> Explanation:
    """Explain the present owner of a live group's partition, under the group's options.

    Raises:
        NotFoundError: the group does not have the partition.
    """
    return _explained(group, Assignment.held(group), partition, options)


def _explained(
    group: Group, assignment: Assignment, partition: tuple[str, int], options: Mapping[str, Any]
) -> Explanation:
    try:
        return explain(group, assignment, *partition, **options)
    except ProblemError as wrong:
        raise NotFoundError(str(wrong)) from wrong

"""Plan a group in one call: topics, members and the name of a strategy in, an assignment out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from levelwind.assignors.optimal import Certificate
from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.problem.topic_index import TopicIndex
from levelwind.assignors.registry import OPTIONS, certified_strategy, strategy_named


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """An assignment with the group that gives its columns their meaning."""

    group: Group
    """The problem in columns, as `violations`, `score` and `compare` expect it."""
    assignment: Assignment
    """The answer of the strategy."""
    certificate: Certificate | None
    """Bounds on how good the assignment is; None unless the strategy is `optimal`."""

    def to_names(self) -> dict[str, dict[str, list[int]]]:
        """Every member's topics and partitions, ascending; {} for a member without any."""
        return self.assignment.to_names(self.group)

    def withheld_names(self) -> dict[str, dict[str, list[int]]]:
        """Partitions that members get in the next round, once their present owner revoked them."""
        return self.assignment.withheld_names(self.group)


def plan(
    topics: Mapping[str, Topic] | TopicIndex,
    members: Iterable[Member],
    strategy: str,
    **options: Any,
) -> GroupPlan:
    """Assign the partitions of the topics to the members.

    Args:
        topics: the topics by name, or a `TopicIndex` that is kept between plans.
        members: the members of the group; their order does not matter.
        strategy: a name of `STRATEGIES`.
        options: options of the strategy, such as `max_count_skew` of `lag-global`.

    Raises:
        ProblemError: a topic, a member, the strategy's name or an option is invalid; the message
            names the field and what is expected.
        SolverMissingError: the group needs OR-tools, which is not installed.
    """
    strategy_named(strategy)
    _check_option_names(strategy, options)
    solve = certified_strategy(strategy, options)
    group = Group.build(topics, members)
    assignment, certificate = solve(group)
    return GroupPlan(group=group, assignment=assignment, certificate=certificate)


def _check_option_names(strategy: str, options: Mapping[str, Any]) -> None:
    """Refuse options that the strategy does not take; name the nearest one that it takes."""
    accepted = OPTIONS.get(strategy, {})
    for option in options:
        if option not in accepted:
            nearest = get_close_matches(option, accepted, n=1, cutoff=0.0)
            hint = f"the nearest is {nearest[0]!r}" if nearest else "it takes none"
            raise ProblemError(f"option {option!r} is unknown to strategy {strategy!r}; {hint}")

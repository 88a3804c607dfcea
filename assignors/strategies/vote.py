"""Vote of a group's members on their strategy.

Source: the vote of Kafka's classic group protocol.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from levelwind.assignors.problem.inputs import ProblemError


class InconsistentGroupProtocolError(ProblemError):
    """No strategy is offered by every member."""


def elect_strategy(offers: Iterable[Sequence[str]]) -> str:
    """Name of the strategy that all members offer and most prefer.

    Guarantees: each member offers names by preference and votes for the first of its names that all
    others offer as well.
    Ties: the name that sorts first.

    Raises:
        InconsistentGroupProtocolError: no strategy is offered by all, or there is no member.
    """
    offered = [tuple(offer) for offer in offers]
    common = set(offered[0]).intersection(*offered[1:]) if offered else set()
    if not common:
        counts = Counter(name for offer in offered for name in set(offer))
        offered_names = (
            ", ".join(f"{name} by {count}" for name, count in sorted(counts.items())) or "nothing"
        )
        raise InconsistentGroupProtocolError(
            f"strategies: none is offered by all {len(offered)} members "
            f"(offered: {offered_names}); give them one in common"
        )
    votes = Counter(next(name for name in offer if name in common) for offer in offered)
    return min(votes, key=lambda name: (-votes[name], name))

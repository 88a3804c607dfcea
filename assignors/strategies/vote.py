"""The strategy that a group agrees on.

Source: the vote of Kafka's classic group protocol.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from assignors.problem.inputs import ProblemError


class InconsistentGroupProtocolError(ProblemError):
    """There is no strategy that every member offers."""


def elect_strategy(offers: Iterable[Sequence[str]]) -> str:
    """The strategy that all members offer and most prefer.

    Law: each member offers names by preference and votes for the first of its names that all others offer too.
    Ties: the name that comes first.

    Raises:
        InconsistentGroupProtocolError: nothing is offered by all, or there is no member.
    """
    offered = [tuple(offer) for offer in offers]
    common = set(offered[0]).intersection(*offered[1:]) if offered else set()
    if not common:
        counts = Counter(name for offer in offered for name in set(offer))
        offered_names = (
            ", ".join(f"{name} by {count}" for name, count in sorted(counts.items())) or "nothing"
        )
        raise InconsistentGroupProtocolError(
            f"strategies: none is offered by all {len(offered)} members (offered: {offered_names}); give them one in common"
        )
    votes = Counter(next(name for name in offer if name in common) for offer in offered)
    return min(votes, key=lambda name: (-votes[name], name))

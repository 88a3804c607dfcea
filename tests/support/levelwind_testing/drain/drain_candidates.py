"""Candidates of `make bench-drain`: ways to assign partitions, Kafka's own and levelwind's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Mode: TypeAlias = Literal["managed", "published", "proxy"]
"""How members follow levelwind's plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainCandidate:
    """A way to assign partitions."""

    name: str
    strategy: str
    """Strategy of levelwind that the replay plans with; for Kafka's own, the same algorithm."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of the members' client."""
    java: bool = False
    """Whether that is Kafka's own consumer in Java instead of librdkafka's."""
    mode: Mode | None = None
    """How members follow levelwind; None: Kafka's own assignor."""
    static: bool = False
    """Whether the members of a classic group have a `group.instance.id`."""
    eager: bool = False
    """Whether all members give up everything in a rebalance."""


CANDIDATES: Mapping[str, DrainCandidate] = {
    candidate.name: candidate
    for candidate in (
        DrainCandidate(
            name="cooperative-sticky",
            strategy="cooperative-sticky",
            client={"partition.assignment.strategy": "cooperative-sticky"},
        ),
        DrainCandidate(
            name="cooperative-static",
            strategy="cooperative-sticky",
            client={"partition.assignment.strategy": "cooperative-sticky"},
            static=True,
        ),
        DrainCandidate(
            name="range",
            strategy="range",
            client={"partition.assignment.strategy": "range"},
            eager=True,
        ),
        DrainCandidate(
            name="uniform",
            strategy="uniform",
            client={"group.protocol": "consumer", "group.remote.assignor": "uniform"},
        ),
        DrainCandidate(name="lag", strategy="lag", mode="managed"),
        DrainCandidate(name="levelwind", strategy="optimal", mode="managed"),
        DrainCandidate(
            name="published", strategy="optimal", mode="published", static=True, eager=True
        ),
        DrainCandidate(
            name="published-cooperative", strategy="optimal", mode="published", static=True
        ),
        DrainCandidate(
            name="proxied",
            strategy="optimal",
            client={"partition.assignment.strategy": "range"},
            mode="proxy",
            eager=True,
        ),
        DrainCandidate(
            name="proxied-cooperative",
            strategy="optimal",
            client={"partition.assignment.strategy": "cooperative-sticky"},
            mode="proxy",
        ),
        DrainCandidate(
            name="proxied-consumer",
            strategy="optimal",
            client={"group.protocol": "consumer"},
            mode="proxy",
        ),
        DrainCandidate(
            name="proxied-java",
            strategy="optimal",
            client={"group.protocol": "consumer"},
            java=True,
            mode="proxy",
        ),
    )
}

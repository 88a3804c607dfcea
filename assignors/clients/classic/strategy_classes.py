"""The assignor of each strategy, without a Kafka client; the shells give them one.

Protocol names are Kafka's where the algorithm is Kafka's (`range`, `roundrobin`, `sticky`,
`cooperative-sticky`), so that members of any client can share a group. The others are names of
`levelwind.assignors.registry`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from levelwind.assignors.clients.classic.classic_assignor import ClassicAssignor, LagAwareAssignor
from levelwind.assignors.protocol.kafka.consumer_protocol import NEWEST
from levelwind.assignors.protocol.kafka.sticky_user_data import DEFAULT_PRIORITY
from levelwind.assignors.registry import OPTIONS, strategy_named
from levelwind.assignors.solver import SolverMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.clients.classic.lag_source import LagSource


class RangeAssignor(ClassicAssignor):
    """Kafka's `range`: topics in consecutive ranges, rack-local where members have racks."""

    name: ClassVar[str] = "range"


class ServerRangeAssignor(ClassicAssignor):
    """`server-range`: the broker's `range` of KIP-848, regardless of racks."""

    name: ClassVar[str] = "server-range"


class RoundRobinAssignor(ClassicAssignor):
    """Kafka's `roundrobin`: all partitions dealt round the members."""

    name: ClassVar[str] = "roundrobin"


class TopicRoundRobinAssignor(ClassicAssignor):
    """`topic-roundrobin`: whole topics to one member after another (KIP-874)."""

    name: ClassVar[str] = "topic-roundrobin"


class FairAssignor(ClassicAssignor):
    """`fair`: each partition to its least loaded reader (KIP-49)."""

    name: ClassVar[str] = "fair"


class StickyAssignor(ClassicAssignor):
    """Kafka's `sticky`: balanced, rack-local, and with the fewest moves."""

    name: ClassVar[str] = "sticky"
    reads_claims: ClassVar[bool] = True


class CooperativeStickyAssignor(ClassicAssignor):
    """Kafka's `cooperative-sticky`: `sticky`, while members keep what they do not lose."""

    name: ClassVar[str] = "cooperative-sticky"
    cooperative: ClassVar[bool] = True
    reads_claims: ClassVar[bool] = True


class UniformAssignor(ClassicAssignor):
    """`uniform`: the broker's assignor of KIP-848, rack-local besides."""

    name: ClassVar[str] = "uniform"
    reads_claims: ClassVar[bool] = True


class FailoverAssignor(ClassicAssignor):
    """`failover`: all partitions to the member of the highest priority, the others stand by."""

    name: ClassVar[str] = "failover"

    def __init__(
        self,
        *,
        priority: int = DEFAULT_PRIORITY,
        rack: str | None = None,
        version: int = NEWEST,
    ) -> None:
        """Configure the member.

        Args:
            priority: rank of the member, an int32; the highest number is preferred, and a member
                without one has the highest possible.
            rack: see `ClassicAssignor`.
            version: see `ClassicAssignor`.

        Raises:
            ValueError: the priority is no int32.
        """
        super().__init__(rack=rack, version=version)
        if not -(2**31) <= priority < 2**31:
            raise ValueError(f"priority: must fit an int32, not {priority!r}")
        self._rank = priority

    def _priority(self) -> int:
        return self._rank


class LagAssignor(LagAwareAssignor):
    """`lag`: each topic's lag spread evenly over its readers (KAFKA-5337)."""

    name: ClassVar[str] = "lag"


class LagGlobalAssignor(LagAwareAssignor):
    """`lag-global`: the lag of all topics together spread evenly over the members."""

    name: ClassVar[str] = "lag-global"
    reads_claims: ClassVar[bool] = True
    needs_solver: ClassVar[bool] = False
    """Whether the strategy needs OR-tools."""

    def __init__(
        self,
        *,
        lags: LagSource | None = None,
        rack: str | None = None,
        version: int = NEWEST,
        **options: Any,
    ) -> None:
        """Configure the member.

        Args:
            lags: see `LagAwareAssignor`.
            rack: see `ClassicAssignor`.
            version: see `ClassicAssignor`.
            options: options of the strategy, such as `max_count_skew`; those of the group's leader
                count.

        Raises:
            ProblemError: an option is out of its range.
            SolverMissingError: the strategy needs OR-tools, which is not installed. A leader must
                not find that out while its group waits.
            TypeError: the strategy has no such option.
        """
        super().__init__(lags=lags, rack=rack, version=version)
        self._strategy_options = _checked(self.name, options)
        if self.needs_solver and find_spec("ortools") is None:
            raise SolverMissingError

    def _options(self) -> Mapping[str, Any]:
        return self._strategy_options


class OptimalAssignor(LagGlobalAssignor):
    """`optimal`: load, counts, racks and moves together, each as good as it gets."""

    name: ClassVar[str] = "optimal"
    needs_lag: ClassVar[bool] = False
    needs_solver: ClassVar[bool] = True


def _checked(strategy: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a strategy, after their check at the start rather than at the first plan."""
    unknown = sorted(options.keys() - OPTIONS[strategy].keys())
    if unknown:
        raise TypeError(
            f"{strategy} takes no option {unknown[0]!r}; it takes {', '.join(OPTIONS[strategy])}"
        )
    strategy_named(strategy, options)
    return options

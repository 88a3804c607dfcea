"""`ClassicAssignor`: what a member of a classic group does as its own assignor.

A member joins with `join_bytes`, plans for its group with `assignment_bytes` if the broker makes it
the leader, and takes what it is assigned with `take`. One instance belongs to one consumer.

Guarantees: a strategy gives the answer that `levelwind.assignors.registry` gives, and bytes are
those of Kafka's own client for the same protocol, so that members of other clients can lead or
follow. No I/O, except for a lag source that the application gave.
Source: KIP-429, KIP-792, KIP-881.
"""

from __future__ import annotations

import logging
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

from levelwind.assignors.clients.classic.lag_source import LagUnavailableError
from levelwind.assignors.clients.group_join import join_subscription, read_members, sync_assignments
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Topic
from levelwind.assignors.protocol.kafka.consumer_protocol import NEWEST, UNKNOWN_GENERATION
from levelwind.assignors.protocol.kafka.sticky_user_data import DEFAULT_PRIORITY
from levelwind.assignors.registry import strategy_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.clients.classic.cluster_view import ClusterView
    from levelwind.assignors.clients.classic.lag_source import LagSource
    from levelwind.assignors.clients.group_join import Joiner
    from levelwind.assignors.protocol.partition_ranges import Partitions

_log = logging.getLogger("levelwind.clients.classic")


class ClassicAssignor:
    """Assignor of one member: its state between rebalances, and the plan while it leads."""

    name: ClassVar[str]
    """Name of the protocol, which all members of a group must have in common."""
    version: int
    """Version of the subscriptions that the member writes, 0 to 3."""
    cooperative: ClassVar[bool] = False
    """Whether members keep their partitions while they join (KIP-429)."""
    reads_claims: ClassVar[bool] = False
    """Whether the strategy reads which partitions a member had."""

    def __init__(self, *, rack: str | None = None, version: int = NEWEST) -> None:
        """Configure the member.

        Args:
            rack: rack of the member, as in `client.rack`. A leader with a rack asks for a rebalance
                when the racks of the partitions' replicas change; see `attach`.
            version: version of the subscriptions that the member writes; 1 adds the partitions that
                it owns, 2 their generation, 3 its rack.

        Raises:
            ValueError: the version is unknown.
        """
        if not 0 <= version <= NEWEST:
            raise ValueError(f"version: must be 0 to {NEWEST}, not {version!r}")
        self.version = version
        self._rack = rack or None
        self._owned: Partitions | None = None
        self._generation = UNKNOWN_GENERATION
        self._planned_view: ClusterView | None = None
        self._consumer: ref[Any] | None = None

    # A member.

    def join_bytes(self, topics: Iterable[str]) -> bytes:
        """Write the subscription that the member joins with."""
        self._planned_view = None
        subscribed = frozenset(topics)
        return join_subscription(
            self.name,
            subscribed,
            owned=self._claims(subscribed),
            generation=self._generation,
            rack=self._rack,
            priority=self._priority(),
        ).encode(self.version)

    def take(self, partitions: Partitions, generation: int = UNKNOWN_GENERATION) -> None:
        """Take what the leader assigned to the member.

        Args:
            partitions: the member's partitions by topic.
            generation: generation of the group; -1 where the client does not say it.
        """
        self._owned = partitions
        self._generation = generation

    def _claims(self, subscribed: frozenset[str]) -> Partitions | None:
        """Partitions that the member had, as far as it still reads their topics."""
        if not self.reads_claims or self._owned is None:
            return None
        return {topic: held for topic, held in self._owned.items() if topic in subscribed}

    def _priority(self) -> int:
        return DEFAULT_PRIORITY

    # The leader.

    def assignment_bytes(self, view: ClusterView, joiners: Iterable[Joiner]) -> dict[str, bytes]:
        """Plan for the group; by member, the bytes of its assignment.

        Args:
            view: the topics that the leader knows; others are assigned when it knows them.
            joiners: the members of the group, as the broker gives them to the leader.

        Raises:
            ProblemError: a member's subscription cannot be read, and the message names the member.
        """
        _, members = read_members(joiners, self.name)
        read = {topic for member in members for topic in member.topics}
        known = view.only(read)
        self._planned_view = known
        if self._rack and self._consumer is None:
            _log.info(
                "%s leads its group and has a rack, but is not attached to its consumer: changes of"
                " replica racks will not lead to a rebalance",
                self.name,
            )
        group = Group.build(self._topics(known), members)
        return sync_assignments(group, strategy_named(self.name, self._options())(group))

    def _topics(self, view: ClusterView) -> dict[str, Topic]:
        """The topics of the problem."""
        lags = self._lags(view)
        return {
            name: Topic(
                partitions=len(racks),
                replica_racks=racks,
                lags=_fitted(lags.get(name), len(racks)),
            )
            for name, racks in view.topics.items()
        }

    def _lags(self, view: ClusterView) -> Mapping[str, Sequence[int]]:  # noqa: ARG002 - see `LagAwareAssignor`
        """Records behind of each partition, by topic; empty where the strategy takes no lag."""
        return {}

    def _options(self) -> Mapping[str, Any]:
        return {}

    # Rebalances that the member asks for.

    def attach(self, consumer: Any) -> None:
        """Let the assignor ask for rebalances of its consumer.

        Args:
            consumer: the `KafkaConsumer` or `AIOKafkaConsumer` that got this assignor.

        Raises:
            RuntimeError: the assignor already belongs to another consumer.
        """
        attached = None if self._consumer is None else self._consumer()
        if attached is not None and attached is not consumer:
            raise RuntimeError(
                f"this {type(self).__name__} is attached to a consumer already; each consumer needs"
                " an instance of its own"
            )
        self._consumer = ref(consumer)

    @property
    def _coordinator(self) -> Any:
        """The client's part of the membership; None if there is none yet, or no more."""
        consumer = None if self._consumer is None else self._consumer()
        return getattr(consumer, "_coordinator", None)  # both clients have it, neither in public

    def _request_rejoin(self) -> None:
        if (coordinator := self._coordinator) is not None:
            coordinator.request_rejoin()

    def metadata_changed(self, view: ClusterView) -> None:
        """Ask for a rebalance if the racks of replicas are no longer those that were planned with.

        Only a leader with a rack asks (KIP-881). A topic that the view leaves out, or whose number
        of partitions differs, is the client's own business.
        """
        planned = self._planned_view
        if planned is None or not self._rack:
            return
        changed = sorted(
            topic
            for topic, racks in planned.topics.items()
            if len(view.topics.get(topic, ())) == len(racks) and view.topics[topic] != racks
        )
        if changed:
            self._planned_view = None  # one request is enough
            _log.info("racks of the replicas of %s changed: asking for a rebalance", changed)
            self._request_rejoin()


class LagAwareAssignor(ClassicAssignor):
    """Assignor whose strategy takes the lag of the group."""

    needs_lag: ClassVar[bool] = True
    """Whether the strategy without lag is hardly what an application wants."""

    def __init__(
        self, *, lags: LagSource | None = None, rack: str | None = None, version: int = NEWEST
    ) -> None:
        """Configure the member.

        Args:
            lags: source of the group's lag, such as `BrokerLag`; None:
                no partition has any.
            rack: see `ClassicAssignor`.
            version: see `ClassicAssignor`.

        Raises:
            TypeError: the source cannot be called, or its answer would have to be awaited. A leader
                must not find that out while its group waits.
            ValueError: the version is unknown.
        """
        super().__init__(rack=rack, version=version)
        if iscoroutinefunction(lags) or not (lags is None or callable(lags)):
            raise TypeError(f"lags: must be a function, and no coroutine function, not {lags!r}")
        self._lag_source = lags

    def _lags(self, view: ClusterView) -> Mapping[str, Sequence[int]]:
        if self._lag_source is None:
            if self.needs_lag:
                _log.warning("%s plans without lag: it was made without lags=...", self.name)
            return {}
        try:
            return self._lag_source(tuple(view.topics))
        except LagUnavailableError as error:
            _log.warning("%s plans without lag: %s", self.name, error)
            return {}


def _fitted(lags: Sequence[int] | None, partitions: int) -> list[int] | None:
    """Lags of exactly so many partitions: a topic may have grown since they were sampled."""
    if lags is None:
        return None
    return [*lags[:partitions], *([0] * (partitions - len(lags)))]

"""The calls of aiokafka's coordinator, answered by a `ClassicAssignor`.

aiokafka calls `metadata` when it joins, `assign` when its member leads, and `on_assignment` when it
got its partitions, all in one task for each consumer. It takes bytes wherever it would encode a
structure. Three of its traits are made up for here:

- It reads a subscription only up to its userData, so that a leader would see neither racks nor
  owned partitions. `WholeSubscription` takes the place of the structure that it reads with, and
  keeps the bytes.
- It does not tell the assignor the group's generation; an attached assignor asks for it.
- Its own assignors are classes, not instances. So a class works here too, and each consumer has an
  instance of its own, found by the consumer's task.

It leaves out `group.instance.id`, so a leader orders static members by their member ids. A broker
begins these with the instance id.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import MethodType, new_class
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from aiokafka.coordinator.protocol import ConsumerProtocol

from levelwind.assignors.clients.classic.client_shell import Assignor, ClientShell, shell_class
from levelwind.assignors.clients.group_join import Joiner
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.kafka.consumer_protocol import UNKNOWN_GENERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def _keep_whole_subscriptions() -> None:
    """Let aiokafka's leaders keep the bytes of each subscription that they read."""
    read = ConsumerProtocol.METADATA

    def decode(cls: Any, data: Any) -> Any:
        raw = data if isinstance(data, bytes) else data.getvalue()
        subscription = super(whole, cls).decode(data)
        subscription.raw = raw
        return subscription

    whole: Any = new_class(
        "WholeSubscription",
        (read,),
        exec_body=lambda body: body.update(__doc__=read.__doc__, decode=classmethod(decode)),
    )
    ConsumerProtocol.METADATA = whole


_keep_whole_subscriptions()


class OfConsumer(Generic[Given, Returned]):
    """Method that a class answers too, with the instance that belongs to the calling consumer."""

    def __init__(self, method: Callable[Given, Returned]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        """Bind the method to an instance; to that of the running task where a class is asked."""
        return MethodType(self._method, _of_task(owner) if instance is None else instance)


_instances: WeakKeyDictionary[asyncio.Task[Any], dict[type, Any]] = WeakKeyDictionary()


def _of_task(owner: type) -> Any:
    """The instance of a class that belongs to the running task: the coordination of a consumer."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError(f"{owner.__name__} is called by no consumer: use an instance")
    made = _instances.setdefault(task, {})
    if owner not in made:
        made[owner] = owner()
    return made[owner]


class AiokafkaAdapter(ClientShell):
    """The part of an assignor that aiokafka's coordinator asks for."""

    replicas_name: ClassVar[str] = "replicas"
    broker_id_name: ClassVar[str] = "nodeId"
    _loop: asyncio.AbstractEventLoop | None = None
    """Event loop of the consumer; None before it has joined."""

    @OfConsumer
    def metadata(self, topics: Iterable[str]) -> bytes:
        """Write the subscription that the member joins with."""
        with suppress(RuntimeError):  # no loop runs: the caller is no consumer
            self._loop = asyncio.get_running_loop()
        return self.join_bytes(topics)

    @OfConsumer
    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, bytes]:
        """Plan for the group that the member leads.

        Args:
            cluster: aiokafka's `ClusterMetadata`.
            members: subscriptions by member id.

        Raises:
            ProblemError: a member's subscription cannot be read.
        """
        joiners = [
            Joiner(id=member, offers={self.name: getattr(read, "raw", None) or read.encode()})
            for member, read in members.items()
        ]
        return self.assignment_bytes(self._watch(cluster), joiners)

    @OfConsumer
    def on_assignment(self, assignment: Any) -> None:
        """Take the partitions that the member was assigned."""
        generation = getattr(self._coordinator, "generation", UNKNOWN_GENERATION)
        self.take(ranges.by_topic(assignment.partitions()), generation)

    def _request_rejoin(self) -> None:
        # The coordinator's futures belong to the event loop, and a plan arrives in another thread.
        if self._loop is None:
            super()._request_rejoin()
        else:
            with suppress(RuntimeError):  # the loop is closed, and so is the consumer
                self._loop.call_soon_threadsafe(super()._request_rejoin)


def for_aiokafka(assignor: type[Assignor]) -> type[Assignor]:
    """Make a class that `partition_assignment_strategy` of an `AIOKafkaConsumer` takes."""
    return shell_class(assignor, (AiokafkaAdapter, assignor), "levelwind.clients.aiokafka")

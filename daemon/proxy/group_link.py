"""Link to one group: hands events to the machine, performs its effects and keeps its time.

All methods belong to the thread of the event loop. A fault of the proxy itself costs the group
nothing but the proxy: it leaves, and the fault is in the log.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from levelwind.daemon.proxy.proxy_machine import step
from levelwind.daemon.proxy.proxy_state import (
    NEVER,
    Answered,
    AskBrokers,
    Broken,
    Connect,
    Connected,
    Depart,
    Disconnected,
    ProxyContext,
    ProxyLog,
    ProxyPhase,
    ProxyState,
    Send,
    Woken,
)
from levelwind.daemon.telemetry.log_events import level_of
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.consumer_heartbeat import LEAVING, ConsumerHeartbeatRequest
from levelwind.daemon.wire.group_requests import (
    JoinRequest,
    LeaveRequest,
    SyncRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from levelwind.assignors.protocol.records import TopicRecord
    from levelwind.daemon.proxy.broker_assignors import BrokerAssignors
    from levelwind.daemon.proxy.proxy_state import LedMember, ProxyEffect, ProxyEvent, Standing
    from levelwind.daemon.proxy.settings import ProxySettings
    from levelwind.daemon.wire.broker_connection import BrokerConnection
    from levelwind.daemon.wire.group_requests import Request
    from levelwind.daemon.wire.shared_connections import SharedConnections

GRID_SECONDS = 0.25
"""Links are woken at multiples of this time, so that heartbeats of many groups go out together."""

FAREWELL_SECONDS = 2.0
"""Longest time for leaving a group; after it the brokers drop the member by its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySurroundings:
    """What all links share."""

    instance_id: str
    """`group.instance.id` of the proxy in every group."""
    connections: SharedConnections
    assignors: BrokerAssignors
    settings: ProxySettings
    layouts: Callable[[], Mapping[str, TopicRecord]]
    """Returns the layouts of topics that the daemon knows, by name."""
    log: Any
    on_standing: Callable[[str, Standing, str], None]
    """Called with group, standing and reason when either of the latter has changed."""
    on_members: Callable[[str, Mapping[str, LedMember] | None], None]
    """Called with group and members by name for each generation that the proxy leads, and with None
    once it leads no more."""


class GroupLink:
    """The proxy's link to one group.

    It asks over a connection to the coordinator that it shares with other links, until it joins a
    classic group: the answer waits for other members, and so would all behind it.
    """

    def __init__(self, group: str, surroundings: ProxySurroundings, lane: int) -> None:
        self._state = ProxyState(group=group)
        self._around, self._lane = surroundings, lane
        self._loop = asyncio.get_running_loop()
        self._connection: BrokerConnection | None = None
        self._is_alone = False
        """Whether the connection is this link's alone."""
        self._connection_number = 0
        """Number of the connection: what was asked before it came is answered in vain, also where
        the same one is taken again."""
        self._coordinator: tuple[str, int] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._departing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def handle(self, event: ProxyEvent) -> None:
        """Take in an event, and perform what follows from it."""
        try:
            self._step(event)
        except Exception as error:  # noqa: BLE001 - the group must not pay for it
            group = self._state.group
            log = self._around.log.error
            log("proxy.failed", group=group, error=str(error), exc_info=error)
            self._step(Broken(f"{type(error).__name__}: {error}"))

    @property
    def _is_shared(self) -> bool:
        return self._connection is not None and not self._is_alone

    async def departed(self) -> None:
        """Wait until the link has left its group, at most `FAREWELL_SECONDS`."""
        if self._departing:
            await asyncio.wait(self._departing, timeout=FAREWELL_SECONDS)

    def _step(self, event: ProxyEvent) -> None:
        before = self._state
        around = self._around
        context = ProxyContext(
            instance_id=around.instance_id, settings=around.settings, layouts=around.layouts()
        )
        self._state, effects = step(before, event, self._loop.time(), context)
        for effect in effects:
            self._perform(effect)
        now = self._state
        if now.wake_at != before.wake_at or self._timer is None:
            self._set_timer()
        if (now.standing, now.reason) != (before.standing, before.reason):
            self._around.on_standing(now.group, now.standing, now.reason)
        if now.led is not before.led and now.phase is not ProxyPhase.ENDED:
            self._around.on_members(now.group, now.led)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._state.wake_at == NEVER:
            return
        wake_at = self._state.wake_at
        if wake_at - self._loop.time() > GRID_SECONDS:
            wake_at = math.ceil(wake_at / GRID_SECONDS) * GRID_SECONDS
        self._timer = self._loop.call_at(wake_at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.handle(Woken())

    def _perform(self, effect: ProxyEffect) -> None:
        match effect:
            case Connect():
                self._opening = self._loop.create_task(self._open())
            case Send(request=JoinRequest() as request) if self._is_shared:
                self._opening = self._loop.create_task(self._join(request))
            case Send(request=request):
                self._send(request)
            case AskBrokers():
                self._spawn(self._ask_brokers())
            case Depart():
                self._depart(effect)
            case ProxyLog(event=event, fields=fields):
                getattr(self._around.log, level_of(event))(event, **fields)

    async def _ask_brokers(self) -> None:
        self.handle(await self._around.assignors.lacking())

    def _send(self, request: Request) -> None:
        if (connection := self._connection) is not None:
            number = self._connection_number
            connection.send(
                request, partial(self._on_response, number), partial(self._on_lost, number)
            )

    def _on_response(self, number: int, response: Any) -> None:
        if number == self._connection_number:
            self.handle(Answered(response))

    def _take(self, connection: BrokerConnection | None, *, alone: bool = False) -> None:
        self._connection, self._is_alone = connection, alone
        self._connection_number += 1

    async def _open(self) -> None:
        connections = self._around.connections
        try:
            self._coordinator = await connections.coordinator(self._state.group)
            connection = await connections.to(self._coordinator, self._lane)
        except ConnectionFailedError as error:
            self.handle(Disconnected(str(error)))
            return
        self._take(connection)
        self.handle(Connected(connection.versions))

    async def _join(self, request: JoinRequest) -> None:
        assert self._coordinator is not None  # noqa: S101 - it has told the group's protocol
        try:
            connection = await self._around.connections.alone(self._coordinator)
        except ConnectionFailedError as error:
            self._take(None)
            self.handle(Disconnected(str(error)))
            return
        self._take(connection, alone=True)
        connection.on_lost = partial(self._on_lost, self._connection_number)
        self._send(request)

    def _on_lost(self, number: int, reason: str) -> None:
        if number == self._connection_number:
            self._take(None)
            self.handle(Disconnected(reason))

    # Leaving.

    def _depart(self, departure: Depart) -> None:
        """Close a connection of the link's own, after a farewell of each member that leaves.

        A broker handles the requests of a connection one after the other, so a farewell behind a
        join that waits for other members would come too late: it takes the shared connection.
        """
        own = self._connection if self._is_alone else None
        self._take(None)
        if self._opening is not None and self._opening is not asyncio.current_task():
            self._opening.cancel()
        self._opening = None
        if farewells := self._farewells(departure):
            self._spawn(self._bid_farewell(own, farewells))
        elif own is not None:
            own.close()

    def _farewells(self, departure: Depart) -> list[Request]:
        group = self._state.group
        farewells: list[Request] = [
            ConsumerHeartbeatRequest(group=group, member_id=carrier, epoch=LEAVING)
            for carrier in departure.carriers
        ]
        if departure.member_id:
            farewells.append(LeaveRequest(group, departure.member_id, self._around.instance_id))
        return farewells

    async def _bid_farewell(
        self, connection: BrokerConnection | None, farewells: list[Request]
    ) -> None:
        around = self._around
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                if connection is not None and not _waits_for_members(connection):
                    speaking = connection
                elif self._coordinator is None:
                    return
                else:
                    if connection is not None:
                        connection.close()
                    speaking = await around.connections.to(self._coordinator, self._lane)
                for request in farewells:
                    await speaking.ask(request)
        except (ConnectionFailedError, TimeoutError) as error:
            around.log.warning(
                "proxy.left_silently", group=self._state.group, error=str(error) or "no answer"
            )
        finally:
            if connection is not None:
                connection.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._departing.add(task)
        task.add_done_callback(self._departing.discard)


def _waits_for_members(connection: BrokerConnection) -> bool:
    return any(isinstance(request, JoinRequest | SyncRequest) for request in connection.awaits)

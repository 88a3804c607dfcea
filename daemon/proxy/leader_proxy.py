"""The leader proxy of a daemon: one thread with one event loop for all of its groups."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from levelwind.daemon.proxy.broker_assignors import BrokerAssignors
from levelwind.daemon.proxy.group_link import FAREWELL_SECONDS, GroupLink, ProxySurroundings
from levelwind.daemon.proxy.proxy_state import PlanArrived, Stopped
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import OPEN_SECONDS
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.shared_connections import SharedConnections

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from levelwind.assignors.clients.classic.published_plan import PublishedPlan
    from levelwind.assignors.protocol.records import TopicRecord
    from levelwind.daemon.proxy.proxy_state import LedMember, Standing
    from levelwind.daemon.proxy.settings import ProxySettings

CLIENT_ID = "levelwind-proxy"
"""Client id of the proxy."""

LANES = 8
"""Connections to a broker: so many groups' plans it takes at once."""

STOP_SECONDS = FAREWELL_SECONDS + 3.0
"""Longest time that `stop` waits for the thread."""


class LeaderProxy:
    """Leads groups while the daemon leads; every method may be called from any thread."""

    def __init__(
        self,
        groups: Collection[str],
        client_config: Mapping[str, str],
        instance_id: str,
        settings: ProxySettings,
        layouts: Callable[[], Mapping[str, TopicRecord]],
        on_standing: Callable[[str, Standing, str], None],
        on_members: Callable[[str, Mapping[str, LedMember] | None], None],
        log: Any,
    ) -> None:
        """Configure the proxy; `start` begins.

        Args:
            groups: names of the groups.
            client_config: librdkafka's settings of the connection.
            instance_id: `group.instance.id` of the proxy, the same in every daemon that may lead.
            settings: the settings of the proxy.
            layouts: returns the layouts of topics that the daemon knows, by name.
            on_standing: called in the proxy's thread with group, standing and reason when either of
                the latter has changed.
            on_members: called in the proxy's thread with group and members by name for each
                generation that the proxy leads, and with None once it leads no more.
            log: logger of the daemon.

        Raises:
            ConfigurationError: a setting of the connection does not fit; the text names it.
        """
        self._groups = tuple(groups)
        connections = SharedConnections(
            addresses(client_config["bootstrap.servers"]),
            client_security(client_config),
            CLIENT_ID,
            # A member has a session timeout from when its group's next coordinator is there, and
            # the brokers may name a host that has vanished until then.
            min(OPEN_SECONDS, settings.session_timeout / 2),
        )
        self._surroundings = ProxySurroundings(
            instance_id=instance_id,
            connections=connections,
            assignors=BrokerAssignors(connections),
            settings=settings,
            layouts=layouts,
            log=log,
            on_standing=on_standing,
            on_members=on_members,
        )
        self._links: dict[str, GroupLink] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = threading.Event()
        """Set once the loop runs, or could not be made."""
        self._failure: OSError | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="leader-proxy", daemon=True)

    def start(self) -> None:
        """Begin to look at the groups; it joins each when it has a plan for it.

        Raises:
            OSError: the system has no files for it.
        """
        self._thread.start()
        self._running.wait()
        if self._failure is not None:
            raise self._failure

    def apply(self, group: str, plan: PublishedPlan | None) -> None:
        """Apply a plan that was published; None: the group has none any more."""
        self._post(lambda: self._on_plan(group, plan))

    def stop(self) -> None:
        """End; returns when that is done, or has taken `STOP_SECONDS`.

        The memberships stay for a session timeout, for the next daemon to take over.
        """
        stopping = self._stopping
        if stopping is not None:
            self._post(stopping.set)
            self._thread.join(STOP_SECONDS)

    @property
    def thread_id(self) -> int | None:
        """Identity of the thread, for whoever measures its CPU; None before `start`."""
        return self._thread.ident

    def _post(self, call: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def _on_plan(self, group: str, plan: PublishedPlan | None) -> None:
        if (link := self._links.get(group)) is not None:
            link.handle(PlanArrived(plan))

    def _run(self) -> None:
        runner = asyncio.Runner()
        try:
            runner.get_loop()
        except OSError as error:
            self._failure = error
            self._running.set()
            return
        with runner:
            runner.run(self._lead())

    async def _lead(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._links = {
            group: GroupLink(group, self._surroundings, number % LANES)
            for number, group in enumerate(self._groups)
        }
        self._running.set()
        await self._stopping.wait()
        for link in self._links.values():
            link.handle(Stopped())
        await asyncio.gather(*(link.departed() for link in self._links.values()))
        self._surroundings.connections.close()

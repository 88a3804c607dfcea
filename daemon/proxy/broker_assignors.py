"""Which brokers lack the assignor that follows plans: asked for all groups together.

A coordinator that does not have the assignor which a member of a group names answers nobody in the
group any more, so that a carrier joins only where every broker has it: any of them may coordinate
the group next. A broker that is down is not asked; it is when a carrier joins the next time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.daemon.proxy.proxy_state import BrokersAnswered
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.config_requests import BrokerSettingRequest
from levelwind.daemon.wire.group_requests import NO_ERROR

if TYPE_CHECKING:
    from levelwind.daemon.wire.shared_connections import SharedConnections

SETTING = "group.consumer.assignors"
CLASS = "levelwind.coordinator.PlannedAssignor"
FRESH_SECONDS = 10.0
"""Time for which an answer serves further groups."""
ANSWER_SECONDS = 3.0
"""Time after which a broker counts as down: shorter than what a group's requests have."""


@dataclass(slots=True)
class BrokerAssignors:
    """All methods belong to the thread of the event loop."""

    connections: SharedConnections
    _answer: asyncio.Task[BrokersAnswered] | None = None
    _fresh_until: float = 0.0

    async def lacking(self) -> BrokersAnswered:
        """Return which brokers lack the assignor, or why that is not known."""
        now = asyncio.get_running_loop().time()
        if self._answer is None or now > self._fresh_until:
            self._fresh_until = now + FRESH_SECONDS
            self._answer = asyncio.create_task(self._ask())
        return await asyncio.shield(self._answer)

    async def _ask(self) -> BrokersAnswered:
        try:
            brokers = await self.connections.brokers()
        except ConnectionFailedError as error:
            return BrokersAnswered((), str(error))
        settings = await asyncio.gather(
            *(self._setting(number, address) for number, address in brokers.items()),
            return_exceptions=True,
        )
        lacking: list[int] = []
        for number, found in zip(brokers, settings, strict=True):
            if isinstance(found, str):
                return BrokersAnswered((), found)
            if isinstance(found, list) and CLASS not in found:
                lacking.append(number)
        return BrokersAnswered(tuple(lacking))

    async def _setting(self, broker: int, address: tuple[str, int]) -> list[str] | str:
        """The classes that a broker has, or why it does not tell."""
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await self.connections.ask(address, BrokerSettingRequest(broker, SETTING))
        if found.error != NO_ERROR:
            return f"broker {broker} does not tell its setting {SETTING}: error {found.error}"
        return [name.strip() for name in (found.value or "").split(",")]

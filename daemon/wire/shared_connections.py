"""A few connections to each broker, which all that ask it share.

All methods belong to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from levelwind.daemon.wire.broker_connection import (
    OPEN_SECONDS,
    ConnectionFailedError,
    open_connection,
)
from levelwind.daemon.wire.group_requests import ELSEWHERE
from levelwind.daemon.wire.poll_requests import (
    BrokersRequest,
    FindCoordinatorsRequest,
    coordinator_questions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from levelwind.daemon.wire.broker_addresses import Address
    from levelwind.daemon.wire.broker_connection import BrokerConnection
    from levelwind.daemon.wire.client_security import ClientSecurity
    from levelwind.daemon.wire.group_requests import Request
    from levelwind.daemon.wire.poll_requests import Broker, FoundCoordinator

Answer = TypeVar("Answer")

NEXT_BROKER_SECONDS = 1.0
"""Silence of a broker after which the next one is asked, too; less where an answer is due soon."""


def _whole(_: object) -> int:
    """What an answer lacks that needs no other one."""
    return 0


def _unnamed(answer: Sequence[FoundCoordinator]) -> int:
    """How many groups have no coordinator by this answer, though another broker may name one."""
    return sum(each.error in ELSEWHERE for each in answer)


class SharedConnections:
    """Connections by address and lane, each opened when somebody asks for it.

    A broker answers the requests of a connection one after the other, and one that it has to write
    down only when the copies are there. Who sends many such requests spreads them over lanes.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        security: ClientSecurity,
        client_id: str,
        within: float = OPEN_SECONDS,
    ) -> None:
        """Begin without any.

        Args:
            bootstrap: hosts and ports of the brokers that are asked for the others.
            security: the security of the connections.
            client_id: client id of the connections.
            within: longest time in seconds for a connection to be opened, and for an answer.
        """
        self._bootstrap = tuple(bootstrap)
        self._security, self._client_id = security, client_id
        self.within = within
        """May be changed between two questions."""
        self._open: dict[tuple[Address, int], BrokerConnection] = {}
        self._opening: dict[tuple[Address, int], asyncio.Task[BrokerConnection]] = {}
        self._answered: Address | None = None
        """The broker that answered last of those that are asked one after the other."""

    async def to(self, address: Address, lane: int = 0) -> BrokerConnection:
        """Return a connection to a broker, always the same for a lane; nobody but `close` ends it.

        Raises:
            ConnectionFailedError: it cannot be reached.
        """
        if (connection := self._open.get((address, lane))) is not None:
            return connection
        if (opening := self._opening.get((address, lane))) is None:
            opening = asyncio.create_task(self._connect(address, lane))
            opening.add_done_callback(_retrieve)
            self._opening[address, lane] = opening
        return await asyncio.shield(opening)  # others may wait for it, too

    async def alone(self, address: Address) -> BrokerConnection:
        """Return a connection to a broker that nobody else has; whoever asked for it closes it.

        Raises:
            ConnectionFailedError: it cannot be reached.
        """
        return await open_connection(*address, self._security, self._client_id, self.within)

    async def ask(self, address: Address, request: Request) -> Any:
        """Send a request to a broker and return its response.

        Raises:
            ConnectionFailedError: it cannot be reached, or does not answer in time; then the
                connection ends for all.
        """
        host, port = address
        connection = await self.to(address)
        try:
            async with asyncio.timeout(self.within):
                return await connection.ask(request)
        except TimeoutError as error:
            connection.fail("no answer in time")
            raise ConnectionFailedError(f"{host}:{port}: no answer in time") from error
        except ConnectionFailedError as error:
            raise ConnectionFailedError(f"{host}:{port}: {error}") from error

    async def versions(self) -> Mapping[int, tuple[int, int]]:
        """Return the oldest and newest version of requests that the first broker to answer takes.

        Raises:
            ConnectionFailedError: no broker answers.
        """
        return (await self._first_answer(self.to)).versions

    async def brokers(self) -> dict[int, Broker]:
        """Return the addresses of all brokers, by number, as the first one that answers has them.

        Raises:
            ConnectionFailedError: no broker answers.
        """
        found: dict[int, Broker] = await self._first_answer(
            lambda broker: self.ask(broker, BrokersRequest())
        )
        present = {*found.values(), *self._bootstrap}
        for gone in {address for address, _ in self._open} - present:
            self.fail(gone, "the broker has left the cluster")
        return found

    def fail(self, address: Address, reason: str) -> None:
        """End the connections to a broker as if it had closed them."""
        for key in [key for key in self._open if key[0] == address]:
            self._open[key].fail(reason)

    async def coordinator(self, group: str) -> Address:
        """Return the address of a group's coordinator, as the first broker that answers names it.

        Raises:
            ConnectionFailedError: none answers, or the group has no coordinator now.
        """
        return await self._first_answer(lambda broker: self._named(broker, group))

    async def by_coordinator(
        self, groups: Sequence[str], *, by_all: bool = True
    ) -> tuple[dict[Address, list[str]], list[FoundCoordinator]]:
        """Return many groups by their coordinators, and why others have none.

        The first broker that answers says so; where it names none for a group that may have one,
        the others are asked, too, if `by_all` says so, and the answer counts that names the most.

        Raises:
            ConnectionFailedError: no broker answers.
        """
        led_by: dict[Address, list[str]] = {}
        without: list[FoundCoordinator] = []
        for question in coordinator_questions(groups):
            answer: Sequence[FoundCoordinator]
            answer = await self._first_answer(
                partial(self.ask, request=question), _unnamed if by_all else _whole
            )
            for found in answer:
                if found.error:
                    without.append(found)
                else:
                    led_by.setdefault((found.host, found.port), []).append(found.group)
        return led_by, without

    def close(self) -> None:
        """End all connections; nobody is called any more."""
        for opening in self._opening.values():
            opening.cancel()
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    async def _first_answer(
        self,
        question: Callable[[Address], Coroutine[Any, Any, Answer]],
        lacking: Callable[[Answer], int] = _whole,
    ) -> Answer:
        """The answer of the first broker that has a whole one, else the one that lacks least.

        The brokers are asked one after the other: the next one as soon as one refuses, and one that
        is silent holds nobody up, not even where most of them are. Once there is an answer, all
        others are asked for a better one.

        Raises:
            ConnectionFailedError: none has an answer.
        """
        waiting = deque(self._known())
        patience = min(NEXT_BROKER_SECONDS, self.within / (len(waiting) + 1))
        asked: dict[asyncio.Task[Answer], Address] = {}
        answers: dict[Address, Answer] = {}
        reason = "no broker is configured"
        try:
            while waiting or asked:
                # Behind an answer that lacks something, all others are waited for together.
                for _ in range(len(waiting) if answers else min(len(waiting), 1)):
                    broker = waiting.popleft()
                    asked[asyncio.create_task(question(broker))] = broker
                done, _ = await asyncio.wait(
                    asked,
                    timeout=patience if waiting or answers else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done and not waiting:
                    break  # those that are left are silent
                errors = {task: task.exception() for task in done}
                for task, error in errors.items():
                    broker = asked.pop(task)
                    if error is None:
                        answers[broker] = task.result()
                    elif isinstance(error, ConnectionFailedError):
                        reason = str(error)
                    else:
                        raise error
                if not all(map(lacking, answers.values())):
                    break
        finally:
            for task in asked:
                task.cancel()
        if not answers:
            raise ConnectionFailedError(reason)
        self._answered = min(answers, key=lambda broker: lacking(answers[broker]))
        return answers[self._answered]

    async def _named(self, broker: Address, group: str) -> Address:
        """The coordinator as one broker names it."""
        found: FoundCoordinator
        (found,) = await self.ask(broker, FindCoordinatorsRequest((group,)))
        if found.refusal:
            raise ConnectionFailedError(found.refusal)
        return found.host, found.port

    def _known(self) -> list[Address]:
        """Brokers to ask: those with a connection first, and of these the ones that owe no answer.

        One that has answered before does again, even where no setting does; the one that answered
        last goes before others like it, also when its connection has ended.
        """
        last = self._answered
        at_rest = sorted(self._open, key=lambda key: (bool(self._open[key].awaits), key[0] != last))
        bootstrap = sorted(self._bootstrap, key=lambda address: address != last)
        return [*dict.fromkeys([*(address for address, _ in at_rest), *bootstrap])]

    async def _connect(self, address: Address, lane: int) -> BrokerConnection:
        try:
            connection = await self.alone(address)
        finally:
            del self._opening[address, lane]
        self._open[address, lane] = connection
        connection.on_lost = partial(self._lose, address, lane)
        return connection

    def _lose(self, address: Address, lane: int, _: str) -> None:
        del self._open[address, lane]


def _retrieve(opening: asyncio.Task[BrokerConnection]) -> None:
    """Take the failure of a task for which nobody may wait any more."""
    if not opening.cancelled():
        opening.exception()

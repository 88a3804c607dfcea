"""Questions to the coordinators of groups over connections of the daemon's own.

librdkafka ends the whole process by a failed assertion where an admin request about a group is not
answered in time, as while any broker hangs (its issue 4605).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import KafkaError

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.broker_addresses import Address, addresses
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.group_requests import ELSEWHERE
from levelwind.daemon.wire.poll_requests import FetchOffsetsRequest, FindCoordinatorsRequest
from levelwind.daemon.wire.shared_connections import SharedConnections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.wire.client_security import ClientSecurity

Failures: TypeAlias = dict[str, KafkaError]
"""Why groups could not be asked, by group."""
Question: TypeAlias = Callable[
    [SharedConnections, Address, Sequence[str]], Coroutine[Any, Any, Failures]
]
"""Asks a coordinator about its groups, and returns its refusals."""

AGAIN_SECONDS = 0.5
"""Pause before groups are asked for again whose coordinator is changing."""
CHANGE_SECONDS = 3.0
"""Longest time for that: a coordinator that is not there by then may be missing for long."""
REST_SECONDS = 10.0
"""Time for which nobody waits again for what was just waited for in vain."""
PASSING = ELSEWHERE | {KafkaError._TRANSPORT}  # noqa: SLF001 - confluent-kafka's name for it
"""Errors of groups whose coordinator is changing, or has closed a connection at rest."""


@dataclass(slots=True)
class _Inquiry:
    """One question about some groups, with what came of it so far."""

    connections: SharedConnections
    question: Question
    until: float
    """Time of the loop at which whatever has no answer is given up."""
    again_until: float
    """Time of the loop until which groups are asked for again."""
    failures: Failures = field(default_factory=dict)
    outdated: list[str] = field(default_factory=list)
    """Groups whose brokers do not take the requests."""


class CoordinatorQuestions:
    """Asks coordinators over connections that stay open until `close`; one thread's at a time."""

    def __init__(self, config: Mapping[str, Any], client_id: str) -> None:
        """Read the settings; the first question opens connections.

        Args:
            config: settings of librdkafka.
            client_id: client id of the connections.
        """
        self._client_id = client_id
        self._bootstrap: Sequence[Address] = ()
        self._security: ClientSecurity | None = None
        """None: the own connections do not fit the settings."""
        try:
            self._bootstrap = addresses(config.get("bootstrap.servers", ""))
            self._security = client_security(config)
        except ConfigurationError:
            pass  # librdkafka may know it
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the connections, which stands still between two questions."""
        self._connections: SharedConnections | None = None
        self._silent: dict[Address, tuple[float, float]] = {}
        """Coordinators that did not answer: until when, in the loop's time, only those ask them who
        would wait for more than twice the time that was waited; and that time in seconds."""
        self._changing_until = 0.0
        """Time of the loop until which groups are asked for once, whatever the answer."""

    def ask(
        self, groups: Sequence[str], timeout: float, question: Question
    ) -> tuple[Failures, list[str]]:
        """Ask the coordinators of some groups, all at once.

        A coordinator that does not answer costs its own groups alone. Groups whose coordinator is
        changing are asked for again, for some seconds.

        Args:
            groups: names of the groups.
            timeout: seconds until whatever has no answer is given up.
            question: asks one coordinator.

        Returns:
            Why groups have no answer, or not a whole one; and groups for which only librdkafka can
            ask, since the own connections do not know a setting of the security, or brokers are
            older than 3.0.
        """
        if self._security is None:
            return {}, [*groups]
        if self._loop is None or self._connections is None:
            self._loop = asyncio.new_event_loop()
            self._connections = SharedConnections(self._bootstrap, self._security, self._client_id)
        return self._loop.run_until_complete(
            self._asked(self._connections, groups, timeout, question)
        )

    def close(self) -> None:
        """End the connections; the next question opens others."""
        if self._loop is None or self._connections is None:
            return
        self._connections.close()
        self._loop.run_until_complete(_end_others())
        self._loop.close()  # an address that is still being looked up is not waited for
        self._loop = self._connections = None

    async def _asked(
        self,
        connections: SharedConnections,
        groups: Sequence[str],
        within: float,
        question: Question,
    ) -> tuple[Failures, list[str]]:
        now = asyncio.get_running_loop().time()
        self._silent = {address: rest for address, rest in self._silent.items() if now < rest[0]}
        connections.within = within
        again = 0.0 if now < self._changing_until else min(within, CHANGE_SECONDS)
        inquiry = _Inquiry(connections, question, now + within, now + again)
        await self._ask_all(inquiry, groups)
        if again and _passing(inquiry.failures):
            self._changing_until = asyncio.get_running_loop().time() + REST_SECONDS
        return inquiry.failures, inquiry.outdated

    async def _ask_all(self, inquiry: _Inquiry, groups: Sequence[str]) -> None:
        """Ask for the coordinators of some groups, and then these."""
        connections = inquiry.connections
        led_by: Mapping[Address, Sequence[str]] = {}
        try:
            async with asyncio.timeout_at(inquiry.until):
                if not _takes(await connections.versions(), FindCoordinatorsRequest):
                    inquiry.outdated += groups
                    return
                may_change = asyncio.get_running_loop().time() < inquiry.again_until
                led_by, without = await connections.by_coordinator(groups, by_all=may_change)
            failures = {each.group: KafkaError(each.error) for each in without}
        except (ConnectionFailedError, ValueError, TimeoutError) as error:
            failures = _failed(groups, error)
        await asyncio.gather(
            self._note(inquiry, failures),
            *(self._ask_one(inquiry, *coordinator) for coordinator in led_by.items()),
        )

    async def _ask_one(self, inquiry: _Inquiry, address: Address, groups: Sequence[str]) -> None:
        connections = inquiry.connections
        now = asyncio.get_running_loop().time()
        _, waited = self._silent.get(address, (0.0, 0.0))
        if connections.within <= 2 * waited:
            inquiry.failures.update(_failed(groups, TimeoutError()))
            return
        try:
            async with asyncio.timeout_at(inquiry.until):
                if not _takes((await connections.to(address)).versions, FetchOffsetsRequest):
                    inquiry.outdated += groups
                    return
                refusals = await inquiry.question(connections, address, groups)
        except TimeoutError as error:
            connections.fail(address, "no answer in time")
            self._silent[address] = inquiry.until + REST_SECONDS, inquiry.until - now
            refusals = _failed(groups, error)
        except (ConnectionFailedError, ValueError) as error:
            refusals = _failed(groups, error)
        else:
            self._silent.pop(address, None)
        await self._note(inquiry, refusals)

    async def _note(self, inquiry: _Inquiry, failures: Failures) -> None:
        """Note failures, and ask again for groups whose coordinator is changing."""
        passing = _passing(failures)
        if not passing or asyncio.get_running_loop().time() + AGAIN_SECONDS > inquiry.again_until:
            inquiry.failures.update(failures)
            return
        inquiry.failures.update({group: failures[group] for group in failures.keys() - passing})
        await asyncio.sleep(AGAIN_SECONDS)
        await self._ask_all(inquiry, sorted(passing))


def _takes(
    versions: Mapping[int, tuple[int, int]],
    request: type[FindCoordinatorsRequest | FetchOffsetsRequest],
) -> bool:
    """Whether a broker takes a request in its version."""
    oldest, newest = versions.get(request.KEY, (0, -1))
    return oldest <= request.VERSION <= newest


def _failed(groups: Sequence[str], error: Exception) -> Failures:
    """Failures of groups by an error of the connection, or by bytes that do not fit."""
    if isinstance(error, TimeoutError):
        failure = KafkaError(KafkaError._TIMED_OUT, "no answer in time")  # noqa: SLF001 - as above
    elif isinstance(error, ConnectionFailedError):
        failure = KafkaError(KafkaError._TRANSPORT, str(error))  # noqa: SLF001 - as above
    else:
        failure = KafkaError(KafkaError._BAD_MSG, str(error))  # noqa: SLF001 - as above
    return dict.fromkeys(groups, failure)


def _passing(failures: Failures) -> set[str]:
    return {group for group, error in failures.items() if error.code() in PASSING}


async def _end_others() -> None:
    """End what is still under way in a loop, and let its sockets close."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)

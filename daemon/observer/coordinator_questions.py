"""Questions to the coordinators of groups over connections of the daemon's own.

librdkafka ends the whole process by a failed assertion where an admin request about a group is not
answered in time, as while any broker hangs (its issue 4605).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import KafkaError

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.broker_addresses import Address, addresses
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.client_security import client_security
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


class CoordinatorQuestions:
    """Asks coordinators; each question has connections of its own."""

    def __init__(self, config: Mapping[str, Any], client_id: str) -> None:
        """Read the settings.

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

    def ask(self, groups: Sequence[str], timeout: float, question: Question) -> Failures | None:
        """Ask the coordinators of some groups, all at once.

        A coordinator that does not answer costs its own groups alone.

        Args:
            groups: names of the groups.
            timeout: seconds until whatever has no answer is given up.
            question: asks one coordinator.

        Returns:
            Why groups have no answer, or not a whole one; None: only librdkafka can ask, since the
            own connections do not know a setting of the security, or brokers are older than 3.0.
        """
        if self._security is None:
            return None
        return asyncio.run(self._asked(self._security, groups, timeout, question))

    async def _asked(
        self, security: ClientSecurity, groups: Sequence[str], within: float, question: Question
    ) -> Failures | None:
        connections = SharedConnections(self._bootstrap, security, self._client_id, within)
        failures: Failures = {}
        unanswered = {*groups}

        async def ask(address: Address, led: Sequence[str]) -> None:
            try:
                refusals = await question(connections, address, led)
            except ConnectionFailedError as error:
                refusals = _unreachable(led, error)
            failures.update(refusals)
            unanswered.difference_update(led)

        try:
            async with asyncio.timeout(within):
                if not _are_taken(await connections.versions()):
                    return None
                led_by, without = await connections.by_coordinator(groups)
                failures.update({found.group: KafkaError(found.error) for found in without})
                unanswered.difference_update(failures)
                await asyncio.gather(*(ask(*coordinator) for coordinator in led_by.items()))
        except ConnectionFailedError as error:  # no broker says who coordinates
            failures = _unreachable(groups, error)
        except TimeoutError:
            silent = KafkaError(KafkaError._TIMED_OUT, "no answer in time")  # noqa: SLF001 - its name
            failures.update(dict.fromkeys(unanswered, silent))
        finally:
            connections.close()
        return failures


def _are_taken(versions: Mapping[int, tuple[int, int]]) -> bool:
    """Whether a broker takes the questions in these versions."""
    return all(
        versions.get(request.KEY, (0, -1))[1] >= request.VERSION
        for request in (FindCoordinatorsRequest, FetchOffsetsRequest)
    )


def _unreachable(groups: Sequence[str], error: ConnectionFailedError) -> Failures:
    return dict.fromkeys(groups, KafkaError(KafkaError._TRANSPORT, str(error)))  # noqa: SLF001 - as above

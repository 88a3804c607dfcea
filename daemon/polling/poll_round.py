"""One round of questions: list the groups, ask for their commits and members, note the answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.polling.poll_schedule import by_kind, requests_for
from levelwind.daemon.polling.polled_records import consumer_records, group_records
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
)
from levelwind.daemon.wire.group_requests import (
    ELSEWHERE,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    NO_ERROR,
)
from levelwind.daemon.wire.poll_requests import (
    FetchOffsetsRequest,
    ListGroupsRequest,
    coordinator_questions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from levelwind.daemon.polling.commit_mirror import CommitMirror
    from levelwind.daemon.polling.coordinators import Coordinators
    from levelwind.daemon.polling.poll_schedule import PollSchedule
    from levelwind.daemon.wire.broker_addresses import Address
    from levelwind.daemon.wire.describe_requests import DescribedConsumerGroup, DescribedGroup
    from levelwind.daemon.wire.poll_requests import (
        FetchedGroup,
        FoundCoordinator,
        ListedGroup,
        ListedGroups,
    )

SETTLED = frozenset({"Stable", "Empty", "Dead"})
"""States of classic groups in which the members' own bytes are told."""
COMMITS, MEMBERS = "commits", "members"
"""What a group is asked for."""
MOVING = ELSEWHERE | {GROUP_ID_NOT_FOUND}
"""Errors that the next round does not have: the group moves, or has just gone."""


@dataclass(slots=True)
class RoundOutcome:
    """What came of a round."""

    groups: int = 0
    """Groups that the brokers listed."""
    unanswered: dict[str, str] = field(default_factory=dict)
    """By broker that did not answer, why."""


class PollRound:
    """One round; what it learns goes into the mirror and the schedule."""

    def __init__(
        self,
        coordinators: Coordinators,
        mirror: CommitMirror,
        schedule: PollSchedule,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare a round.

        Args:
            coordinators: the brokers.
            mirror: takes the answers.
            schedule: says whom the round is for.
            now_ms: returns milliseconds since the epoch.
        """
        self._coordinators = coordinators
        self._mirror = mirror
        self._schedule = schedule
        self._now_ms = now_ms
        self._outcome = RoundOutcome()

    async def run(self) -> RoundOutcome:
        """Ask all brokers at once.

        Raises:
            ConnectionFailedError: no broker answers.
        """
        self._schedule.next_round()
        brokers = await self._coordinators.brokers()
        listed = await asyncio.gather(*(self._ask_broker(broker) for broker in brokers.values()))
        if not self._outcome.unanswered:
            names = [group.name for groups in listed for group in groups]
            missing = self._schedule.ended(self._mirror.groups, names)
            for name in await self._coordinated(missing, next(iter(brokers.values()))):
                self._mirror.end(name)
        self._outcome.groups = sum(map(len, listed))
        return self._outcome

    async def _coordinated(self, groups: Sequence[str], broker: Address) -> list[str]:
        """Those of some groups for which there is a broker that would list them.

        While its partition of the offsets topic has no leader, none does, and none says so. All
        groups of such a partition are missing at once, and again and again.
        """
        found: list[FoundCoordinator] = []
        for question in coordinator_questions(groups):
            try:
                found += await self._coordinators.ask(broker, question)
            except ConnectionFailedError:
                break
        return [each.group for each in found if each.error not in ELSEWHERE]

    async def _ask_broker(self, address: Address) -> Sequence[ListedGroup]:
        """Ask one broker about the groups that it coordinates, and return those."""
        try:
            groups = await self._groups(address)
            await self._ask_commits(address, groups)
            await self._ask_members(address, groups)
        except ConnectionFailedError as error:
            host, port = address
            self._outcome.unanswered[f"{host}:{port}"] = str(error)
            return ()
        return groups

    async def _groups(self, address: Address) -> Sequence[ListedGroup]:
        versions = await self._coordinators.versions(address)
        newest = versions.get(ListGroupsRequest.KEY, (0, 0))[1]
        typed = newest >= ListGroupsRequest.TYPED_VERSION
        listed: ListedGroups = await self._coordinators.ask(address, ListGroupsRequest(typed))
        if listed.error != NO_ERROR:
            raise ConnectionFailedError(f"its groups are not listed: error {listed.error}")
        return [group for group in listed.groups if group.name and group.type != "share"]

    async def _ask_commits(self, address: Address, groups: Sequence[ListedGroup]) -> None:
        due = sorted(group.name for group in groups if self._schedule.asks_commits(group.name))
        for part in requests_for(due, self._mirror.partitions):
            request = FetchOffsetsRequest(part, {name: self._mirror.known(name) for name in part})
            answers: Sequence[FetchedGroup] = await self._coordinators.ask(address, request)
            at = self._now_ms()
            for answer in answers:
                if self._has_answer(answer.name, COMMITS, answer.error):
                    self._schedule.committed(answer.name, news=self._mirror.commit(answer, at))

    async def _ask_members(self, address: Address, groups: Sequence[ListedGroup]) -> None:
        due = by_kind(group for group in groups if self._schedule.asks_members(group))
        listed = {group.name: group for group in groups}
        for group in due["none"]:
            self._join(group, {})
        for part in requests_for((group.name for group in due["classic"]), lambda _: 0):
            answers: Sequence[DescribedGroup] = await self._coordinators.ask(
                address, DescribeGroupsRequest(part)
            )
            for found in answers:
                if self._has_answer(found.name, MEMBERS, found.error) and found.state in SETTLED:
                    self._take(listed[found.name], partial(group_records, found))
        for part in requests_for((group.name for group in due["consumer"]), lambda _: 0):
            described: Sequence[DescribedConsumerGroup] = await self._coordinators.ask(
                address, DescribeConsumerGroupsRequest(part)
            )
            for one in described:
                if self._has_answer(one.name, MEMBERS, one.error):
                    self._take(listed[one.name], partial(_of_consumers, one))

    def _take(self, group: ListedGroup, records: Callable[[], dict[bytes, bytes]]) -> None:
        try:
            self._join(group, records())
        except WireError as error:
            self._schedule.refused[group.name, MEMBERS] = str(error)

    def _join(self, group: ListedGroup, records: dict[bytes, bytes]) -> None:
        self._mirror.join(group.name, records)
        self._schedule.described(group)

    def _has_answer(self, name: str, what: str, error: int) -> bool:
        """Whether an answer has what was asked for; note why not."""
        if error == NO_ERROR:
            self._schedule.refused.pop((name, what), None)
        elif error == GROUP_AUTHORIZATION_FAILED:
            self._schedule.refused[name, what] = f"this user lacks DESCRIBE on group {name}"
        elif error not in MOVING:
            self._schedule.refused[name, what] = f"error {error}"
        return error == NO_ERROR


def _of_consumers(group: DescribedConsumerGroup) -> dict[bytes, bytes]:
    records: dict[bytes, bytes] = {}
    for member in group.members:
        records |= consumer_records(group.name, member)
    return records

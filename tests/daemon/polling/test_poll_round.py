"""A round of questions to modelled brokers: what counts as the end of a group."""

import asyncio

import pytest

from levelwind.assignors.protocol.kafka.types import uvarint
from levelwind.daemon.polling.commit_mirror import CommitMirror
from levelwind.daemon.polling.poll_round import PollRound
from levelwind.daemon.polling.poll_schedule import ABSENT_ROUNDS, PollSchedule
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.describe_requests import (
    DescribedGroup,
    DescribeGroupsRequest,
)
from levelwind.daemon.wire.group_requests import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    NO_ERROR,
    CoordinatorResponse,
    FindCoordinatorRequest,
)
from levelwind.daemon.wire.poll_requests import (
    PLAIN_PARTITION,
    Broker,
    FetchedGroup,
    FetchOffsetsRequest,
    ListedGroup,
    ListedGroups,
    ListGroupsRequest,
)

BROKERS = {1: Broker("a", 1), 2: Broker("b", 2)}


class ModelledBrokers:
    """Two brokers and one group, which its coordinator lists while there is one."""

    def __init__(self):
        self.coordinator = 1
        """The number of the group's coordinator; None: no broker is."""
        self.named = NO_ERROR
        """What brokers answer who are asked for the coordinator; None: they do not answer."""

    async def brokers(self):
        return BROKERS

    async def versions(self, _):
        return {ListGroupsRequest.KEY: (0, 5)}

    async def ask(self, address, request):
        lists = self.coordinator is not None and BROKERS[self.coordinator] == address
        match request:
            case ListGroupsRequest():
                group = ListedGroup("g", "consumer", "Empty", "classic")
                return ListedGroups(NO_ERROR, (group,) if lists else ())
            case FetchOffsetsRequest():
                committed = uvarint(2) + PLAIN_PARTITION.pack(0, 7, -1, 1, 0, 0)
                return (FetchedGroup("g", NO_ERROR, {"t": committed}),)
            case DescribeGroupsRequest():
                return (DescribedGroup(NO_ERROR, "Empty", "consumer", "", (), "g"),)
            case FindCoordinatorRequest():
                if self.named is None:
                    raise ConnectionFailedError("no answer")
                return CoordinatorResponse(self.named, "", "b", 2)


def commits_after(rounds, brokers, mirror, schedule):
    """The groups of which commits are known after some rounds."""
    for _ in range(rounds):
        asyncio.run(PollRound(brokers, mirror, schedule, lambda: 0).run())
    return [*mirror.groups]


@pytest.mark.parametrize(
    ("named", "ends"),
    [
        (NO_ERROR, True),
        (GROUP_AUTHORIZATION_FAILED, True),
        (COORDINATOR_NOT_AVAILABLE, False),
        (None, False),
    ],
)
def test_a_group_ends_only_where_there_is_a_broker_that_would_list_it(named, ends):
    brokers, about = ModelledBrokers(), (CommitMirror(), PollSchedule())
    assert commits_after(1, brokers, *about) == ["g"]
    brokers.coordinator, brokers.named = None, named
    assert commits_after(ABSENT_ROUNDS - 1, brokers, *about) == ["g"]
    assert commits_after(5 * ABSENT_ROUNDS, brokers, *about) == ([] if ends else ["g"])
    about[0].unwritten.clear()
    brokers.coordinator = 2
    assert commits_after(1, brokers, *about) == ["g"]
    assert bool(about[0].unwritten) == ends, "what was kept is not written anew"

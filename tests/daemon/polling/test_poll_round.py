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
)
from levelwind.daemon.wire.poll_requests import (
    PLAIN_PARTITION,
    Broker,
    FetchedGroup,
    FetchOffsetsRequest,
    FindCoordinatorsRequest,
    FoundCoordinator,
    ListedGroup,
    ListedGroups,
    ListGroupsRequest,
)

BROKERS = {1: Broker("a", 1), 2: Broker("b", 2)}


class ModelledBrokers:
    """Two brokers and some groups, which their coordinator lists while there is one."""

    def __init__(self, groups=("g",)):
        self.groups = groups
        self.asked = 0
        """Questions for coordinators."""
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
                names = self.groups if lists else ()
                listed = (ListedGroup(name, "consumer", "Empty", "classic") for name in names)
                return ListedGroups(NO_ERROR, tuple(listed))
            case FetchOffsetsRequest(groups):
                committed = uvarint(2) + PLAIN_PARTITION.pack(0, 7, -1, 1, 0, 0)
                return tuple(FetchedGroup(name, NO_ERROR, {"t": committed}) for name in groups)
            case DescribeGroupsRequest(groups):
                return tuple(
                    DescribedGroup(NO_ERROR, "Empty", "consumer", "", (), name) for name in groups
                )
            case FindCoordinatorsRequest(groups):
                self.asked += 1
                if self.named is None:
                    raise ConnectionFailedError("no answer")
                return tuple(FoundCoordinator(name, self.named) for name in groups)


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


def test_groups_without_a_coordinator_cost_one_question_together():
    """One each took six seconds of each second round for 600, and nothing was written before."""
    brokers, about = (
        ModelledBrokers([f"g{n}" for n in range(600)]),
        (CommitMirror(), PollSchedule()),
    )
    commits_after(1, brokers, *about)
    brokers.coordinator, brokers.named = None, COORDINATOR_NOT_AVAILABLE
    assert len(commits_after(ABSENT_ROUNDS, brokers, *about)) == 600
    assert brokers.asked == 1


def test_no_question_for_coordinators_is_without_bounds():
    brokers, about = (
        ModelledBrokers([f"g{n}" for n in range(2500)]),
        (CommitMirror(), PollSchedule()),
    )
    commits_after(1, brokers, *about)
    brokers.coordinator = None
    assert commits_after(ABSENT_ROUNDS, brokers, *about) == []
    assert brokers.asked == 3

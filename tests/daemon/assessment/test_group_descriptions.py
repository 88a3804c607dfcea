"""Groups as coordinators describe them: of KIP-848, classic, or neither."""

import asyncio
from types import SimpleNamespace

from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerAssignment
from levelwind.daemon.assessment.group_descriptions import describe
from levelwind.daemon.assessment.observed_groups import (
    CLASSIC,
    CONSUMER_PROTOCOL,
    EMPTY,
    REBALANCING,
    STABLE,
    UNKNOWN_STATE,
)
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupsRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
)
from levelwind.daemon.wire.group_requests import (
    CONSUMER,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
)

COORDINATOR = ("a", 1)
NEWER = {DescribeConsumerGroupsRequest.KEY: (0, 1)}
MEMBER = DescribedMember("m", "static", "client", "/10.0.0.1")
HAS = ConsumerAssignment(partitions={"t": [0, 2]}).encode()
MEMBERS = {
    "new": MEMBER._replace(assigned={bytes(16): (1, 3)}, assigned_topics=("t",)),
    "classic": MEMBER._replace(instance_id=None, assignment=HAS),
    "joining": MEMBER,
}


class Coordinator:
    """A coordinator of groups of both kinds; brokers before KIP-848 take one question alone."""

    def __init__(self, versions):
        self._versions, self.questions = versions, []

    async def to(self, _address):
        return SimpleNamespace(versions=self._versions)

    async def ask(self, address, request):
        assert address == COORDINATOR
        self.questions.append(list(request.groups))
        newer = isinstance(request, DescribeConsumerGroupsRequest)
        return [(self.newer if newer else self.classic)(group) for group in request.groups]

    def newer(self, group):
        if group == "hidden":
            return DescribedConsumerGroup(GROUP_AUTHORIZATION_FAILED, name=group)
        if group != "new":
            return DescribedConsumerGroup(GROUP_ID_NOT_FOUND, name=group)
        return DescribedConsumerGroup(0, (MEMBERS[group],), "uniform", group, "Stable")

    def classic(self, group):
        if group == "hidden":
            return DescribedGroup(GROUP_AUTHORIZATION_FAILED, "", "", "", (), group)
        states = {"classic": "Stable", "joining": "PreparingRebalance", "empty": "Empty"}
        members = tuple(MEMBERS[name] for name in (group,) if name in MEMBERS)
        state, assignor = states.get(group, "Dead"), "range" if group == "classic" else ""
        return DescribedGroup(0, state, CONSUMER, assignor, members, group)


def asked(versions, *groups):
    coordinator, described = Coordinator(versions), {}
    refusals = asyncio.run(describe(described, coordinator, COORDINATOR, groups))
    codes = {group: error.code() for group, error in refusals.items()}
    return described, codes, coordinator.questions


def test_each_group_is_described_as_what_it_is():
    groups = ("new", "classic", "joining", "empty", "gone", "hidden")
    described, codes, questions = asked(NEWER, *groups)
    assert questions == [[*groups], ["classic", "joining", "empty", "gone"]]
    assert codes == {"hidden": GROUP_AUTHORIZATION_FAILED}
    assert {name: (one.type, one.state) for name, one in described.items()} == {
        "new": (CONSUMER_PROTOCOL, STABLE),
        "classic": (CLASSIC, STABLE),
        "joining": (CLASSIC, REBALANCING),
        "empty": (CLASSIC, EMPTY),
        "gone": (CLASSIC, UNKNOWN_STATE),
    }
    assert {one.coordinator for one in described.values()} == {COORDINATOR}
    assert described["new"].assignor == "uniform"
    assert described["new"].owners == {("t", 1): "static", ("t", 3): "static"}
    assert described["classic"].assignor == "range"
    assert described["classic"].owners == {("t", 0): "m", ("t", 2): "m"}
    (joining,) = described["joining"].members
    assert (joining.client, joining.host, joining.owned) == ("client", "10.0.0.1", frozenset())


def test_brokers_before_kip_848_are_asked_for_classic_groups_alone():
    described, codes, questions = asked({}, "classic", "hidden")
    assert questions == [["classic", "hidden"]]
    assert (described.keys(), codes) == ({"classic"}, {"hidden": GROUP_AUTHORIZATION_FAILED})

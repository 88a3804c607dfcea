"""The proxy in one group: a modelled coordinator, members that come and go, and every mishap."""

import random

import pytest
from msgspec.structs import replace

from levelwind.assignors.clients.group_join import Joiner, join_subscription
from levelwind.assignors.protocol.kafka.carried_plan import rack_ids
from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerAssignment
from levelwind.daemon.proxy.proxy_machine import step
from levelwind.daemon.proxy.proxy_state import (
    NEVER,
    Answered,
    Broken,
    BrokersAnswered,
    Connect,
    Connected,
    Depart,
    Disconnected,
    PlanArrived,
    ProxyContext,
    ProxyLog,
    ProxyPhase,
    ProxyState,
    Send,
    Standing,
    Stopped,
    Woken,
)
from levelwind.daemon.proxy.settings import ProxySettings
from levelwind.daemon.proxy.succession import MOST_DRAWS
from levelwind.daemon.wire import group_requests as kafka
from levelwind.daemon.wire.consumer_heartbeat import (
    ConsumerHeartbeatRequest,
    ConsumerHeartbeatResponse,
)
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    DescribeGroupRequest,
)
from levelwind_testing.proxied import LAYOUTS, layout, plan

SETTINGS = ProxySettings(session_timeout=6.0, heartbeat_interval=2.0, retry=5.0, retry_max=40.0)
INSTANCE = "installation"
VERSIONS = {DescribeConsumerGroupRequest.KEY: (0, 1), ConsumerHeartbeatRequest.KEY: (0, 1)}


class Play:
    """One proxy, its clock, and what it asked for."""

    def __init__(self, **layouts):
        self.state = ProxyState(group="g")
        self.now = 100.0
        self.layouts = dict(LAYOUTS) | layouts
        self.log, self.sent, self.departed = [], [], []
        self.connects = 0

    def give(self, event):
        context = ProxyContext(instance_id=INSTANCE, settings=SETTINGS, layouts=self.layouts)
        self.state, effects = step(self.state, event, self.now, context)
        for effect in effects:
            match effect:
                case Send(request=request):
                    self.sent.append(request)
                case Depart(member_id=member):
                    self.departed.append(member)
                case ProxyLog():
                    self.log.append(effect)
                case Connect():
                    self.connects += 1
        return effects

    def answer(self, response):
        return self.give(Answered(response))

    def wake(self):
        assert self.state.wake_at < NEVER
        self.now = max(self.now, self.state.wake_at)
        return self.give(Woken())

    @property
    def last(self):
        return self.sent[-1]

    def of(self, event):
        return [dict(fields) for name, fields in self.log if name == event]

    # The usual way in.

    def describe(self, state="Stable", protocol="range", kind="consumer", error=0, members=()):
        self.give(PlanArrived(plan(a=[0, 1, 2], b=[3, 4, 5])))
        self.wake()
        self.give(Connected(VERSIONS))
        self.answer(DescribedGroup(error, state, kind, protocol, described(members)))

    def join(self, protocol="range", leader="p", generation=3, members=("a", "b"), **more):
        joiners = [joiner(name, protocol) for name in members] + [joiner("p", protocol, ())]
        response = kafka.JoinResponse(
            0, generation, protocol, leader, "p", tuple(joiners) if leader == "p" else ()
        )
        return self.answer(response._replace(**more))

    def lead(self, **more):
        self.describe()
        self.join(**more)
        self.answer(kafka.SyncResponse(0, b""))

    def follow(self, *members, leader="a", **more):
        """Let another member lead; the members of the group by their ids, static ones too."""
        self.join(leader=leader, **more)
        self.answer(kafka.SyncResponse(0, b""))
        self.survey(*members)

    def survey(self, *members, state="Stable", error=0):
        assert self.last == DescribeGroupRequest("g")
        self.answer(DescribedGroup(error, state, "consumer", "range", described(members)))

    def wait_for_lead(self, *members, **more):
        self.describe()
        self.follow(*(members or ("a", "p")), **more)

    def rebalance(self):
        """Let the group ask for a round."""
        self.wake()
        self.answer(kafka.HeartbeatResponse(kafka.REBALANCE_IN_PROGRESS))

    def draw(self, member_id, generation=3):
        """Give the proxy another member id in the same generation, as it asked."""
        assert (self.last.member_id, self.last.instance_id) == ("", INSTANCE)
        self.answer(kafka.JoinResponse(0, generation, "range", "a", member_id, ()))


def described(members):
    return tuple(
        each if isinstance(each, DescribedMember) else described_member(each) for each in members
    )


def described_member(name):
    instance, _, number = name.rpartition("-")
    return DescribedMember(name, instance if number and instance else None, "client")


def joiner(name, protocol, topics=("t",), **claims):
    raw = join_subscription(protocol, topics, **claims).encode()
    return Joiner(id=name, offers={protocol: raw})


@pytest.fixture
def play():
    return Play()


def waits_in_vain(play, doing):
    """Let the coordinator be silent until the proxy connects anew."""
    play.wake()
    assert play.of("proxy.disconnected")[-1]["error"] == (
        f"the coordinator did not answer in time while {doing}"
    )
    assert play.departed[-1] == "", "it stays a member"
    play.wake()
    play.give(Connected(VERSIONS))


def test_a_coordinator_that_never_answers_the_first_join_is_asked_anew(play):
    play.describe()
    assert play.state.phase is ProxyPhase.JOINING
    waits_in_vain(play, "joining")
    assert play.last == DescribeGroupRequest("g")
    itself = DescribedMember("p", INSTANCE, "client")
    play.answer(DescribedGroup(0, "PreparingRebalance", "consumer", "range", (itself,)))
    assert isinstance(play.last, kafka.JoinRequest)


def test_a_leader_whose_coordinator_never_answers_joins_the_same_round_again(play):
    play.lead()
    play.give(PlanArrived(plan(a=[0], b=[1, 2, 3, 4, 5], epoch=2)))
    assert play.state.phase is ProxyPhase.JOINING
    waits_in_vain(play, "joining")
    assert isinstance(play.last, kafka.HeartbeatRequest)
    play.answer(kafka.HeartbeatResponse(kafka.REBALANCE_IN_PROGRESS))
    assert isinstance(play.last, kafka.JoinRequest)
    assert play.last.member_id == "p"


def test_a_follower_waits_for_the_leaders_assignment_no_longer_than_for_a_round(play):
    play.describe()
    joined_at = play.now
    play.now += 50
    play.join(leader="a")
    assert play.state.phase is ProxyPhase.SYNCING
    assert play.state.wake_at > joined_at + 100, "the wait for the round does not count"
    waits_in_vain(play, "syncing")
    assert isinstance(play.last, kafka.HeartbeatRequest)


def test_it_joins_when_there_is_a_plan_and_dictates_it_as_the_leader(play):
    assert play.state.wake_at == NEVER, "without a plan it stays away"
    play.lead()
    kinds = [type(request).__name__ for request in play.sent]
    assert kinds == ["DescribeGroupRequest", "JoinRequest", "SyncRequest"]
    assert (play.sent[1].member_id, play.sent[1].instance_id) == ("", INSTANCE)
    assert (play.last.member_id, play.last.instance_id) == ("p", INSTANCE)
    given = {
        m: ConsumerAssignment.decode(raw).partitions for m, raw in play.last.assignments.items()
    }
    assert given == {"a": {"t": (0, 1, 2)}, "b": {"t": (3, 4, 5)}, "p": {}}
    assert play.state.standing is Standing.LEADS
    assert play.state.led == {
        "a": (("t",), None, {"t": (0, 1, 2)}),
        "b": (("t",), None, {"t": (3, 4, 5)}),
    }
    assert [name for name, _ in play.log] == ["proxy.assigned", "proxy.leading"]


def test_it_knows_the_members_of_each_generation_that_it_leads_and_of_no_other(play):
    play.lead()
    play.rebalance()
    joiners = (
        joiner("a", "range", rack="r"),
        joiner("new", "range", ("t", "u")),
        joiner("p", "range", ()),
    )
    play.join(joiners=joiners, generation=4)
    assert play.state.led.keys() == {"a", "new"}
    assert play.state.led["a"].rack == "r"
    assert play.state.led["new"].topics == ("t", "u")
    shares = [member.share.get("t", ()) for member in play.state.led.values()]
    assert sorted(number for share in shares for number in share) == list(range(6))
    play.answer(kafka.SyncResponse(0, b""))
    play.rebalance()
    play.join(leader="a", generation=5)
    assert play.state.led is None
    play.answer(kafka.SyncResponse(0, b"\0"))
    assert left(play)
    assert play.state.led is None


# The slots of one letter are its code below 16: p is 0, a and q are 1, b is 2, n is 14, o is 15.


def test_it_draws_member_ids_in_a_stable_group_until_it_is_the_next_to_lead(play):
    play.wait_for_lead("a", "b", "o", member_id="o")
    play.draw("n")
    play.draw("q")  # the leader alone is before it
    assert play.last == kafka.SyncRequest("g", 3, "q", INSTANCE, {})
    play.answer(kafka.SyncResponse(0, b""))
    play.survey("a", "b", "q")
    assert play.state.standing is Standing.WAITS_FOR_LEAD
    play.wake()
    assert play.last == kafka.HeartbeatRequest("g", 3, "q", INSTANCE)
    # In a later round its place is good still: it keeps the id.
    play.rebalance()
    assert play.last.member_id == "q"
    play.follow("a", "b", "c", "q", member_id="q", generation=4)
    assert play.state.phase is ProxyPhase.STABLE
    assert len(play.of("proxy.waiting_for_lead")) == 1
    # One comes that may be before it, in the same slot.
    play.rebalance()
    play.follow("a", "A", "q", member_id="q", generation=5)
    assert (play.last.member_id, play.state.draws) == ("", 1)


def test_it_stays_with_the_last_of_many_member_ids(play):
    play.wait_for_lead("a", "b", "o", member_id="o")
    for _ in range(MOST_DRAWS):
        play.draw("o")
    play.answer(kafka.SyncResponse(0, b""))
    play.survey("a", "b", "o")
    assert play.state.phase is ProxyPhase.STABLE
    play.rebalance()
    play.follow("a", "b", "o", member_id="o", generation=4)
    assert play.last.member_id == "", "the next generation has other members, or may have"


@pytest.mark.parametrize("others", [(), ("p", "a")], ids=["none", "one in the first slot"])
def test_it_keeps_its_member_id_where_nobody_can_be_overtaken(play, others):
    play.wait_for_lead("a", "o", *others, member_id="o")
    assert play.state.phase is ProxyPhase.STABLE


def test_it_draws_no_member_id_in_a_group_that_rebalances(play):
    play.describe()
    play.join(leader="a", member_id="o")
    play.answer(kafka.SyncResponse(0, b""))
    play.survey("a", "b", "o", state="PreparingRebalance")
    assert play.state.phase is ProxyPhase.STABLE


def test_a_connection_that_is_lost_between_two_member_ids_lets_it_join_anew(play):
    play.wait_for_lead("a", "b", "o", member_id="o")
    play.give(Disconnected("reset"))
    play.wake()
    play.give(Connected(VERSIONS))
    play.survey("a", "b", "installation-7")
    assert (play.last.member_id, play.last.instance_id) == ("", INSTANCE)
    assert play.of("proxy.left") == []


def test_it_says_that_a_static_member_keeps_the_lead(play):
    play.wait_for_lead()
    assert play.state.reason == ""
    play.rebalance()
    play.follow("s-1", "p", leader="s-1", generation=4)
    assert play.state.reason.startswith("the leader 's' is a static member")
    play.rebalance()
    play.join(generation=5)
    play.answer(kafka.SyncResponse(0, b""))
    assert (play.state.standing, play.state.reason) == (Standing.LEADS, "")


FORMER = "installation-1"
"""Member id that the proxy of the daemon before had."""


def test_a_daemon_that_comes_back_leads_on_although_nobody_leaves(play):
    play.describe(members=("a", "b", FORMER))
    assert (play.last.member_id, play.last.instance_id) == ("", INSTANCE)
    # A stable group stays as it is. The coordinator names the id that led before.
    play.join(leader=FORMER)
    play.answer(kafka.SyncResponse(0, b""))
    play.survey("a", "b", "p")
    assert play.of("proxy.waiting_for_lead") == []
    assert (play.last.member_id, play.last.instance_id) == ("p", INSTANCE)
    play.join(generation=4)
    play.answer(kafka.SyncResponse(0, b""))
    assert play.state.standing is Standing.LEADS
    assert [name for name, _ in play.log] == ["proxy.assigned", "proxy.leading"]


def has(name, *numbers, protocol="range", **claims):
    """A member of a stable group that has partitions of t, as its coordinator describes it."""
    (raw,) = joiner(name, protocol, **claims).offers.values()
    assignment = ConsumerAssignment(partitions={"t": numbers} if numbers else {}).encode()
    return described_member(name)._replace(subscription=raw, assignment=assignment)


def come_back(play, *members, protocol="range"):
    play.describe(protocol=protocol, members=(*members, FORMER))
    play.join(leader=FORMER, protocol=protocol)
    play.answer(kafka.SyncResponse(0, b""))
    answer = DescribedGroup(0, "Stable", "consumer", protocol, described((*members, "p")))
    play.answer(answer)


def test_a_daemon_that_comes_back_to_its_assignment_leads_without_a_round(play):
    come_back(play, has("a", 2, 0, 1, rack="r"), has("b", 3, 4, 5))
    assert (play.state.phase, play.state.standing) == (ProxyPhase.STABLE, Standing.LEADS)
    assert [name for name, _ in play.log] == ["proxy.leading"]
    assert play.state.led == {
        "a": (("t",), "r", {"t": (0, 1, 2)}),
        "b": (("t",), None, {"t": (3, 4, 5)}),
    }
    play.wake()
    assert play.last == kafka.HeartbeatRequest("g", 3, "p", INSTANCE)
    play.answer(kafka.HeartbeatResponse(0))
    # What a newer plan says, and what the observer sees, counts as ever.
    play.give(PlanArrived(plan(2, a=[0, 1], b=[2, 3, 4, 5])))
    assert (type(play.last), play.last.member_id) == (kafka.JoinRequest, "p")


@pytest.mark.parametrize(
    "members",
    [
        (has("a", 0, 1, 2, 3), has("b", 4, 5)),
        (has("a", 0, 1, 2), has("b", 3, 4)),
        (has("a", 0, 1, 2), has("b", 3, 4, 5)._replace(assignment=b"\0")),
        (has("a", 0, 1, 2), has("b", 3, 4, 5)._replace(subscription=b"\0")),
    ],
    ids=["another plan", "withheld", "unreadable assignment", "unreadable subscription"],
)
def test_a_daemon_that_comes_back_to_another_assignment_asks_for_a_round(play, members):
    come_back(play, *members)
    assert (type(play.last), play.last.member_id) == (kafka.JoinRequest, "p")
    assert play.state.led is None


def test_a_daemon_that_comes_back_between_two_rounds_asks_for_the_second(play):
    cooperative = {"protocol": "cooperative-sticky", "generation": 2}
    still = has("a", 0, 1, 2, owned={"t": (0, 1, 2, 3)}, **cooperative)
    come_back(play, still, has("b", 4, 5, **cooperative), protocol="cooperative-sticky")
    assert (type(play.last), play.last.member_id) == (kafka.JoinRequest, "p")


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_daemon_that_comes_back_joins_a_group_that_waits_for_it(play, state):
    play.describe(state, "", members=("a", "b", FORMER))
    play.join(generation=4)
    play.answer(kafka.SyncResponse(0, b""))
    assert play.state.standing is Standing.LEADS


def test_a_daemon_that_comes_back_and_does_not_lead_waits_for_the_lead(play):
    play.describe(members=("a", "b", FORMER))
    play.follow("a", "b", "p", leader="a")
    assert play.state.standing is Standing.WAITS_FOR_LEAD


def test_a_connection_that_is_lost_before_it_knows_whether_it_leads_lets_it_ask_again(play):
    play.describe(members=("a", "b", FORMER))
    play.join(leader=FORMER)
    play.answer(kafka.SyncResponse(0, b""))
    play.give(Disconnected("reset"))
    play.wake()
    play.give(Connected(VERSIONS))
    play.answer(kafka.HeartbeatResponse(0))
    assert (type(play.last), play.last.member_id) == (kafka.JoinRequest, "p")


@pytest.mark.parametrize(
    "response",
    [
        kafka.HeartbeatResponse(kafka.FENCED_INSTANCE_ID),
        kafka.JoinResponse(kafka.FENCED_INSTANCE_ID, -1, "", "", "", ()),
        kafka.SyncResponse(kafka.FENCED_INSTANCE_ID, b""),
    ],
    ids=lambda response: type(response).__name__,
)
def test_a_proxy_that_another_daemon_fenced_goes_without_a_farewell(play, response):
    play.lead()
    if isinstance(response, kafka.HeartbeatResponse):
        play.wake()
    else:
        play.give(PlanArrived(plan(2, a=[5], b=[0, 1, 2, 3, 4])))
        if isinstance(response, kafka.SyncResponse):
            play.join(generation=4)
    play.answer(response)
    assert play.departed == [""]
    assert play.of("proxy.fenced") == [{"group": "g", "retry_in": SETTINGS.session_timeout / 2}]
    assert play.state.led is None
    # It was fenced by a daemon that does not lead: the membership is its own again.
    play.wake()
    play.give(Connected(VERSIONS))
    play.survey("a", "b", FORMER)
    assert (play.last.member_id, play.last.instance_id) == ("", INSTANCE)


def test_it_offers_every_protocol_that_it_can_lead_with_a_subscription_to_nothing(play):
    play.describe(protocol="roundrobin")
    offered = dict(play.last.protocols)
    assert set(offered) == {"range", "roundrobin", "sticky", "cooperative-sticky"}
    assert {raw[:6] for raw in offered.values()} == {b"\0\0" + b"\0\0\0\0"}


def test_a_member_that_does_not_lead_has_nothing_and_sends_heartbeats(play):
    play.wait_for_lead()
    assert play.state.standing is Standing.WAITS_FOR_LEAD
    for _ in range(3):
        play.wake()
        assert play.last == kafka.HeartbeatRequest("g", 3, "p", INSTANCE)
        play.answer(kafka.HeartbeatResponse(0))
    play.give(PlanArrived(plan(2, a=[5], b=[0, 1, 2, 3, 4])))
    assert isinstance(play.last, kafka.HeartbeatRequest), "only the leader asks for a rebalance"
    # The leader goes: the next generation is the proxy's.
    play.rebalance()
    assert play.last.member_id == "p"
    play.join(generation=4)
    play.answer(kafka.SyncResponse(0, b""))
    assert play.state.standing is Standing.LEADS
    assert play.state.shares == {"a": {"t": (5,)}, "b": {"t": (0, 1, 2, 3, 4)}}


@pytest.mark.parametrize("raw", [b"", ConsumerAssignment(partitions={}).encode()])
def test_an_assignment_of_nothing_is_taken_in_both_its_forms(play, raw):
    play.describe()
    play.join(leader="a")
    play.answer(kafka.SyncResponse(0, raw))
    play.survey("a", "p")
    assert play.state.standing is Standing.WAITS_FOR_LEAD


@pytest.mark.parametrize(
    "raw", [b"\0", b"\xff\xff\0\0", ConsumerAssignment(partitions={"t": (0,)}).encode()]
)
def test_an_assignment_that_gives_it_something_or_cannot_be_read_makes_it_leave(play, raw):
    play.describe()
    play.join(leader="a")
    play.answer(kafka.SyncResponse(0, raw))
    assert left(play)


def left(play):
    """Whether the proxy left at once, said why, and will come again."""
    (line,) = play.of("proxy.left")
    assert line["reason"]
    assert line["action"]
    assert play.departed[-1] == "p"
    assert play.state.phase is ProxyPhase.AWAY
    assert play.state.wake_at == play.now + line["retry_in"]
    return play.state.standing is Standing.BACKS_OFF


def test_a_subscription_that_cannot_be_read_makes_the_leader_leave_before_it_answers(play):
    play.describe()
    bad = (Joiner(id="a", offers={"range": b"\0"}), joiner("p", "range", ()))
    play.join(joiners=bad)
    assert left(play)
    assert not any(isinstance(request, kafka.SyncRequest) for request in play.sent)


def test_a_topic_without_a_layout_makes_it_leave(play):
    del play.layouts["t"]
    play.describe()
    play.join()
    assert left(play)


def test_a_protocol_that_it_does_not_know_makes_it_leave(play):
    play.describe()
    play.join(protocol="own")
    assert left(play)


def test_the_pause_doubles_with_each_time_that_it_leaves_up_to_a_limit(play):
    del play.layouts["t"]
    play.describe()
    play.join()
    for _ in range(4):
        play.wake()
        play.give(Connected(VERSIONS))
        play.answer(DescribedGroup(0, "Stable", "consumer", "range", ()))
        play.join()
    assert [line["retry_in"] for line in play.of("proxy.left")] == [5.0, 10.0, 20.0, 40.0, 40.0]


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (("Stable", "own"), "the protocol 'own'"),
        (("Stable", "range", "connect"), "of the type 'connect'"),
    ],
)
def test_a_group_that_it_cannot_lead_is_refused_without_joining(play, described, reason):
    play.describe(*described)
    (line,) = play.of("proxy.refused")
    assert reason in line["reason"]
    assert play.state.standing is Standing.REFUSED
    assert not any(isinstance(request, kafka.JoinRequest) for request in play.sent)


def test_a_group_that_turns_into_one_of_kip_848_is_left(play):
    play.lead()
    play.wake()
    play.answer(kafka.HeartbeatResponse(kafka.REBALANCE_IN_PROGRESS))
    play.join(leader="", generation=4)
    assert play.departed[-1] == "p"
    assert play.state.standing is Standing.WAITS_FOR_MEMBERS


@pytest.mark.parametrize(
    ("state", "error"),
    [("Dead", kafka.GROUP_ID_NOT_FOUND), ("Dead", kafka.UNSUPPORTED_VERSION), ("Empty", None)],
)
def test_a_group_without_members_is_looked_at_again(play, state, error):
    play.describe(state, "", "")
    if error is not None:
        play.answer(DescribedConsumerGroup(error))
    assert play.state.standing is Standing.WAITS_FOR_MEMBERS
    assert play.of("proxy.left") == []
    play.wake()
    assert isinstance(play.last, DescribeGroupRequest)
    play.answer(DescribedGroup(0, "PreparingRebalance", "consumer", "", ()))
    play.wake()
    play.answer(DescribedGroup(0, "Stable", "consumer", "range", ()))
    assert isinstance(play.last, kafka.JoinRequest)


def test_it_leaves_a_group_when_all_others_have_left(play):
    play.lead()
    play.wake()
    play.answer(kafka.HeartbeatResponse(kafka.REBALANCE_IN_PROGRESS))
    play.join(members=(), generation=4)
    assert play.departed[-1] == "p"
    assert play.state.standing is Standing.WAITS_FOR_MEMBERS
    assert play.of("proxy.left") == [], "there is nothing unusual about it"


def test_a_newer_plan_that_moves_something_asks_for_a_rebalance_at_once(play):
    play.lead()
    play.give(PlanArrived(plan(2, a=[0, 1, 2], b=[3, 4, 5])))
    assert isinstance(play.last, kafka.SyncRequest), "nothing moves"
    play.give(PlanArrived(plan(3, a=[0, 1], b=[2, 3, 4, 5])))
    assert play.last.member_id == "p"
    assert isinstance(play.last, kafka.JoinRequest)
    play.join(generation=4)
    assert play.state.epoch == (1, 3)


def test_a_plan_that_comes_while_the_group_joins_is_applied_afterwards(play):
    play.describe()
    play.join()
    play.give(PlanArrived(plan(2, a=[0], b=[1, 2, 3, 4, 5])))
    play.answer(kafka.SyncResponse(0, b""))
    assert isinstance(play.last, kafka.JoinRequest)


def test_a_topic_that_grows_asks_for_a_rebalance_with_the_next_heartbeat(play):
    play.lead()
    play.layouts["t"] = layout("t", 8)
    play.wake()
    assert isinstance(play.last, kafka.JoinRequest)
    play.join(generation=4)
    given = [ConsumerAssignment.decode(raw).partitions for raw in play.last.assignments.values()]
    assert sorted(n for share in given for n in share.get("t", ())) == list(range(8))


def test_a_topic_that_was_recreated_asks_for_a_rebalance_with_the_next_heartbeat(play):
    play.lead()
    play.layouts["t"] = replace(layout("t", 6), at=2)
    play.wake()
    assert isinstance(play.last, kafka.HeartbeatRequest), "the same topic"
    play.answer(kafka.HeartbeatResponse(0))
    play.layouts["t"] = replace(layout("t", 6), id="another id")
    play.wake()
    assert isinstance(play.last, kafka.JoinRequest)


@pytest.mark.parametrize("lost", [False, True], ids=["connected", "connection lost"])
def test_a_cooperative_group_gets_what_moves_in_a_second_round(play, lost):
    protocol = "cooperative-sticky"
    play.describe(protocol=protocol)
    had = {"a": (3, 4, 5), "b": (0, 1, 2)}

    def joiners(held, generation):
        claims = {"generation": generation}
        return (
            *(joiner(name, protocol, owned={"t": held[name]}, **claims) for name in held),
            joiner("p", protocol, ()),
        )

    play.join(protocol=protocol, joiners=joiners(had, 2))
    assert play.of("proxy.assigned")[-1]["withheld"] == 6
    play.answer(kafka.SyncResponse(0, b""))
    if lost:
        play.give(Disconnected("reset"))
        play.wake()
        play.give(Connected(VERSIONS))
        play.answer(kafka.HeartbeatResponse(0))
    # Members that gave something up ask for the second round; if none does, the proxy asks.
    play.wake()
    assert isinstance(play.last, kafka.JoinRequest)
    play.join(protocol=protocol, joiners=joiners({"a": (), "b": ()}, 3), generation=4)
    assert play.of("proxy.assigned")[-1]["withheld"] == 0
    play.answer(kafka.SyncResponse(0, b""))
    play.wake()
    assert isinstance(play.last, kafka.HeartbeatRequest)


def test_members_that_never_give_way_are_left_to_themselves(play):
    protocol = "cooperative-sticky"
    play.describe(protocol=protocol)
    stubborn = (
        joiner("a", protocol, owned={"t": (3,)}, generation=9),
        joiner("b", protocol),
        joiner("p", protocol, ()),
    )
    for generation in range(3, 20):
        play.join(protocol=protocol, joiners=stubborn, generation=generation)
        if play.state.phase is ProxyPhase.AWAY:
            break
        play.answer(kafka.SyncResponse(0, b""))
        while play.state.phase is ProxyPhase.STABLE:
            play.wake()
            if play.state.phase is ProxyPhase.STABLE:
                play.answer(kafka.HeartbeatResponse(0))
    assert left(play)
    assert generation == 9


def test_a_lost_connection_is_opened_again_and_the_membership_outlives_it(play):
    play.lead()
    play.give(Disconnected("reset"))
    assert play.state.member_id == "p"
    play.wake()
    play.give(Connected(VERSIONS))
    assert play.last == kafka.HeartbeatRequest("g", 3, "p", INSTANCE)
    play.answer(kafka.HeartbeatResponse(0))
    assert play.state.phase is ProxyPhase.STABLE
    assert play.state.leads


@pytest.mark.parametrize("breaks", [0, 1, 3])
@pytest.mark.parametrize("when", ["connecting", "resuming"])
def test_a_plan_that_comes_while_the_connection_is_opened_again_is_dictated(play, when, breaks):
    play.lead()
    news = PlanArrived(plan(2, a=[5], b=[0, 1, 2, 3, 4]))
    for number in range(breaks + 1):
        play.give(Disconnected("reset"))
        if when == "connecting" and number == 0:
            play.give(news)
        play.wake()
        play.give(Connected(VERSIONS))
    if when == "resuming":
        play.give(news)
    play.answer(kafka.HeartbeatResponse(0))
    play.join(generation=4)
    play.answer(kafka.SyncResponse(0, b""))
    assert (play.state.phase, play.state.epoch) == (ProxyPhase.STABLE, play.state.plan.epoch)


def test_a_connection_that_is_lost_while_the_group_joins_leads_to_another_join(play):
    play.lead()
    play.give(PlanArrived(plan(2, a=[5], b=[0, 1, 2, 3, 4])))
    play.give(Disconnected("reset"))
    play.wake()
    play.give(Connected(VERSIONS))
    play.answer(kafka.HeartbeatResponse(0))
    assert isinstance(play.last, kafka.JoinRequest)
    assert play.last.member_id == "p"


def test_a_proxy_that_the_brokers_dropped_starts_again_without_a_farewell(play):
    play.lead()
    play.wake()
    play.answer(kafka.HeartbeatResponse(kafka.UNKNOWN_MEMBER_ID))
    assert play.departed[-1] == ""
    assert play.state.standing is Standing.BACKS_OFF


def test_a_heartbeat_without_an_answer_is_a_lost_connection(play):
    play.lead()
    for _ in range(7):
        play.wake()
    assert play.state.phase is ProxyPhase.CONNECTING
    heartbeats = [r for r in play.sent if isinstance(r, kafka.HeartbeatRequest)]
    assert len(heartbeats) == 1, "one at a time"


def test_connections_that_fail_are_tried_again_ever_more_rarely(play):
    play.describe()
    pauses = []
    for _ in range(8):
        play.give(Disconnected("refused"))
        pauses.append(play.of("proxy.disconnected")[-1]["retry_in"])
        play.wake()
    assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_member_looks_for_another_coordinator_often_enough_to_outlive_its_session(play):
    play.lead()
    pauses = []
    for _ in range(8):
        play.give(Disconnected("refused"))
        pauses.append(play.of("proxy.disconnected")[-1]["retry_in"])
        play.wake()
    assert pauses == [0.0, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert max(pauses) <= SETTINGS.session_timeout / 3


@pytest.mark.parametrize("way_in", ["lead", "wait_for_lead", "describe"])
def test_a_daemon_that_stops_leaves_its_membership_to_the_next_one(play, way_in):
    getattr(play, way_in)()
    assert play.give(Stopped()) == [Depart("")]
    assert play.give(Woken()) == play.give(PlanArrived(None)) == []


def test_a_fault_of_its_own_makes_it_leave(play):
    play.lead()
    play.give(Broken("ZeroDivisionError: division by zero"))
    assert left(play)


RESPONSES = [
    lambda rng: DescribedGroup(
        rng.choice([0, 0, 0, 15, 16, 30, 69]),
        rng.choice(["Stable", "Stable", "Empty", "Dead", "PreparingRebalance"]),
        rng.choice(["consumer", "consumer", "connect"]),
        rng.choice(["range", "cooperative-sticky", "own"]),
        (),
    ),
    lambda rng: DescribedConsumerGroup(
        rng.choice([0, 0, 0, 16, 69]),
        tuple(
            DescribedMember(
                name,
                None,
                "client",
                rack=rng.choice(["a", *rack_ids((1, rng.randrange(99)), {}, {})]),
                target={"t": (0,)},
                classic=rng.random() < 0.2,
            )
            for name in rng.choice([("a", f"{INSTANCE}.0"), ("a", "b"), (f"{INSTANCE}.0",), ()])
        ),
        rng.choice(["levelwind", "levelwind", "uniform"]),
    ),
    lambda rng: ConsumerHeartbeatResponse(
        rng.choice([0, 0, 0, 0, 16, 25, 30, 110, 112]),
        None,
        rng.choice([f"{INSTANCE}.0", f"{INSTANCE}.0", "other"]),
        rng.randrange(9),
        rng.choice([200, 5000]),
    ),
    lambda rng: kafka.JoinResponse(
        rng.choice([0, 0, 0, 0, 16, 22, 23, 25, 27, 82]),
        rng.randrange(9),
        (protocol := rng.choice(["range", "cooperative-sticky", "own"])),
        rng.choice(["p", "p", "a", ""]),
        "p",
        tuple(
            joiner(name, protocol, rng.choice([("t",), ("u",), ("t", "u"), ("unknown",), ()]))
            if rng.random() < 0.95
            else Joiner(id=name, offers={protocol: rng.randbytes(5)})
            for name in rng.choice([("a", "p"), ("a", "b", "p"), ("p",)])
        ),
    ),
    lambda rng: kafka.SyncResponse(
        rng.choice([0, 0, 16, 22, 25, 27, 82]), rng.choice([b"", b"\0"])
    ),
    lambda rng: kafka.HeartbeatResponse(rng.choice([0, 0, 0, 16, 22, 25, 27, 30, 82])),
    lambda rng: kafka.LeaveResponse(rng.choice([0, 25])),
]


def check_carriers(state):
    """There are carriers in a KIP-848 group alone, and once they rest they have the newest plan."""
    assert bool(state.carriers) == (state.phase is ProxyPhase.CARRYING) or (
        state.phase in {ProxyPhase.CONNECTING, ProxyPhase.DESCRIBING}
    )
    if state.phase is ProxyPhase.CARRYING:
        assert state.wake_at < NEVER
        if not any(carrier.awaits_answer for carrier in state.carriers):
            assert state.epoch in {state.plan.epoch, None}


@pytest.mark.parametrize("seed", range(20))
def test_any_events_in_any_order_leave_it_consistent_and_able_to_go_on(seed):
    rng, play = random.Random(seed), Play()
    for _ in range(200):
        before, sent, departed = play.state, len(play.sent), len(play.departed)
        event = rng.choice(
            [
                lambda: Answered(rng.choice(RESPONSES)(rng)),
                lambda: Answered(rng.choice(RESPONSES)(rng)),
                Woken,
                Woken,
                lambda: Connected(rng.choice([VERSIONS, {}])),
                lambda: BrokersAnswered(
                    *rng.choice([((), ""), ((), ""), ((1,), ""), ((), "no answer")])
                ),
                lambda: Disconnected("reset"),
                lambda: PlanArrived(
                    rng.choice([None, plan(rng.randrange(1, 99), a=[rng.randrange(6)])])
                ),
                lambda: Broken("fault"),
            ]
        )()
        if isinstance(event, Woken) and before.wake_at < NEVER:
            play.now = max(play.now, before.wake_at)
        play.now += rng.random()
        play.give(event)
        state = play.state
        # Whoever is outside is no member, and something will wake it unless a plan must come.
        if state.phase is ProxyPhase.AWAY:
            assert (state.member_id, state.leads) == ("", False)
            assert state.wake_at < NEVER or state.standing is Standing.WAITS_FOR_PLAN
        # A membership ends with a farewell, or because the brokers ended it.
        if before.member_id and not state.member_id:
            farewell = play.departed[departed:]
            assert before.member_id in farewell or isinstance(event, Answered)
        check_carriers(state)
        # Nobody but the leader gives an assignment, and never a partition twice.
        for request in play.sent[sent:]:
            if isinstance(request, kafka.SyncRequest) and request.assignments:
                assert state.leads
                given = [
                    (topic, number)
                    for raw in request.assignments.values()
                    for topic, numbers in ConsumerAssignment.decode(raw).partitions.items()
                    for number in numbers
                ]
                assert len(given) == len(set(given))
                assert ConsumerAssignment.decode(request.assignments["p"]).partitions == {}
        if state.phase is ProxyPhase.STABLE:
            assert state.wake_at < NEVER
    play.give(Stopped())
    assert play.state.phase is ProxyPhase.ENDED

"""The proxy in a KIP-848 group, by transcripts: what it tells the coordinator, and mishaps."""

from random import Random

import pytest

from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.protocol.kafka.carried_plan import epoch_of, rack_ids
from levelwind.daemon.proxy.proxy_machine import step
from levelwind.daemon.proxy.proxy_state import (
    Answered,
    AskBrokers,
    BrokersAnswered,
    Connect,
    Connected,
    Depart,
    Disconnected,
    LedMember,
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
from levelwind.daemon.wire import group_requests as kafka
from levelwind.daemon.wire.consumer_heartbeat import (
    FENCED_MEMBER_EPOCH,
    LEAVING,
    UNSUPPORTED_ASSIGNOR,
    ConsumerHeartbeatRequest,
    ConsumerHeartbeatResponse,
)
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
)
from levelwind_testing.proxied import LAYOUTS, plan

INSTANCE = "levelwind.proxy"
CARRIER = f"{INSTANCE}.0"
CONTEXT = ProxyContext(instance_id=INSTANCE, settings=ProxySettings(retry=5.0), layouts=LAYOUTS)
VERSIONS = {DescribeConsumerGroupRequest.KEY: (0, 1), ConsumerHeartbeatRequest.KEY: (0, 1)}
DESCRIBE = DescribeConsumerGroupRequest("g", typed=True)


def member(name, rack="a", target=(), **more):
    share = {"t": tuple(target)} if target else {}
    return DescribedMember(name, None, "client", rack=rack, topics=("t",), target=share, **more)


def carrier(epoch, number=0):
    (rack,) = rack_ids((1, epoch), {}, {})
    return member(f"{INSTANCE}.{number}", rack)


class Play:
    """One proxy in group g, its clock, and what it asked for."""

    def __init__(self):
        self.state, self.now = ProxyState(group="g"), 100.0
        self.sent, self.log, self.departed, self.connects, self.asked = [], [], [], 0, 0

    def give(self, event):
        self.state, effects = step(self.state, event, self.now, CONTEXT)
        for effect in effects:
            match effect:
                case Send(request=request):
                    self.sent.append(request)
                case Depart():
                    self.departed.append(effect)
                case ProxyLog():
                    self.log.append(effect)
                case Connect():
                    self.connects += 1
                case AskBrokers():
                    self.asked += 1
        return effects

    def wake(self):
        self.now = max(self.now, self.state.wake_at)
        return self.give(Woken())

    def beat(self, epoch=1, error=0, number=0, interval=5000):
        """The coordinator's answer to a heartbeat."""
        answer = ConsumerHeartbeatResponse(error, None, f"{INSTANCE}.{number}", epoch, interval)
        return self.give(Answered(answer))

    def described(self, *members, assignor="levelwind", error=0):
        return self.give(Answered(DescribedConsumerGroup(error, members, assignor)))

    def describe(self):
        """The coordinator says that it has no such classic group."""
        self.give(Answered(DescribedGroup(0, "Dead", "", "", ())))

    def connect(self, versions=VERSIONS, lacking=()):
        self.wake()
        self.give(Connected(versions))
        self.describe()
        self.described(member("a"), assignor="uniform")
        self.give(BrokersAnswered(lacking))
        if not lacking:
            self.describe()

    def join(self, *members, planned=None, **versions):
        self.give(PlanArrived(planned or plan(1, a=[0, 1, 2], b=[3, 4, 5])))
        self.connect(**versions)
        self.described(*(members or (member("a"), member("b"))), assignor="uniform")

    def lead(self):
        self.join()
        self.beat(epoch=4)
        assert self.sent[-1] == DESCRIBE
        self.described(member("a", target=[0, 1, 2]), member("b", target=[3, 4, 5]), carrier(1))

    def heartbeats(self):
        return [one for one in self.sent if isinstance(one, ConsumerHeartbeatRequest)]

    def of(self, event):
        return [dict(fields) for name, fields in self.log if name == event]


@pytest.fixture
def play():
    return Play()


def test_it_joins_with_the_plan_and_the_assignor_and_reads_nothing(play):
    play.join()
    request = play.sent[-1]
    shares = {"a": {"t": (0, 1, 2)}, "b": {"t": (3, 4, 5)}}
    (rack,) = rack_ids((1, 1), shares, {"t": LAYOUTS["t"].id})
    assert request == ConsumerHeartbeatRequest(
        group="g",
        member_id=CARRIER,
        epoch=0,
        rack_id=rack,
        topics=(f"{INSTANCE}.plan.1.1",),
        assignor="levelwind",
    )
    assert play.of("proxy.carried") == [
        {"group": "g", "plan": [1, 1], "carriers": 1, "characters": len(rack)}
    ]


def test_it_leads_once_the_group_goes_by_the_plan_and_knows_the_members(play):
    play.lead()
    assert play.state.standing is Standing.LEADS
    assert play.state.led == {
        "a": LedMember(("t",), "a", {"t": (0, 1, 2)}),
        "b": LedMember(("t",), "a", {"t": (3, 4, 5)}),
    }
    assert play.of("proxy.leading") == [{"group": "g", "generation": 4}]


def test_whoever_has_a_pattern_reads_each_topic_that_one_of_those_has_partitions_of(play):
    play.join()
    play.beat(epoch=4)
    matching = {"topics": None, "pattern": "^[tu]$"}
    play.described(
        member("a", target=[0, 1])._replace(**matching),
        member("b")._replace(target={"u": (0,)}, **matching),
        member("c")._replace(**matching),
        member("d")._replace(topics=None),
        member("e"),
        member("f")._replace(topics=("v",), pattern="^[tu]$"),
        carrier(1),
    )
    assert {name: led.topics for name, led in play.state.led.items()} == {
        "a": ("t", "u"),
        "b": ("t", "u"),
        "c": ("t", "u"),
        "d": (),
        "e": ("t",),
        "f": ("t", "u", "v"),
    }


def test_a_heartbeat_says_nothing_and_another_epoch_asks_for_the_members(play):
    play.lead()
    play.wake()
    assert play.sent[-1] == ConsumerHeartbeatRequest(group="g", member_id=CARRIER, epoch=4)
    play.beat(epoch=4)
    assert play.sent[-1] != DESCRIBE
    play.wake()
    play.beat(epoch=5)
    assert play.sent[-1] == DESCRIBE
    led = play.state.led
    play.described(member("a", target=[0, 1, 2]), member("b", target=[3, 4, 5]), carrier(1))
    assert play.state.led is led
    play.described(member("a", target=[0, 1]), member("c", target=[2, 3, 4, 5]), carrier(1))
    assert sorted(play.state.led) == ["a", "c"]


def test_heartbeats_come_fast_until_a_plan_had_its_time(play):
    play.lead()
    pauses = []
    for _ in range(20):
        play.wake()
        play.beat(epoch=4)
        pauses.append(play.state.wake_at - play.now)
    assert pauses == [1.0] * 14 + [5.0] * 6


def test_a_plan_is_told_at_once_or_after_the_answer_that_is_under_way(play):
    play.lead()
    play.give(PlanArrived(plan(2, a=[0])))
    told = play.sent[-1]
    assert (told.epoch, epoch_of(told.rack_id), told.assignor) == (4, (1, 2), None)
    assert told.topics == (f"{INSTANCE}.plan.1.2",)
    assert play.give(PlanArrived(plan(3, a=[1]))) == []
    play.beat(epoch=5)
    assert epoch_of(play.heartbeats()[-1].rack_id) == (1, 3)


def test_a_large_plan_has_several_carriers_and_those_of_a_smaller_one_leave(play):
    draw = Random(1)
    names = [f"{draw.getrandbits(128):032x}" for _ in range(3000)]
    assignments = {name: {"t": (number,)} for number, name in enumerate(names)}
    large = PublishedPlan(epoch=PlanEpoch(1, 1), assignments=assignments)
    play.join(planned=large)
    parts = play.heartbeats()
    assert [one.member_id for one in parts] == [f"{INSTANCE}.{n}" for n in range(len(parts))]
    assert len(parts) > 1
    assert [one.topics for one in parts[:-1]] == [()] * (len(parts) - 1)
    assert parts[-1].topics == (f"{INSTANCE}.plan.1.1",)
    for number in range(len(parts)):
        assert play.state.carriers[number].awaits_answer
        play.beat(epoch=4, number=number)
    play.give(PlanArrived(plan(2, a=[0])))
    told, *leaving = play.heartbeats()[len(parts) :]
    assert (told.member_id, told.epoch) == (CARRIER, 4)
    assert [(one.member_id, one.epoch) for one in leaving] == [
        (f"{INSTANCE}.{number}", LEAVING) for number in range(1, len(parts))
    ]
    assert [one.member_id for one in play.state.carriers] == [CARRIER]


def test_a_topic_that_the_daemon_does_not_know_is_left_to_the_assignor(play):
    shares = {"a": {"unknown": (0,), "t": (1,)}}
    play.join(planned=PublishedPlan(epoch=PlanEpoch(1, 1), assignments=shares))
    (rack,) = rack_ids((1, 1), {"a": {"t": (1,)}}, {"t": LAYOUTS["t"].id})
    assert play.sent[-1].rack_id == rack


def test_members_that_name_another_assignor_are_not_led(play):
    play.join()
    play.beat(epoch=4)
    play.described(member("a"), carrier(1), assignor="uniform")
    assert play.state.standing is Standing.WAITS_FOR_LEAD
    assert "'uniform'" in play.state.reason
    assert play.state.led is None


@pytest.mark.parametrize(
    "members",
    [(), (member("a", classic=True), member("b", classic=True))],
    ids=["nobody reads", "all speak the classic protocol again"],
)
def test_the_carriers_leave_a_group_that_they_alone_keep_as_it_is(play, members):
    play.lead()
    play.described(*members, carrier(1))
    assert play.departed[-1] == Depart("", (CARRIER,))
    assert play.state.standing is Standing.WAITS_FOR_MEMBERS


def test_the_carriers_of_a_daemon_that_is_gone_leave_an_empty_group(play):
    play.join(carrier(1), carrier(1, 1))
    assert play.departed[-1] == Depart("", (CARRIER, f"{INSTANCE}.1"))


def test_without_a_plan_any_more_the_carriers_leave(play):
    play.lead()
    play.give(PlanArrived(None))
    assert play.departed[-1] == Depart("", (CARRIER,))
    assert (play.state.standing, play.state.led) == (Standing.WAITS_FOR_PLAN, None)


@pytest.mark.parametrize(
    ("error", "event", "farewell"),
    [
        (UNSUPPORTED_ASSIGNOR, "proxy.refused", (CARRIER,)),
        (FENCED_MEMBER_EPOCH, "proxy.fenced", ()),
        (kafka.UNKNOWN_MEMBER_ID, "proxy.left", (CARRIER,)),
        (kafka.GROUP_AUTHORIZATION_FAILED, "proxy.left", (CARRIER,)),
        (kafka.NOT_COORDINATOR, "proxy.disconnected", ()),
    ],
)
def test_an_error_of_the_coordinator_ends_the_membership_or_finds_another_one(
    play, error, event, farewell
):
    play.lead()
    play.wake()
    play.beat(error=error)
    assert play.of(event)
    assert play.departed[-1] == Depart("", farewell)
    assert play.state.phase in {ProxyPhase.AWAY, ProxyPhase.CONNECTING}


def test_it_joins_no_group_that_a_broker_without_the_assignor_may_coordinate(play):
    """Such a coordinator ends the group's members."""
    play.give(PlanArrived(plan(1, a=[0])))
    play.connect(lacking=(2, 3))
    (line,) = play.of("proxy.refused")
    assert "brokers 2, 3" in line["reason"]
    assert play.heartbeats() == []


def test_brokers_that_do_not_tell_their_assignors_are_asked_again_later(play):
    play.give(PlanArrived(plan(1, a=[0])))
    play.wake()
    play.give(Connected(VERSIONS))
    play.describe()
    play.described(member("a"))
    assert play.asked == 1
    play.give(BrokersAnswered((), "broker 2 does not tell: error 31"))
    assert "error 31" in play.of("proxy.left")[0]["reason"]
    play.connect()
    assert play.asked == 2
    play.described(member("a"))
    assert play.heartbeats()
    assert play.give(BrokersAnswered((1,))) == []


def test_each_connection_asks_the_brokers_again(play):
    play.lead()
    play.give(Disconnected("reset"))
    play.connect(lacking=(1,))
    assert play.asked == 2
    assert play.of("proxy.refused")


@pytest.mark.parametrize("newest", [None, 0])
def test_a_coordinator_without_the_request_has_no_assignor_either(play, newest):
    old = dict(VERSIONS)
    del old[ConsumerHeartbeatRequest.KEY]
    play.join(versions=old if newest is None else old | {ConsumerHeartbeatRequest.KEY: (0, newest)})
    (line,) = play.of("proxy.refused")
    assert "docs/coordinator.md" in line["action"]


def test_a_lost_connection_and_a_missing_answer_let_it_join_again_as_the_same_member(play):
    play.lead()
    play.give(Disconnected("reset"))
    play.connect()
    play.described(member("a"), carrier(1))
    assert (play.sent[-1].member_id, play.sent[-1].epoch) == (CARRIER, 0)
    play.wake()
    assert "did not answer" in play.of("proxy.disconnected")[-1]["error"]


def test_a_plan_that_a_deposed_daemon_told_is_told_anew_and_a_newer_one_is_another_daemons(play):
    play.lead()
    play.give(PlanArrived(plan(2, a=[0])))
    play.beat(epoch=5)
    play.described(member("a"), carrier(1))
    play.wake()
    assert epoch_of(play.sent[-1].rack_id) == (1, 2)
    play.beat(epoch=6)
    play.described(member("a"), carrier(3))
    assert play.departed[-1] == Depart("")
    assert play.of("proxy.fenced")
    play.connect()
    play.described(member("a"), carrier(3))
    assert len(play.of("proxy.fenced")) == 2


def test_a_daemon_that_stops_leaves_the_carriers_to_the_next_one(play):
    play.lead()
    assert play.give(Stopped()) == [Depart("")]

"""Members that follow published plans, without brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.clients.classic import published_assignor
from levelwind.assignors.clients.classic.cluster_view import ClusterView
from levelwind.assignors.clients.classic.published_assignor import (
    CooperativePublishedAssignor,
    PublishedAssignor,
)
from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.clients.group_join import Joiner
from levelwind.assignors.clients.published_plans import PlanMailbox
from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerSubscription
from levelwind.assignors.protocol.records import (
    PlanShard,
    Tombstone,
    cutting,
    encode,
    encode_key,
)
from levelwind.assignors.protocol.records.cutting import cut_assignments
from levelwind_testing.kafka.classic_shells import JoinedConsumer, partitions_in
from levelwind_testing.records import plan as plan_record
from levelwind_testing.refused_threads import REFUSAL

VIEW = ClusterView({"t": (frozenset(),) * 4})


class Plans:
    """A source whose plans the test publishes."""

    def __init__(self):
        self.plan, self.listeners = None, []

    def follow(self, notify):
        self.listeners.append(notify)

    def newest(self, _timeout):
        return self.plan

    def publish(self, epoch, **assignments):
        self.plan = PublishedPlan(
            epoch=PlanEpoch(1, epoch),
            assignments={
                name: {"t": tuple(held)} if held else {} for name, held in assignments.items()
            },
        )
        for notify in self.listeners:
            notify()


class Timers:
    """The timers of members, on a clock that goes on when the test says so."""

    def __init__(self):
        self.now, self.due = 0.0, []

    def __call__(self, wait, call):
        """Make a timer, as `threading.Timer` does."""
        return Timer(lambda: self.due.append((self.now + wait, call)))

    def pass_for(self, seconds):
        self.now += seconds
        over = [call for at, call in self.due if at <= self.now]
        self.due = [(at, call) for at, call in self.due if at > self.now]
        for call in over:
            call()


class Timer:
    def __init__(self, start):
        self.start = start


@pytest.fixture(autouse=True)
def timers(monkeypatch):
    timers = Timers()
    monkeypatch.setattr(published_assignor, "Timer", timers)
    return timers


class Round:
    """A group of members in one process; the first one leads."""

    def __init__(self, kind=PublishedAssignor, *names, jitter=0.0):
        self.plans = Plans()
        self.consumers = {name: JoinedConsumer() for name in names}
        self.members = {
            name: kind(plans=self.plans, instance=name, jitter=jitter) for name in names
        }
        for name, member in self.members.items():
            member.attach(self.consumers[name])
        self.generation = 0

    def rebalance(self, *names, lead=None):
        """One generation of some members; by name, the partitions that they were assigned."""
        joiners = [
            Joiner(id=f"id-{name}", offers={self.members[name].name: raw})
            for name in names
            for raw in [self.members[name].join_bytes(["t"])]
        ]
        answer = self.members[lead or names[0]].assignment_bytes(VIEW, joiners)
        self.generation += 1
        held = {}
        for name in names:
            share = partitions_in(answer[f"id-{name}"])
            self.members[name].take({t: tuple(n) for t, n in share.items()}, self.generation)
            held[name] = share.get("t", [])
        return held

    def requests(self):
        return {name: len(consumer.requests) for name, consumer in self.consumers.items()}


def test_without_a_plan_the_local_strategy_assigns():
    group = Round(PublishedAssignor, "a", "b")
    held = group.rebalance("a", "b")
    assert sorted(map(len, held.values())) == [2, 2]
    assert group.rebalance("a", "b") == held, "it keeps what members have"


@pytest.mark.parametrize(("first", "second"), [(1, 2), (9, 1)], ids=["newer", "of another topic"])
def test_a_plan_is_applied_and_a_newer_one_makes_the_leader_ask_at_once(first, second):
    """Epochs begin again where the topic was made again."""
    group = Round(PublishedAssignor, "a", "b", jitter=60.0)
    group.plans.publish(first, a=[0], b=[1, 2, 3])
    assert group.rebalance("a", "b") == {"a": [0], "b": [1, 2, 3]}
    assert group.requests() == {"a": 0, "b": 0}
    group.plans.publish(second, a=[0, 1, 2], b=[3])
    assert group.requests() == {"a": 1, "b": 0}
    assert group.rebalance("a", "b") == {"a": [0, 1, 2], "b": [3]}


def test_a_plan_that_moves_nothing_asks_for_nothing(timers):
    group = Round(PublishedAssignor, "a", "b")
    group.plans.publish(1, a=[0, 1], b=[2, 3])
    group.rebalance("a", "b")
    group.plans.publish(2, a=[0, 1], b=[2, 3])
    group.plans.publish(3, a=[0, 1], b=[2, 3], gone=[])
    timers.pass_for(60.0)
    assert group.requests() == {"a": 0, "b": 0}


def test_members_that_do_not_lead_ask_later_and_only_if_no_rebalance_came(timers):
    """A leader of another kind may not know the plan; the bytes that join with it are others."""
    group = Round(PublishedAssignor, "a", "b", jitter=10.0)
    group.rebalance("a", "b")
    group.members["a"]._leads = False  # as if another client led
    before = group.members["b"].join_bytes(["t"])
    held = group.members["b"]._owned
    group.plans.publish(1, a=[0, 1, 2, 3], b=[])
    timers.pass_for(4.9)
    assert group.requests() == {"a": 0, "b": 0}
    timers.pass_for(5.1)
    assert group.requests() == {"a": 1, "b": 1}
    assert group.members["b"].join_bytes(["t"]) != before
    assert group.members["b"]._owned == held, "it keeps what it has until then"
    group.plans.publish(2, a=[0], b=[1, 2, 3])
    group.rebalance("a", "b")
    assert timers.due
    timers.pass_for(10.0)
    assert group.requests() == {"a": 1, "b": 1}, "a rebalance came first"


def test_a_member_that_leads_no_more_asks_as_late_as_the_others():
    group = Round(PublishedAssignor, "a", "b", jitter=60.0)
    group.plans.publish(1, a=[0], b=[1, 2, 3])
    group.rebalance("a", "b")
    group.rebalance("a", "b", lead="b")
    group.plans.publish(2, a=[0, 1, 2], b=[3])
    assert group.requests() == {"a": 0, "b": 1}


def test_a_leader_that_does_not_follow_is_asked_once_for_each_plan(timers):
    group = Round(PublishedAssignor, "a", "b", jitter=10.0)
    group.members["a"] = PublishedAssignor(plans=Plans(), instance="a")  # it learns of no plan
    group.rebalance("a", "b")
    group.plans.publish(1, a=[], b=[0, 1, 2, 3])
    for _ in range(3):
        timers.pass_for(10.0)
        assert group.requests()["b"] == 1
        group.rebalance("a", "b")
    group.plans.publish(2, a=[], b=[0, 1, 2, 3])
    timers.pass_for(10.0)
    assert group.requests()["b"] == 2


def test_a_member_that_gets_no_thread_to_wait_in_asks_at_once(monkeypatch):
    """The refusal ended the thread that reads the plans, or the rebalance."""

    def refuse():
        raise RuntimeError(REFUSAL)

    group = Round(PublishedAssignor, "a", "b", jitter=10.0)
    group.members["a"] = PublishedAssignor(plans=Plans(), instance="a")  # it learns of no plan
    group.rebalance("a", "b")
    monkeypatch.setattr(published_assignor, "Timer", lambda *_: Timer(refuse))
    group.plans.publish(1, a=[], b=[0, 1, 2, 3])
    assert group.requests()["b"] == 1


def test_a_member_whose_source_got_no_thread_follows_when_it_joins_again(monkeypatch):
    """It never followed a plan."""
    plans = Plans()
    member = PublishedAssignor(plans=plans, instance="a")

    def refuse(_):
        raise RuntimeError(REFUSAL)

    with monkeypatch.context() as patched:
        patched.setattr(plans, "follow", refuse)
        with pytest.raises(RuntimeError, match=REFUSAL):
            member.join_bytes(["t"])
    for _ in range(2):
        member.join_bytes(["t"])
    assert len(plans.listeners) == 1


def test_a_plan_that_arrives_while_the_group_joins_is_not_missed():
    group = Round(PublishedAssignor, "a", "b", jitter=60.0)
    joiners = [
        Joiner(id=f"id-{name}", offers={"levelwind": member.join_bytes(["t"])})
        for name, member in group.members.items()
    ]
    answer = group.members["a"].assignment_bytes(VIEW, joiners)
    group.plans.publish(1, a=[], b=[0, 1, 2, 3])  # after the answer, before it is taken
    group.members["a"].take({t: tuple(n) for t, n in partitions_in(answer["id-a"]).items()}, 1)
    assert group.requests()["a"] == 1


def test_members_that_a_plan_does_not_name_share_what_it_leaves_open():
    group = Round(PublishedAssignor, "a", "b", "c")
    group.plans.publish(1, a=[0], gone=[1, 2, 3])
    held = group.rebalance("a", "b", "c")
    assert 0 in held["a"]
    assert sorted(map(len, held.values())) == [1, 1, 2]
    assert sorted(held["a"] + held["b"] + held["c"]) == [0, 1, 2, 3]


def test_partitions_and_topics_that_a_member_cannot_have_are_left_out_of_a_plan():
    group = Round(PublishedAssignor, "a", "b")
    group.plans.publish(1, a=[0, 99], b=[0, 1])
    held = group.rebalance("a", "b")
    assert sorted(held["a"] + held["b"]) == [0, 1, 2, 3]
    assert 0 in held["a"]
    assert 1 in held["b"]


def test_a_plan_names_members_by_instance_id_or_else_by_member_id():
    plans = Plans()
    leader = PublishedAssignor(plans=plans)
    plain = PublishedAssignor(plans=plans).join_bytes(["t"])
    plans.publish(1, **{"id-x": [0, 1], "static": [2], "stated": [3]})
    stated = PublishedAssignor(plans=plans, instance="stated").join_bytes(["t"])
    joiners = [
        Joiner(id="id-x", offers={"levelwind": plain}),
        Joiner(id="id-y", instance_id="static", offers={"levelwind": plain}),
        Joiner(id="id-z", offers={"levelwind": stated}),
    ]
    answer = leader.assignment_bytes(VIEW, joiners)
    shares = {member: partitions_in(raw).get("t", []) for member, raw in answer.items()}
    assert shares == {"id-x": [0, 1], "id-y": [2], "id-z": [3]}


def test_of_two_members_with_one_instance_id_neither_gets_the_share():
    plans = Plans()
    leader = PublishedAssignor(plans=plans, instance="a")
    plans.publish(1, a=[0, 1, 2, 3])
    raw = leader.join_bytes(["t"])
    joiners = [Joiner(id=f"id-{n}", offers={"levelwind": raw}) for n in range(2)]
    answer = leader.assignment_bytes(VIEW, joiners)
    assert sorted(len(partitions_in(raw)["t"]) for raw in answer.values()) == [2, 2]


def test_user_data_that_is_not_ours_names_nobody():
    plans = Plans()
    leader = PublishedAssignor(plans=plans)
    for junk in (None, b"", b"?", b"[]", b'{"instance": 7}', b"\xff"):
        raw = ConsumerSubscription(topics=("t",), user_data=junk).encode()
        answer = leader.assignment_bytes(VIEW, [Joiner(id="m", offers={"levelwind": raw})])
        assert partitions_in(answer["m"]) == {"t": [0, 1, 2, 3]}


def test_a_cooperative_group_gets_a_plan_in_two_rounds():
    group = Round(CooperativePublishedAssignor, "a", "b")
    group.plans.publish(1, a=[0, 1, 2, 3], b=[])
    assert group.rebalance("a", "b") == {"a": [0, 1, 2, 3], "b": []}
    group.plans.publish(2, a=[0, 1], b=[2, 3])
    assert group.rebalance("a", "b") == {"a": [0, 1], "b": []}
    assert group.rebalance("a", "b") == {"a": [0, 1], "b": [2, 3]}


@given(
    shares=st.lists(st.sets(st.integers(0, 5)), min_size=4, max_size=4),
    present=st.sets(st.sampled_from("abcd"), min_size=1),
    again=st.sets(st.sampled_from("abcd"), min_size=1),
    kind=st.sampled_from([PublishedAssignor, CooperativePublishedAssignor]),
)
def test_whatever_a_plan_says_each_partition_has_one_owner(shares, present, again, kind):
    group = Round(kind, *"abcd", jitter=60.0)
    group.rebalance(*sorted(present))
    group.plans.publish(1, **dict(zip("abcd", map(sorted, shares), strict=True)))
    for _ in range(2):  # a cooperative group needs two rounds
        held = group.rebalance(*sorted(again))
        assert len({n for share in held.values() for n in share}) == sum(map(len, held.values()))
    assert sorted(n for share in held.values() for n in share) == [0, 1, 2, 3]
    claimed = [number for name in sorted(again) for number in shares["abcd".index(name)]]
    for name in again:
        only = {n for n in shares["abcd".index(name)] if n < 4 and claimed.count(n) == 1}
        assert only <= set(held[name])


def test_an_unfit_local_strategy_is_refused():
    with pytest.raises(ValueError, match="local: must be one of sticky, uniform, lag-global"):
        PublishedAssignor(plans=Plans(), local="range")
    with pytest.raises(TypeError, match="sticky takes no option 'max_moves'"):
        PublishedAssignor(plans=Plans(), max_moves=1)


# The newest plan in the log.


def written(epoch, mode="published", planner=1, group="g", **assignments):
    """The messages of a plan, in the order of its transaction."""
    shares = {name: {"t": tuple(held)} for name, held in assignments.items()}
    shards, cut = cut_assignments(group, epoch, shares)
    head = replace(
        plan_record(group),
        mode=mode,
        group_epoch=epoch,
        planner_epoch=planner,
        assignments=None if mode == "managed" else cut,
    )
    return [*map(encode, shards), encode(head)]


def taken(mailbox, messages):
    return [mailbox.take(key, value) for key, value in messages]


def test_a_plan_counts_once_all_of_its_shards_are_there(monkeypatch):
    monkeypatch.setattr(cutting, "WHOLE_BYTES", 1)
    messages = written(1, a=[0], b=[1], c=[2])
    assert len(messages) == 4
    mailbox = PlanMailbox("g")
    assert taken(mailbox, messages[1:]) == [False] * 3, "a shard is missing"
    assert mailbox.newest is None
    assert taken(mailbox, messages) == [False, False, False, True]
    assert mailbox.newest.assignments == {"a": {"t": (0,)}, "b": {"t": (1,)}, "c": {"t": (2,)}}
    assert taken(mailbox, messages)[-1] is False, "the same plan, written again"
    # Shards of another plan do not complete a head.
    other = written(2, a=[0], b=[2], c=[1])
    assert taken(PlanMailbox("g"), [*messages[:3], other[3]])[-1] is False


def test_an_older_plan_another_group_and_garbage_change_nothing():
    mailbox = PlanMailbox("g")
    taken(mailbox, written(5, a=[0]))
    newest = mailbox.newest
    assert taken(mailbox, written(4, a=[1])) == [False, False]
    assert taken(mailbox, written(6, group="other", a=[1])) == [False, False]
    key = encode_key(("g", "g"))
    assert (
        taken(mailbox, [(key, b"?"), (key, b'{"v": 99}'), (None, None), (b"[]", b"{}")])
        == [False] * 4
    )
    assert mailbox.newest == newest
    assert taken(mailbox, written(1, planner=2, a=[1]))[-1], "a later planner"


@pytest.mark.parametrize("mode", ["managed", "advisory"])
def test_a_plan_that_is_not_for_assignors_ends_the_last_one(mode):
    mailbox = PlanMailbox("g")
    taken(mailbox, written(1, a=[0]))
    assert taken(mailbox, written(2, mode=mode, a=[1]))[-1]
    assert mailbox.newest is None
    taken(mailbox, written(3, a=[0]))
    assert mailbox.take(encode_key(Tombstone(("g", "g")).key), None)
    assert mailbox.newest is None


@given(st.binary(max_size=60))
def test_bytes_of_a_shard_never_break_a_reader(raw):
    shard = PlanShard(group="g", shard=0, group_epoch=1, digest="d", assignments={"a": {"t": (1,)}})
    mailbox = PlanMailbox("g")
    mailbox.take(encode_key(shard.key), raw)
    key, value = encode(shard)
    mailbox.take(key, value[: len(raw)])
    assert mailbox.newest is None

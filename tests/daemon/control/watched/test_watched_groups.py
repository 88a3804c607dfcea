"""Plans of groups that Kafka's coordinator manages, published for others to apply."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import GroupRecord, PlanShard, Tombstone, cutting
from levelwind.assignors.protocol.records.shards import planned_assignments
from levelwind.daemon.control.boundary.control_events import (
    ProxiedMembersChanged,
    ProxyChanged,
    RecordReceived,
)
from levelwind.daemon.control.context import Clock
from levelwind.daemon.control.controller import step
from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
from levelwind.daemon.control.members.proxied_members import ProxiedMember
from levelwind_testing.control.play import Play
from levelwind_testing.records import lag, member, racks_trigger, request, topic

SIX = topic("t", (("a",),) * 3 + (("b",),) * 3)


def owned(*behind, owner, members=("m0", "m1"), racks=None, at=100_000, **more):
    """Lag of a topic whose partitions have owners, by index of `members`."""
    return lag(*behind, at=at, members=members, owner=owner, member_racks=racks, **more)


def newest_plan(play):
    """The newest plan and the assignment that its shards hold, as a reader finds them."""
    kept = {record.key: record for record in play.log}
    plan = kept.get(("g", "g"))
    if plan is None or isinstance(plan, Tombstone):
        return None, None
    shards = {record.shard: record for record in kept.values() if isinstance(record, PlanShard)}
    planned = planned_assignments(plan, shards)
    return plan, {name: ranges.texts(share).get("t", "") for name, share in planned.items()}


def follow(play, *behind, **more):
    """Let the group's leader apply the newest plan: the pipeline then sees other owners."""
    _, planned = newest_plan(play)
    names = sorted(planned)
    owner = [None] * len(behind)
    for index, name in enumerate(names):
        for number in ranges.parse(planned[name]):
            owner[number] = index
    play.receive(
        "lag",
        owned(*behind, owner=tuple(owner), members=tuple(names), at=round(play.now * 1000), **more),
    )


def test_a_published_plan_has_shards_with_its_epoch_and_digest_before_its_record():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, -1)))
    play.wait(2)
    plan, planned = newest_plan(play)
    assert (plan.mode, plan.cause, plan.group_epoch) == ("published", "membership", 1)
    assert [entry.instance for entry in plan.members] == ["m0", "m1"]
    assert sorted(len(ranges.parse(share)) for share in planned.values()) == [3, 3]
    kinds = [type(record) for record in play.steps[-1]]
    assert kinds == [PlanShard, GroupRecord]
    assert play.plans[-1]["mode"] == "published"
    assert play.members == {}, "nobody announces anything"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("mode", ["published", "proxy", "advisory"])
def test_what_a_freeze_left_uneven_gets_a_whole_plan_after_the_thaw(mode, restarts):
    play = Play(strategy="uniform", modes={"g": mode})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(3)
    assert newest_plan(play)[1] == {"m0": "0-2", "m1": "3-5"}
    play.frozen = {FreezeReason.METADATA: "no layout of the cluster for more than 30 s"}
    play.wait(1)
    others = owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 2), members=("m0", "m2", "m3"))
    play.receive("lag", replace(others, at=round(play.now * 1000)))
    play.wait(60)
    assert newest_plan(play)[1]["m0"] == "0-2", "nothing that works is moved"
    assert len(play.plans) == 2
    follow(play, 0, 0, 0, 0, 0, 0)
    if restarts:
        play.restart()
        play.wait(15)
        assert len(play.plans) == 2
    play.frozen = {}
    play.wait(15)
    assert len(play.plans) == 3
    assert {len(ranges.parse(share)) for share in newest_plan(play)[1].values()} == {2}
    follow(play, 0, 0, 0, 0, 0, 0)
    play.wait(60)
    assert len(play.plans) == 3


def test_how_the_proxy_stands_to_a_group_is_published_and_changes_nothing():
    play = Play(strategy="uniform", modes={"g": "proxy"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, -1)))
    play.wait(2)
    plan, _ = newest_plan(play)
    assert plan.mode == "proxy"
    before = play.state.groups["g"]
    state, effects = step(
        play.state,
        ProxyChanged(group="g", standing="leading", reason=""),
        Clock(now=play.now, at=round(play.now * 1000)),
    )
    (published,) = effects
    ((kind, record),) = published.records
    assert (kind, record.key, record.standing) == ("assignments", ("proxy", "g"), "leading")
    _, effects = step(
        state,
        RecordReceived(kind="assignments", record=replace(record, group="unknown")),
        Clock(now=play.now, at=1),
    )
    assert effects == []
    assert state.groups["g"] is before
    assert "unknown" not in state.groups


def proxied(**shares):
    """Members as the leader proxy sees them; shares are partitions of `t`, by member."""
    return {
        name: ProxiedMember(
            topics=frozenset({"t"}), rack=None, owned=frozenset(("t", number) for number in share)
        )
        for name, share in shares.items()
    }


def changed(members):
    return ProxiedMembersChanged(group="g", members=members)


def test_a_newcomer_that_the_proxy_sees_is_planned_for_before_any_lag_names_it():
    play = Play(strategy="uniform", modes={"g": "proxy"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(3)
    assert newest_plan(play)[1] == {"m0": "0-2", "m1": "3-5"}
    play.give(changed(proxied(m0=[0, 1, 2], m1=[3, 4, 5], m2=[])))
    play.wait(3)
    plan, planned = newest_plan(play)
    assert plan.cause == "membership"
    assert [entry.instance for entry in plan.members] == ["m0", "m1", "m2"]
    assert sorted(map(len, map(ranges.parse, planned.values()))) == [2, 2, 2]
    kept = [set(ranges.parse(planned[name])) for name in ("m0", "m1")]
    assert [len(kept[0] & {0, 1, 2}), len(kept[1] & {3, 4, 5})] == [2, 2], "owners are known, too"
    # Lag of before, which names two members, takes nothing back.
    play.receive("lag", owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1), at=104_000))
    play.wait(5)
    assert len(play.plans) == 2
    # Another member leads: what the pipeline knows counts again.
    play.give(changed(None))
    play.wait(3)
    assert newest_plan(play)[1] == {"m0": "0-2", "m1": "3-5"}


def test_members_that_the_proxy_sees_as_the_pipeline_does_make_no_plan():
    play = Play(strategy="uniform", modes={"g": "proxy"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(3)
    play.give(changed(proxied(m0=[0, 1, 2], m1=[3, 4, 5])))
    play.wait(5)
    assert len(play.plans) == 1


def test_a_plan_of_a_led_group_counts_as_followed_once_the_pipeline_sees_its_owners():
    play = Play(strategy="uniform", modes={"g": "proxy"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 1)))
    play.wait(3)
    shares = {name: ranges.parse(share) for name, share in newest_plan(play)[1].items()}
    play.give(changed(proxied(**shares)))
    play.wait(2)
    assert play.state.groups["g"].handover_since is not None, "triggers rest on the pipeline"
    follow(play, 0, 0, 0, 0, 0, 0)
    play.wait(1)
    assert play.state.groups["g"].handover_since is None
    assert len(play.plans) == 1


def test_members_of_a_led_group_are_planned_for_what_they_subscribe_to_alone():
    play = Play(strategy="uniform", modes={"g": "proxy"})
    other = replace(topic("u", SIX.racks), id="id-u")
    play.start(
        SIX,
        other,
        owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)),
        owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1), topic="u", topic_id=other.id),
    )
    play.wait(3)
    both = ProxiedMember(topics=frozenset({"t", "u", "unknown"}), rack=None, owned=frozenset())
    play.give(changed({"m0": both, "m1": both._replace(topics=frozenset({"t"}))}))
    play.wait(3)
    plan, _ = newest_plan(play)
    assert [entry.topics for entry in plan.members] == [("t", "u"), ("t",)]


def test_an_unchanged_group_gets_one_plan():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(5)
    for _ in range(5):
        follow(play, 0, 0, 0, 0, 0, 0)
        play.wait(10)
    assert len(play.plans) == 1


def test_the_wait_for_a_layout_ends_with_it_though_no_plan_follows():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(5)
    after = Play(strategy="uniform", modes={"g": "published"}, now=play.now)
    after.start(*play.kept(), owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    after.wait(5)
    after.receive("metadata", SIX)
    after.wait(5)
    assert [event["topics"] for event in after.logged("plan.waiting_for_topics")] == [["t"]]
    assert after.plans == []
    assert not after.state.groups["g"].waiting_for_topics


def test_a_group_without_a_mode_is_only_watched():
    play = Play(strategy="uniform")
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 1)))
    play.wait(10)
    assert play.plans == []


def test_racks_of_members_count_and_a_racks_trigger_moves_partitions():
    play = Play(strategy="uniform", modes={"g": "published"})
    behind = (0,) * 6
    play.start(SIX, owned(*behind, owner=(0, 0, 0, 1, 1, 1), racks=("a", "b")))
    play.wait(3)
    assert newest_plan(play)[1] == {"m0": "0-2", "m1": "3-5"}
    follow(play, *behind, racks=("a", "b"))
    play.wait(2)
    swapped = replace(SIX, at=play.now * 1000, racks=SIX.racks[::-1])
    play.receive("metadata", replace(swapped, at=round(swapped.at)))
    play.receive("triggers", racks_trigger(at=round(play.now * 1000)))
    play.wait(3)
    plan, planned = newest_plan(play)
    assert plan.cause == "racks"
    assert planned == {"m0": "3-5", "m1": "0-2"}


def test_a_member_that_joins_or_leaves_is_planned_for():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(3)
    # The brokers have given the new member something; a plan makes counts even.
    third = owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 2), members=("m0", "m1", "m2"))
    play.receive("lag", third)
    play.wait(3)
    assert sorted(map(len, map(ranges.parse, newest_plan(play)[1].values()))) == [2, 2, 2]
    play.receive("lag", owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 0), members=("m0",)))
    play.wait(3)
    assert newest_plan(play)[1] == {"m0": "0-5"}
    epochs = [plan["group_epoch"] for plan in play.plans]
    assert epochs == sorted(set(epochs))


def test_an_operator_gets_a_plan():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(3)
    play.receive("control", request())
    play.wait(1)
    assert [plan["cause"] for plan in play.plans] == ["membership", "operator"]


def test_a_plan_that_nobody_applies_is_recommended_once():
    """`advisory`: the owners stay what they are, and the same advice is not repeated."""
    play = Play(strategy="uniform", modes={"g": "advisory"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 1)))
    play.wait(3)
    plan, planned = newest_plan(play)
    assert plan.mode == "advisory"
    assert sorted(map(len, map(ranges.parse, planned.values()))) == [3, 3]
    for _ in range(10):
        play.receive(
            "lag",
            owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 1), at=round(play.now * 1000)),
        )
        play.wait(30)
    assert len(play.plans) == 1


@pytest.mark.parametrize("mode", ["published", "advisory"])
def test_a_restarted_daemon_goes_on_from_the_published_plan(mode):
    play = Play(strategy="uniform", modes={"g": mode})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 1)))
    play.wait(3)
    before = newest_plan(play)
    play.restart()
    play.wait(10)
    assert newest_plan(play) == before
    assert len(play.plans) == 1
    play.receive("control", request())
    play.wait(1)
    assert newest_plan(play)[0].group_epoch > before[0].group_epoch


def test_a_group_that_is_no_longer_published_loses_its_plan_and_its_shards():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 1)))
    play.wait(3)
    play.modes = {}
    play.restart()
    kept = {record.key for record in play.kept()}
    assert not any(key[0] in ("g", "p") for key in kept)
    # The group may become a managed one, with epochs above those that assignors have seen.
    play.join(member("m0", topics=("t",)))
    play.wait(3)
    assert play.plans[-1]["mode"] == "managed"
    assert play.plans[-1]["group_epoch"] > 1


def test_members_that_announce_themselves_make_the_group_a_managed_one():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX)
    play.join(member("m0", topics=("t",)))
    play.wait(3)
    assert play.plans[-1]["mode"] == "managed"
    assert play.owned() == {"m0": "0-5"}


def test_lag_that_is_too_old_to_plan_by_makes_no_plan():
    play = Play(strategy="uniform", modes={"g": "published"})
    play.now = 10_000.0
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 1), at=1000))
    play.wait(10)
    assert play.plans == []


def test_a_plan_that_needs_fewer_shards_ends_the_others(monkeypatch):
    monkeypatch.setattr(cutting, "WHOLE_BYTES", 20)
    play = Play(strategy="uniform", modes={"g": "published"})
    play.start(SIX, owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 1, 1, 1)))
    play.wait(3)
    assert len([key for key in play.state.groups["g"].shards if key[0] == "p"]) == 1
    assert play.state.groups["g"].shards["p", "g"] == 2
    play.receive("lag", owned(0, 0, 0, 0, 0, 0, owner=(0, 0, 0, 0, 0, 0), members=("m0",)))
    play.wait(3)
    assert Tombstone(("p", "g", 1)) in play.log
    assert newest_plan(play)[1] == {"m0": "0-5"}

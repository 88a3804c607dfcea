"""Transcripts of the control: the records it receives, and what it publishes and logs."""

from dataclasses import replace

import pytest
from msgspec import structs

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import (
    GroupRecord,
    MemberAssignment,
    PlannedRacks,
    PlannerRecord,
    RackChange,
    RacksEvidence,
    Tombstone,
)
from levelwind.daemon.config.settings import load
from levelwind.daemon.control.settings import Cause, ControlSettings, CooldownSettings, PlanSettings
from levelwind_testing.control.play import SETTINGS, TIMERS, Play, begun
from levelwind_testing.records import (
    lag,
    member,
    racks_trigger,
    request,
    skew_trigger,
    topic,
    trigger,
)


@pytest.fixture
def play():
    return begun(topic())


def two_members(play):
    play.join(member("m0"), member("m1"))
    play.wait(2)
    return play


def test_it_leads_with_an_epoch_above_every_earlier_planner():
    play = Play()
    play.start(PlannerRecord(planner_epoch=7, instance="d0", started_at=1))
    assert isinstance(play.log[0], PlannerRecord)
    assert play.log[0].planner_epoch == 8


def test_of_several_records_of_planners_the_highest_epoch_counts_whichever_was_read_last():
    play = Play()
    play.start(
        PlannerRecord(planner_epoch=7, instance="d0", started_at=1),
        PlannerRecord(planner_epoch=3, instance="d0", started_at=0),
    )
    assert play.log[0].planner_epoch == 8


def test_a_group_that_came_and_went_is_forgotten(play):
    play.receive("lag", lag(1, 1, 1, 1))
    assert set(play.state.groups) == {"g"}
    play.receive("lag", Tombstone(("lag", "g", "t")))
    assert set(play.state.groups) == set()


def test_members_that_join_together_get_one_plan_once_they_have_settled(play):
    play.join(member("m0"), member("m1"))
    play.wait(0.5)
    assert play.plans == []
    play.wait(1)
    assert [p["cause"] for p in play.plans] == ["membership"]
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}


def test_a_plan_of_the_default_strategy_has_a_certificate():
    play = begun(topic(), strategy=ControlSettings().strategy)
    play.receive("lag", structs.replace(lag(9000, 30, 20, 10), rate=(0.0, None, 1.0, 0.5)))
    two_members(play)
    (published,) = play.plans
    (record,) = (r for r in play.log if isinstance(r, GroupRecord))
    assert record.strategy == published["strategy"] == "optimal"
    assert published["certificate"] == list(record.certificate.summary)
    assert published["certificate"][4] == "largest count 2, no plan is more even"
    # 9,030 records at an assumed 100 a second; alone the heaviest partition would be within 2 %.
    load = record.certificate.objectives["load"]
    assert (load.bound, load.value) == (90, 90.3)
    assert record.certificate.objectives["load"].partitions == ("t-0",)


def configured(tmp_path, text):
    """A control whose group is planned as a configuration says."""
    path = tmp_path / "levelwind.toml"
    path.write_text(text)
    play = Play(planning=load(path).planning_of("g"))
    play.start()
    return play


def test_a_drain_in_the_settings_empties_the_member_and_its_end_brings_it_back(tmp_path):
    play = configured(tmp_path, '[groups.g]\ndrain = ["m0", "left-long-ago"]')
    play.receive("metadata", topic())
    two_members(play)
    assert play.owned() == {"m0": "", "m1": "0-3"}
    play.planning = PlanSettings(strategy="optimal")
    play.receive("control", request(at=1))
    play.wait(5)
    assert sorted(len(ranges.parse(owned)) for owned in play.owned().values()) == [2, 2]


def test_a_member_that_joins_while_another_is_drained_gets_all_that_it_had(tmp_path):
    play = configured(tmp_path, '[groups.g]\ndrain = ["m0"]')
    play.receive("metadata", topic())
    play.join(member("m0"))
    play.wait(3)
    assert play.owned() == {"m0": "0-3"}  # nobody else could have it
    play.join(member("m1"))
    play.wait(5)
    assert play.owned() == {"m0": "", "m1": "0-3"}


def test_pins_and_evacuations_in_the_settings_hold(tmp_path):
    play = configured(tmp_path, '[groups.g]\nevacuate = ["a"]\npins.t = { 3 = "m0", 0 = "nobody" }')
    play.receive("metadata", topic())
    play.join(member("m0", rack="a"), member("m1", rack="b"))
    play.wait(3)
    assert play.owned() == {"m0": "3", "m1": "0-2"}


def test_no_more_moves_at_once_than_the_settings_allow(tmp_path):
    play = configured(tmp_path, "[groups.g]\nmax_moves = 1")
    play.receive("metadata", topic())
    play.join(member("m0"))
    play.wait(3)
    play.join(member("m1"))
    play.wait(5)
    assert play.plans[-1]["moved"] == 1
    assert "max_moves postponed the other moves" in play.plans[-1]["certificate"][-1]


def test_what_crosses_racks_is_weighed_by_what_arrives_where_the_settings_say_how_large_records_are(
    tmp_path,
):
    racks = (("a",), ("a",), ("a",), ("b",))
    arriving = structs.replace(lag(0, 0, 0, 0), rate=(0.0, 900.0, 800.0, 700.0))
    counted = Play(strategy="optimal")
    weighed = configured(tmp_path, "[groups.g]\nrecord_bytes = 100\nhorizon = 0")
    counted.start()
    for play in counted, weighed:
        play.receive("metadata", topic(racks=racks))
        play.receive("lag", arriving)
        play.join(member("m0", rack="a"), member("m1", rack="b"))
        play.wait(3)
    assert weighed.owned() == {
        "m0": "1-2",
        "m1": "0,3",
    }
    # One partition must cross: the one in which nothing arrives.
    cross_rack = weighed.plans[-1]["certificate"][1]
    assert cross_rack == "cross-rack 0.0%, no plan can do better"  # 1 of 2,401 records
    assert counted.plans[-1]["certificate"][1] == "cross-rack 25.0%, no plan can do better"


def test_members_that_never_stop_joining_get_a_plan_all_the_same(play):
    for i in range(12):
        play.join(member(f"m{i}"))
        play.wait(0.5)
    assert play.plans


def test_a_partition_that_moves_is_granted_only_after_its_owner_gave_it_up(play):
    play.join(member("m0"))
    play.wait(2)
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))
    play.wait(2, beat=False)
    assert play.owned() == {"m0": "0-3", "m1": ""}
    waiting = [r for r in play.log if isinstance(r, MemberAssignment) and r.instance == "m1"][-1]
    assert ranges.texts(waiting.pending) == {"t": "1,3"}
    revoked = [r for r in play.log if isinstance(r, MemberAssignment) and r.instance == "m0"][-1]
    play.join(member("m0", state="active", acked=revoked.member_epoch, owned=revoked.assigned))
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}


def test_a_member_that_leaves_frees_its_partitions_at_once(play):
    two_members(play)
    gone = play.members.pop(("m1", "i1"))
    play.receive("members", structs.replace(gone, state="left", owned={}))
    play.wait(1.5)
    assert play.owned() == {"m0": "0-3"}
    assert Tombstone(("m", "g", "m1", "i1")) in play.log


def test_a_silent_member_is_evicted_and_its_partitions_move_only_after_the_wait(play):
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(2)
    play.unresponsive.add(("m2", "i1"))
    play.wait(TIMERS.dead_after + 4)
    assert [e["instance"] for e in play.logged("member.evicted")] == ["m2"]
    play.wait(TIMERS.grant - 10)
    held = {
        place for (i, _), r in play.members.items() if i != "m2" for place in ranges.pairs(r.owned)
    }
    lost = ranges.pairs(play.members["m2", "i1"].owned)
    assert not held & lost
    play.wait(20)
    held = {
        place for (i, _), r in play.members.items() if i != "m2" for place in ranges.pairs(r.owned)
    }
    assert lost <= held
    assert ("members", Tombstone(("m", "g", "m2", "i1"))) in play.published


def test_most_members_silent_at_once_freezes_the_group_and_is_logged_once(play):
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(2)
    play.unresponsive |= {("m1", "i1"), ("m2", "i1")}
    play.wait(TIMERS.dead_after + 30)
    assert len(play.logged("group.frozen")) == 1
    assert play.logged("member.evicted") == []
    play.wait(TIMERS.revoke_timeout)
    assert len(play.logged("member.evicted")) == 2


def test_members_whose_heartbeats_are_spread_over_time_freeze_it_too(play):
    for i in range(6):
        play.join(member(f"m{i}"))
        play.wait(0.5)
    play.wait(5)
    play.unresponsive |= {(f"m{i}", "i1") for i in range(4)}
    spread = [structs.replace(play.members[f"m{i}", "i1"], heartbeat=50) for i in range(4)]
    for record in spread:
        play.receive("members", record)
        play.wait(0.5)
    play.wait(TIMERS.dead_after + 30)
    assert len(play.logged("group.frozen")) == 1
    assert play.logged("member.evicted") == []


def test_nothing_moves_in_a_frozen_group_even_when_a_member_joins(play):
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(2)
    play.unresponsive |= {("m1", "i1"), ("m2", "i1")}
    play.wait(TIMERS.dead_after + 2)
    assert play.logged("group.frozen")
    play.join(member("m3"))
    play.wait(10)
    assert len(play.plans) == 1


def test_silence_while_the_daemon_was_suspended_evicts_no_member(play):
    two_members(play)
    play.now += 200
    play.wait(1, beat=False)
    assert play.logged("member.evicted") == []
    play.wait(TIMERS.dead_after + TIMERS.revoke_timeout + 5, beat=False)
    assert len(play.logged("member.evicted")) == 2


def test_silence_while_the_reader_was_down_evicts_no_member(play):
    two_members(play)
    play.interrupted = True
    play.wait(200, beat=False)
    play.interrupted = False
    play.wait(5, beat=False)
    assert play.logged("member.evicted") == []


def test_topics_that_are_not_known_yet_are_waited_for_and_not_taken_away():
    play = begun(topic())
    two_members(play)
    after = Play(now=play.now, members=dict(play.members))
    kept = {(type(r), r.key): r for r in play.log if not isinstance(r, Tombstone)}
    after.start(*kept.values(), *play.members.values())
    after.wait(10)
    assert after.owned() == play.owned()
    assert after.plans == []
    assert [h["topics"] for h in after.logged("plan.waiting_for_topics")] == [["t"]]
    after.receive("metadata", topic())
    after.wait(5)
    assert after.owned() == play.owned()


@pytest.mark.parametrize("subscription", [{"topics": ("t", "u")}, {"topics": (), "pattern": "t|u"}])
def test_a_topic_whose_end_nothing_tells_of_any_more_is_not_waited_for(subscription):
    """Tombstones go after a day, and the last plan of a group without members stays."""
    play = begun(topic())
    play.receive("metadata", topic("u"))
    play.join(member("m0", **subscription))
    play.wait(10)
    play.leave("m0", "i1")
    play.wait(5)
    play.receive("metadata", Tombstone(("topic", "t")))
    play.wait(5)
    after = Play(now=play.now)
    after.start(topic("u"), *play.kept())
    after.wait(5)
    after.join(member("m0", incarnation="i2", **subscription))
    after.wait(10)
    assert after.owned_pairs() == [("u", number) for number in range(4)]


def test_topics_that_were_deleted_are_taken_away(play):
    two_members(play)
    play.receive("metadata", Tombstone(("topic", "t")))
    play.wait(3)
    assert play.owned() == {"m0": "", "m1": ""}


def test_a_group_whose_plan_fails_stays_as_it_is_and_others_are_planned(play):
    two_members(play)
    play.strategy = "no such strategy"
    play.join(member("m2"))
    play.wait(30)
    assert len(play.logged("plan.failed")) == 1
    assert play.owned() == {"m0": "0,2", "m1": "1,3", "m2": ""}


def test_a_request_whose_plan_fails_is_refused_once_and_for_all(play):
    two_members(play)
    play.strategy = "no such strategy"
    play.receive("control", request())
    play.join(member("m2"))
    play.wait(2)
    failed, *_ = play.logged("plan.failed")
    assert (failed["cause"], failed["retry_in"]) == ("operator", None)
    (refused,) = play.logged("request.refused")
    assert "no such strategy" in refused["reason"]
    play.strategy = "lag"
    play.restart()
    play.wait(30)
    assert "operator" not in [plan["cause"] for plan in play.plans]
    assert play.owned()["m2"]


def test_a_restarted_instance_keeps_its_partitions_and_makes_no_plan(play):
    two_members(play)
    gone = play.members.pop(("m1", "i1"))
    play.receive("members", structs.replace(gone, state="left", owned={}))
    play.join(member("m1", incarnation="i2"))
    play.wait(3)
    assert len(play.plans) == 1
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}


def test_a_second_incarnation_replaces_the_first_which_is_evicted(play):
    two_members(play)
    play.unresponsive.add(("m1", "i1"))
    play.join(member("m1", incarnation="i2"))
    assert [(e["instance"], e["incarnation"]) for e in play.logged("member.evicted")] == [
        ("m1", "i1")
    ]
    play.wait(TIMERS.grant + 2)
    assert ranges.texts(play.members["m1", "i2"].owned) == {"t": "1,3"}


def test_an_owner_that_no_record_knows_keeps_its_partitions_until_its_eviction_was_waited_out(play):
    play.join(member("m0"))
    play.unresponsive.add(("unknown", "i1"))
    unknown_owner = member("unknown", state="active", acked=3, owned={"t": (0,)})
    play.receive("members", unknown_owner)
    play.receive("members", structs.replace(unknown_owner, heartbeat=1))
    play.wait(TIMERS.grant - 2)
    assert play.owned() == {"m0": "1-3"}
    assert [e["instance"] for e in play.logged("member.evicted")] == ["unknown"]
    play.wait(4)
    assert play.owned() == {"m0": "0-3"}


def test_partitions_of_a_live_owner_whose_record_was_lost_are_given_to_no_other_member_at_once(
    play,
):
    two_members(play)
    kept = {(type(r), r.key): r for r in play.log if getattr(r, "instance", None) != "m0"}
    after = Play(now=play.now, members=dict(play.members), unresponsive={("m0", "i1")})
    after.start(*kept.values(), topic(), *play.members.values())
    after.wait(TIMERS.grant - 2)
    assert after.owned()["m1"] == "1,3"
    assert next(r.state for r in after.log if getattr(r, "instance", None) == "m0") == "evicted"


def test_a_member_that_leaves_with_partitions_is_evicted_rather_than_believed(play):
    two_members(play)
    gone = play.members.pop(("m1", "i1"))
    play.receive("members", structs.replace(gone, state="left"))
    play.wait(TIMERS.grant - 2)
    assert play.owned() == {"m0": "0,2"}
    play.wait(4)
    assert play.owned() == {"m0": "0-3"}


def test_two_processes_under_one_name_are_both_kept_out_until_one_is_left(play):
    play.join(member("m0"))
    play.wait(2)
    for life in range(4):
        play.join(member("twin", incarnation=f"i{life}"))
        play.wait(1)
    assert [c["instance"] for c in play.logged("member.duplicate_instance")] == ["twin"]
    for key in [("twin", "i0"), ("twin", "i1")]:
        play.unresponsive.add(key)
    play.wait(TIMERS.grant + 20)
    assert {incarnation.instance for incarnation in play.state.groups["g"].live} == {"m0"}
    play.unresponsive.add(("twin", "i2"))
    play.wait(TIMERS.dead_after + 8)
    assert {tuple(incarnation) for incarnation in play.state.groups["g"].live} == {
        ("m0", "i1"),
        ("twin", "i3"),
    }


def test_a_topic_that_grows_is_planned_again(play):
    two_members(play)
    play.receive("metadata", topic(racks=((),) * 6, at=5000))
    play.wait(2)
    assert [p["cause"] for p in play.plans] == ["membership", "topics"]
    assert play.owned() == {"m0": "0,2,4", "m1": "1,3,5"}


def test_a_leader_that_moves_is_no_cause_to_plan(play):
    two_members(play)
    play.receive("metadata", structs.replace(topic(at=5000), leader=(2, 2, 2, 2)))
    play.wait(5)
    assert len(play.plans) == 1


def skewed(play):
    """Put all lag on m0: its two partitions are far behind, m1's are not."""
    two_members(play)
    play.receive("lag", lag(60_000, 0, 50_000, 0))
    play.receive("triggers", skew_trigger())
    return play


def test_a_skew_that_a_plan_can_lower_is_lowered_right_after_a_plan_for_changed_members(play):
    skewed(play)
    play.wait(2)
    assert [plan["cause"] for plan in play.plans] == ["membership", "skew"]
    assert play.plans[-1]["after"]["skew"] < play.plans[-1]["before"]["skew"]
    assert play.logged("handover.settled")


def skewed_twice(play):
    """Have a skew lowered by a plan, whose cooldown holds back the next."""
    skewed(play)
    play.wait(2)
    behind = play.members["m0", "i1"].owned["t"]
    play.receive("lag", lag(*(60_000 * (number in behind) for number in range(4)), at=4000))
    play.receive("triggers", skew_trigger(at=4000, since=4000))
    return play


def test_a_skew_is_lowered_again_after_the_cooldown_of_the_last_plan_for_skew(play):
    skewed_twice(play)
    play.wait(50)
    assert [plan["cause"] for plan in play.plans] == ["membership", "skew"]
    assert {s["reason"] for s in play.logged("plan.suppressed")} == {"cooling down"}
    play.wait(15)
    assert [plan["cause"] for plan in play.plans] == ["membership", "skew", "skew"]
    skewed_again = play.members["m0", "i1"].owned["t"]
    behind = [60_000 * (number in skewed_again) for number in range(4)]
    play.receive("lag", lag(*behind, at=round(play.now * 1000)))
    play.wait(65)
    assert len(play.plans) == 3  # the same partitions moved twice for nothing: a longer cooldown
    play.wait(60)
    assert len(play.plans) == 4


def test_a_trigger_that_a_cooldown_suppressed_is_forgotten_when_it_is_cleared(play):
    skewed_twice(play)
    play.wait(10)
    play.receive("triggers", Tombstone(("skew", "g")))
    play.wait(120)
    assert [plan["cause"] for plan in play.plans] == ["membership", "skew"]
    assert play.logged("trigger.cleared")


def test_a_trigger_waits_for_the_end_of_the_hand_over_that_is_under_way():
    play = begun(
        topic(racks=((),) * 6), settings=replace(SETTINGS, cooldown=CooldownSettings(duration=0.5))
    )
    two_members(play)
    play.unresponsive.add(("m0", "i1"))
    busy = play.members["m0", "i1"]
    play.join(member("m2"))
    play.wait(2)
    play.receive("lag", lag(60_000, 0, 0, 50_000, 0, 0))
    play.receive("triggers", skew_trigger())
    for beat in range(4):
        play.wait(2)
        play.receive(
            "members", structs.replace(busy, heartbeat=100 + beat)
        )  # alive, and not done with its work yet
    assert [p["cause"] for p in play.plans] == ["membership", "membership"]
    revoked = [r for r in play.log if isinstance(r, MemberAssignment) and r.instance == "m0"][-1]
    play.unresponsive.clear()
    play.join(
        structs.replace(
            busy, state="active", acked_epoch=revoked.member_epoch, owned=revoked.assigned
        )
    )
    play.wait(2)
    assert play.plans[-1]["cause"] == "skew"


def test_a_trigger_that_is_repeated_is_logged_once(play):
    skewed(play)
    play.receive("triggers", skew_trigger(at=4000))
    play.receive("triggers", skew_trigger(at=5000))
    assert len(play.logged("trigger.raised")) == 1


def test_the_lag_of_a_topic_that_was_recreated_is_left_out_of_a_plan(play):
    two_members(play)
    play.receive("lag", lag(60_000, 0, 50_000, 0, topic_id="B" * 22))
    play.receive("control", request(at=10**9))
    assert play.plans[-1]["before"]["skew"] is None


def test_a_plan_that_gains_too_little_is_suppressed_with_its_figures(play):
    two_members(play)
    play.receive("lag", lag(30_000, 30_000, 0, 0))
    play.receive("triggers", skew_trigger())
    play.wait(70)
    play.wait(300)
    assert len(play.plans) == 1
    assert len(play.logged("plan.suppressed")) == 1  # and not again each minute
    last = play.logged("plan.suppressed")[-1]
    assert "gains" in last["reason"]
    assert last["before"] == last["after"]


def test_a_partition_that_alone_skews_its_group_is_reported_once_and_moves_nothing(play):
    two_members(play)
    play.receive("lag", lag(90_000, 0, 0, 0))
    play.receive("triggers", skew_trigger())
    play.wait(400)
    assert [(u["topic"], u["partition"]) for u in play.logged("partition.unsplittable")] == [
        ("t", 0)
    ]
    assert len(play.plans) == 1


def test_an_operators_request_is_followed_in_the_middle_of_a_cooldown(play):
    two_members(play)
    record = request(at=round(play.now * 1000))
    play.receive("control", record)
    assert [p["cause"] for p in play.plans] == ["membership", "operator"]


def test_an_operators_request_is_deleted_in_the_step_that_follows_it(play):
    two_members(play)
    record = request(at=5)
    play.receive("control", record)
    assert ("control", Tombstone(record.key)) in play.published
    play.wait(5)
    assert len(play.plans) == 2


RACKED = (("a",), ("b",), ("a",), ("b",))


def racked_group():
    play = begun(topic(racks=RACKED), strategy="range")
    play.join(member("m0", rack="a"), member("m1", rack="b"))
    play.wait(2)
    return play


def test_racks_that_changed_move_the_partitions_to_the_racks_of_their_replicas():
    play = racked_group()
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}
    play.receive("metadata", topic(racks=(("b",), ("a",), ("a",), ("b",)), at=9000))
    play.receive("triggers", racks_trigger())
    play.wait(65)
    assert play.plans[-1]["cause"] == "racks"
    assert play.owned() == {"m0": "1-2", "m1": "0,3"}
    assert play.plans[-1]["metadata_at"] == 9000


def test_a_trigger_on_a_topic_that_no_member_reads_any_more_is_cleared_all_the_same():
    play = racked_group()
    play.receive("metadata", topic(name="old", at=9500))
    evidence = RacksEvidence(topics={"old": {0: RackChange(before=("a",), after=("b",))}})
    play.receive("triggers", trigger(evidence, at=9500))
    play.wait(65)
    assert [r for r in play.log if isinstance(r, GroupRecord)][-1].metadata_at == 9500


def test_racks_that_changed_to_no_avail_confirm_the_plan_with_the_new_metadata():
    play = racked_group()
    play.receive("metadata", topic(racks=(("a", "b"),) * 4, at=9000))
    play.receive("triggers", racks_trigger())
    play.wait(65)
    assert len(play.plans) == 1
    confirmed = [r for r in play.log if isinstance(r, GroupRecord)][-1]
    assert (confirmed.metadata_at, confirmed.plan_id) == (9000, play.plans[0]["plan_id"])
    assert confirmed.topics["t"].racks == PlannedRacks(at=9000, racks=(("a", "b"),) * 4)


def test_a_plan_record_has_the_racks_that_the_plan_rests_on():
    play = racked_group()
    (plan,) = (record for record in play.log if isinstance(record, GroupRecord))
    assert plan.topics["t"].racks == PlannedRacks(at=topic().at, racks=RACKED)


def test_a_topic_that_grew_while_a_plan_was_confirmed_is_still_to_be_planned():
    play = racked_group()
    play.receive("metadata", topic(racks=(("a", "b"),) * 4, at=9000))
    play.receive("triggers", racks_trigger())
    play.wait(65)
    play.receive("metadata", topic(racks=(("a", "b"),) * 5, at=9500))
    play.wait(5)
    assert [plan["cause"] for plan in play.plans[1:]] == ["topics"]


def test_the_moves_of_a_cause_stop_at_its_budget():
    settings = replace(
        SETTINGS, cooldown=CooldownSettings(duration=1.0, moves_per_hour={Cause.SKEW: 1})
    )
    play = begun(topic(), settings=settings)
    skewed(play)
    play.wait(30)
    assert len(play.plans) == 1
    assert "budget" in play.logged("plan.suppressed")[-1]["reason"]


def test_a_daemon_that_restarts_goes_on_with_the_same_plan_and_moves_nothing(play):
    two_members(play)
    after = Play(now=play.now, members=dict(play.members))
    kept = {(type(r), r.key): r for r in play.log if not isinstance(r, Tombstone)}
    after.start(*kept.values(), topic(), *play.members.values())
    after.wait(20)
    assert after.plans == []
    assert after.owned() == play.owned()
    assert [r for r in after.log if isinstance(r, MemberAssignment)] == []


def test_a_daemon_that_restarts_in_the_middle_of_a_hand_over_waits_for_the_same_acknowledgement(
    play,
):
    play.join(member("m0"))
    play.wait(2)
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))
    play.wait(2, beat=False)
    after = Play(now=play.now, members=dict(play.members), unresponsive=set(play.unresponsive))
    kept = {(type(r), r.key): r for r in play.log if not isinstance(r, Tombstone)}
    after.start(*kept.values(), topic(), *play.members.values())
    after.wait(3)
    assert after.owned() == {"m0": "0-3", "m1": ""}
    revoked = [r for r in kept.values() if isinstance(r, MemberAssignment) and r.instance == "m0"][
        -1
    ]
    after.join(member("m0", state="active", acked=revoked.member_epoch, owned=revoked.assigned))
    assert after.owned() == {"m0": "0,2", "m1": "1,3"}
    assert after.plans == []


def test_members_that_left_while_no_daemon_ran_hold_no_partition(play):
    two_members(play)
    kept = {(type(r), r.key): r for r in play.log if not isinstance(r, Tombstone)}
    after = Play(now=play.now)
    after.start(
        *kept.values(), topic(), *(Tombstone(record.key) for record in play.members.values())
    )
    after.join(member("m0", incarnation="i2"), member("m1", incarnation="i2"))
    after.wait(2)
    assert after.owned() == {"m0": "0,2", "m1": "1,3"}


def test_members_that_vanished_while_no_daemon_ran_are_waited_out(play):
    two_members(play)
    kept = {(type(r), r.key): r for r in play.log if not isinstance(r, Tombstone)}
    after = Play(now=play.now)
    after.start(*kept.values(), topic())
    after.join(member("m0", incarnation="i2"), member("m1", incarnation="i2"))
    after.wait(TIMERS.grant - 2)
    assert after.owned() == {"m0": "", "m1": ""}
    after.wait(4)
    assert after.owned() == {"m0": "0,2", "m1": "1,3"}


def test_another_planner_with_a_higher_epoch_ends_this_one(play):
    play.receive("assignments", PlannerRecord(planner_epoch=99, instance="d2", started_at=1))
    assert play.events[-1].event == "fenced"


def test_a_planner_with_nothing_to_publish_says_now_and_then_that_it_leads(play):
    said = [record for record in play.log if isinstance(record, PlannerRecord)][-1:]
    play.log.clear()
    for _ in range(3 * 60):
        play.wait(60, step=60)
    again = [record for record in play.log if isinstance(record, PlannerRecord)]
    assert again == said * 3


def test_even_input_brings_no_plan_for_a_simulated_day():
    play = begun(topic())
    two_members(play)
    for _ in range(24 * 6):
        play.receive("lag", lag(100, 100, 100, 100))
        play.wait(600 / 100)
    assert len(play.plans) == 1
    assert len([r for r in play.log if isinstance(r, MemberAssignment)]) == 4
